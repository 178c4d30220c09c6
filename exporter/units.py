"""Durations and sizes as people write them: `50ms`, `1s`, `5m`, `16MiB`."""

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 8760 * 3600.0


def parse_duration(text: object) -> float:
    """Seconds, from a millisecond to a year. ValueError says what would be right."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text) if isinstance(text, str) else None
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"expected a duration from 1ms to 8760h, such as 50ms, 1s or 5m, got {_shown(text)}")
    return seconds


def parse_size(text: object) -> int:
    """Bytes, above zero. ValueError says what would be right."""
    match = re.fullmatch(r"([0-9]{1,12})(B|KiB|MiB|GiB)", text) if isinstance(text, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError(f"expected a size above zero such as 512KiB or 16MiB, got {_shown(text)}")
    return int(match[1]) * _BYTES[match[2]]


def _shown(value: object) -> str:
    """What was found, cut short; of what is no single value only its kind."""
    if value is None:
        return "nothing"
    if not isinstance(value, str | int | float):
        return f"a {type(value).__name__}"
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 50 else f"{text[:50]}..."


def show_duration(seconds: float) -> str:
    """Seconds as people write them: the reverse of parse_duration."""
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds * 1000:.12g}ms" if seconds < 1 else f"{seconds:.12g}s"
