"""The picker's feed as server-sent events: first all endpoints, then what changed, and a sign of life in between. Pure.

Each reader has a memory of its own of what it was sent, so one that is slow gets fewer events, never old ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from exporter.publish.picker import Edition

_KEY = ("namespace", "pool", "pod", "address")


def identity(entry: dict[str, Any]) -> tuple[str, ...]:
    """What an endpoint is told apart by."""
    return tuple(entry[name] for name in _KEY)


Told = dict[tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """What a reader knows after an event; the event is empty where nothing changed. The same for all who knew the same before."""

    number: int
    told: Told
    event: bytes


def step(before: Told | None, entries: Sequence[dict[str, Any]], *, number: int, now: float) -> Step:
    """From what was told, None at first, to what holds now: `endpoints` at first, then `changes`."""
    present = {identity(entry): entry for entry in entries}
    if before is None:
        return Step(number, present, event("endpoints", number, {"now": now, "endpoints": list(entries)}))
    changed = [entry for key, entry in present.items() if key not in before or _timeless(before[key]) != _timeless(entry)]
    gone = [dict(zip(_KEY, key, strict=True)) for key in before if key not in present]
    if not changed and not gone:
        return Step(number, present, b"")
    return Step(number, present, event("changes", number, {"now": now, "endpoints": changed, "removed": gone}))


class Story:
    """What one reader was told, and up to which number."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.told: Told | None = None

    def next(self, entries: Sequence[dict[str, Any]], *, number: int, now: float, alive: bool = False) -> bytes:
        """One event, or nothing; without a change `alive` where one is due. After `alive` what was told still holds."""
        return self.take(step(self.told, entries, number=number, now=now), now=now, alive=alive)

    def take(self, step: Step, *, now: float, alive: bool = False) -> bytes:
        """The event of a step from what this reader was told."""
        self.number, self.told = step.number, step.told
        return step.event or (event("alive", step.number, {"now": now}) if alive else b"")


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in Edition.TIMES}


def event(name: str, number: int, data: dict[str, Any]) -> bytes:
    """In the form of server-sent events; the number is that of `/picker/v1/endpoints`."""
    body = msgspec.json.encode({"snapshot": number, **data})
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, body)
