"""Windows as embedded metric format: JSON lines that CloudWatch Logs, or the CloudWatch agent, turns into metrics.

Source: the specification of the embedded metric format in the CloudWatch user guide.
"""

import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from exporter.publish.cloudwatch.batch import Batch, unpack
from exporter.publish.cloudwatch.data import Datum, Dimensions
from exporter.publish.cloudwatch.spread import Spread
from exporter.publish.cloudwatch.window import Statistics
from exporter.publish.outbox import Receipt, Unsent

MOST_VALUES = 100
MOST_METRICS = 100
STDOUT = "stdout"
_PATIENCE_SECONDS = 5.0
_UNWANTED_BYTES = 4096
"""Read and forgotten: an agent has nothing to say."""


def documents(
    data: Iterable[Datum], *, namespace: str, log_group: str, start: float, resolution: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """One document for each set of dimensions, or several where it has many metrics; with the number of metrics in it."""
    by_place: dict[Dimensions, list[Datum]] = defaultdict(list)
    for datum in data:
        by_place[datum.dimensions].append(datum)
    for dimensions, mine in by_place.items():
        for first in range(0, len(mine), MOST_METRICS):
            part = mine[first : first + MOST_METRICS]
            metrics = [{"Name": one.name, "Unit": one.unit, "StorageResolution": resolution} for one in part]
            directive = {"Namespace": namespace, "Dimensions": [[name for name, _ in dimensions]], "Metrics": metrics}
            about = {"Timestamp": int(start * 1000), "LogGroupName": log_group, "CloudWatchMetrics": [directive]}
            yield len(part), {"_aws": about, **dict(dimensions), **{one.name: _value(one.value) for one in part}}


def _value(value: float | Statistics | Spread) -> Any:
    match value:
        case Statistics():
            return {"Count": value.count, "Sum": value.total, "Min": value.low, "Max": value.high}
        case Spread():
            total = sum(one * count for one, count in zip(value.values, value.counts, strict=True))
            return {"Values": value.values, "Counts": value.counts, "Count": value.count, "Sum": total,
                    "Min": value.values[0], "Max": value.values[-1]}  # fmt: skip
    return value


class EmfWriter:
    """Writes batches of documents to stdout or to the agent's TCP socket (`tcp://host:port`); runs on the outbox's thread."""

    def __init__(self, where: str, *, write: Callable[[bytes], None] | None = None) -> None:
        self._where = where
        self._write = write or (_to_stdout if where == STDOUT else self._to_socket)
        self._socket: socket.socket | None = None

    def __call__(self, batch: Batch) -> Receipt:
        while batch.pieces:
            found = unpack(batch.pieces[0])
            lines = b"".join(msgspec.json.encode(one["document"]) + b"\n" for one in found)
            try:
                self._write(lines)
            except OSError as error:
                self._close()
                raise Unsent("unreachable", f"{self._where}: {error.strerror or error}") from error
            batch.sent += sum(one["metrics"] for one in found)
            batch.pieces.pop(0)
        return batch.receipt

    def _to_socket(self, lines: bytes) -> None:
        if self._socket is not None and _ended(self._socket):
            self._close()
        if self._socket is None:
            where = urlsplit(self._where)
            self._socket = socket.create_connection((where.hostname or "", where.port or 0), timeout=_PATIENCE_SECONDS)
        self._socket.sendall(lines)

    def _close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


def _ended(connection: socket.socket) -> bool:
    """Whether the other side is gone since: what is written then is taken by the kernel and read by nobody."""
    connection.setblocking(False)
    try:
        return not connection.recv(_UNWANTED_BYTES)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(_PATIENCE_SECONDS)


def _to_stdout(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()
