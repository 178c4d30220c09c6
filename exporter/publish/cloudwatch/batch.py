"""Data points to requests within the limits, packed small while they wait."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from exporter.publish.cloudwatch.limits import MOST_BYTES, MOST_DATA
from exporter.publish.outbox import Receipt

_QUICK = 1
"""Compression level: a third of the time of the usual one for a tenth more bytes."""


@dataclass(slots=True)
class Batch:
    """What one window sends in one request: packed pieces that are still to be sent, and what came of the others.

    A piece leaves the list once it was taken or refused, so that trying again never sends it twice.
    """

    start: float
    pieces: list[bytes]
    rejected: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    refusals: int = 0

    @property
    def receipt(self) -> Receipt:
        """What came of it so far."""
        return Receipt(self.sent, self.rejected)


def pack(data: Sequence[Any]) -> bytes:
    return zlib.compress(msgspec.json.encode(data), _QUICK)


def unpack(piece: bytes) -> list[Any]:
    found: list[Any] = msgspec.json.decode(zlib.decompress(piece))
    return found


def split(
    data: Iterable[dict[str, Any]], *, most_data: int = MOST_DATA, most_bytes: int = MOST_BYTES
) -> Iterator[list[dict[str, Any]]]:
    """The data in their order, in groups that fit into a request each."""
    group: list[dict[str, Any]] = []
    size = 0
    for datum in data:
        length = written_bytes(datum)
        if group and (len(group) >= most_data or size + length > most_bytes):
            yield group
            group, size = [], 0
        group.append(datum)
        size += length
    if group:
        yield group


def written_bytes(datum: dict[str, Any]) -> int:
    """Length in a request, which is written with blanks after commas and colons."""
    written = msgspec.json.encode(datum)
    return len(written) + written.count(b",") + written.count(b":") + 2
