"""Headers whose values are secrets and so stand in files, read anew when those change."""

from collections.abc import Mapping

from collector.auth import Stamp, stamp
from exporter.publish.outbox import Unsent


class HeaderFiles:
    """Headers by name from the files that hold their values. Values are never shown."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)
        self._known: dict[str, tuple[Stamp, str]] = {}

    def read(self) -> dict[str, str]:
        """All headers now. A file that vanished is being replaced: what it held stays in use. Unsent without any value."""
        return {name: self._value(name, path) for name, path in self._files.items()}

    def _value(self, name: str, path: str) -> str:
        known = self._known.get(name)
        try:
            now = stamp(path)
            if known is None or known[0] != now:
                with open(path, encoding="latin-1") as file:
                    known = self._known[name] = (now, _single(file.read()))
        except (OSError, ValueError) as error:
            if known is None:
                told = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
                raise Unsent("unauthorized", f"header {name}: {path}: {told}") from None
        return known[1]


def _single(text: str) -> str:
    value = text.strip()
    if not value or not value.isprintable():
        raise ValueError("expected one line of text")
    return value
