"""Durations as PromQL and rule files spell them, `90s`, `2m`, `1h`, `30d`, and back."""

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(text: str) -> int:
    """Seconds of one number with one unit. ValueError for anything else, nothing and zero included."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhdw])", text)
    if match is None:
        raise ValueError(f"expected a whole number of s, m, h, d or w such as 30s, 5m, 1h or 30d, got {text!r}")
    return int(match[1]) * _SECONDS[match[2]]


def show(seconds: int) -> str:
    """The shortest spelling, never in weeks: 90 is `90s`, 120 is `2m`."""
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"
