"""Headers whose values are secrets and so stand in files, read anew when those change."""

from collections.abc import Mapping

from collector.auth import Stamp, stamp
from exporter.publish.outbox import Unsent


class HeaderFiles:
    """Headers by name from the files that hold their values. Values are never shown."""

    def __init__(self, files: Mapping[str, str], *, ascii_only: bool = False) -> None:
        self._files = dict(files)
        self._ascii_only = ascii_only
        self._known: dict[str, tuple[Stamp, str]] = {}

    def read(self) -> dict[str, str]:
        """All headers now. A file that vanished is being replaced: what it held stays in use. Unsent without any value."""
        return {name: self._value(name, path) for name, path in self._files.items()}

    def _value(self, name: str, path: str) -> str:
        known = self._known.get(name)
        try:
            now = stamp(path)
            if known is None or known[0] != now:
                known = self._known[name] = (now, value_in(path, ascii_only=self._ascii_only))
        except (OSError, ValueError) as error:
            if known is None:
                told = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
                raise Unsent("unauthorized", f"header {name}: {path}: {told}") from None
        return known[1]


def value_in(path: str, *, ascii_only: bool = False) -> str:
    """The value that a file holds; gRPC takes ASCII alone. OSError, or ValueError that says what was expected."""
    with open(path, encoding="latin-1") as file:
        value = file.read().strip()
    if not value or not value.isprintable():
        raise ValueError("expected one line of text")
    if ascii_only and not value.isascii():
        raise ValueError("expected plain ASCII characters, since gRPC carries no others")
    return value
