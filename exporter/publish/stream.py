"""The picker's feed as server-sent events: first all endpoints, then what changed, and a sign of life in between. Pure.

Each reader has a memory of its own of what it was sent, so one that is slow gets fewer events, never old ones.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from exporter.publish.picker import Edition

_KEY = ("namespace", "pool", "pod", "address")


def identity(entry: dict[str, Any]) -> tuple[str, ...]:
    """What an endpoint is told apart by."""
    return tuple(entry[name] for name in _KEY)


class Story:
    """What one reader was told; `next` says what it has to be told now."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, ...], dict[str, Any]] | None = None

    def next(self, entries: Sequence[dict[str, Any]], *, number: int, now: float, alive: bool = False) -> bytes:
        """One event, `endpoints` at first, then `changes`; without a change `alive` where one is due, else nothing.

        After `alive` what was told still holds.
        """
        present = {identity(entry): entry for entry in entries}
        before, self._told = self._told, present
        if before is None:
            return event("endpoints", number, {"now": now, "endpoints": list(entries)})
        changed = [entry for key, entry in present.items() if key not in before or _timeless(before[key]) != _timeless(entry)]
        gone = [dict(zip(_KEY, key, strict=True)) for key in before if key not in present]
        if not changed and not gone:
            return event("alive", number, {"now": now}) if alive else b""
        return event("changes", number, {"now": now, "endpoints": changed, "removed": gone})


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in Edition.TIMES}


def event(name: str, number: int, data: dict[str, Any]) -> bytes:
    """In the form of server-sent events; the number is that of `/picker/v1/endpoints`."""
    body = msgspec.json.encode({"snapshot": number, **data})
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, body)
