"""From samples to batches, on a thread of its own: closes windows, checks and packs what they hold, if it is the writer.

The lease has word of what was sent, not of what waits: after a crash of the writer the next one writes the rest.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from collector.signals import Level
from collector.snapshot import Row
from exporter.log import say
from exporter.publish.cloudwatch import emf
from exporter.publish.cloudwatch.active import Active
from exporter.publish.cloudwatch.batch import Batch, pack, split
from exporter.publish.cloudwatch.data import Datum, as_parameter, heartbeat, make_data
from exporter.publish.cloudwatch.lease import Lease
from exporter.publish.cloudwatch.limits import MOST_VALUES, Reason, fault
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.cloudwatch.window import Place, Window, Windows

_log = logging.getLogger(__name__)
MOST_KEPT = 15
"""Windows that a stand-by keeps of those that the writer has not sent yet."""


class Feed:
    """Takes in samples; `put` gets a batch for each request that a window makes."""

    def __init__(self, settings: Settings, cluster: str, lease: Lease, put: Callable[[Batch], None]) -> None:
        self._settings = settings
        self._cluster = cluster
        self._lease = lease
        self._put = put
        self._windows = Windows(settings.period, settings.wanted)
        self._kept: deque[Window] = deque(maxlen=MOST_KEPT)
        # As many as can wait, so that what the outbox drops for want of room goes here as well.
        self._out: deque[Batch] = deque(maxlen=settings.max_queued_requests + 1)
        self._leasing = threading.Lock()
        self._writes: bool | None = None
        self._told: set[Reason] = set()
        self.active = Active(most_metrics=settings.max_metrics, most_pods=settings.max_pods)

    def take(self, rows: Iterable[Row], wall: float) -> None:
        """One sample at that Unix time."""
        rows = tuple(rows)
        closed = self._windows.take(rows, wall)
        before, self._writes = self._writes, self._is_writer()
        if self._writes and before is False:
            self._take_over([*self._kept, *([] if closed is None else [closed])])
        elif closed is not None and self._writes:
            self._write(closed)
        elif closed is not None:
            until = self._lease.handed_over()
            self._kept = deque((one for one in (*self._kept, closed) if until <= one.start), MOST_KEPT)
        self.note_sent()
        # Only now: the window that ended bears the name that it began with.
        self._cluster = rows[0].labels[0] if rows else self._cluster

    def finish(self, rows: Iterable[Row], wall: float) -> None:
        """The last sample: what is open so far goes out."""
        self.take(rows, wall)
        if self._writes:
            self._write(self._windows.close())
            self.note_sent()

    def leave(self) -> None:
        """Let another one write; call when all was sent that can be."""
        with self._leasing:
            self._lease.release()

    def note_sent(self) -> None:
        """Leave word of the newest window that was sent whole; call from the thread that sends, after each batch."""
        with self._leasing:
            until = self._sent_until()
            if until is not None:
                self._note(until)

    def _sent_until(self) -> float | None:
        """End of the newest window that was sent whole; None when nothing was sent since the last look."""
        sent = [index for index, batch in enumerate(self._out) if not batch.pieces]
        if not sent:
            return None
        newest = [self._out.popleft() for _ in range(sent[-1] + 1)][-1].start
        in_part = bool(self._out) and self._out[0].start == newest
        return newest if in_part else newest + self._settings.period

    def _is_writer(self) -> bool:
        wrong = ""
        try:
            with self._leasing:
                held = self._lease.held()
        except OSError as error:
            held, wrong = False, str(error)
        if wrong and self._writes is not False:
            say(_log, logging.ERROR, "the lease cannot be had, nothing is written", error=wrong)
        elif not held and self._writes is not False:
            say(_log, logging.INFO, "another exporter writes to CloudWatch, this one stands by")
        return held

    def _take_over(self, windows: Iterable[Window]) -> None:
        """Go on where the writer before us ended: what it sent is not written again, what it did not is."""
        say(_log, logging.INFO, "this exporter writes to CloudWatch from now on")
        until = self._lease.handed_over()
        for window in windows:
            if until <= window.start:
                self._write(window)
        if until > self._windows.start:
            self._windows.close()
        if until:
            with self._leasing:
                self._note(until)
        self._kept.clear()

    def _note(self, wall: float) -> None:
        try:
            self._lease.note(wall)
        except OSError as error:
            say(_log, logging.WARNING, "the lease cannot be renewed", error=str(error))

    def _write(self, window: Window) -> None:
        self.active.expire(window.start)
        rejected: Counter[str] = Counter()
        if window.unusable:
            rejected[Reason.NOT_FINITE] += window.unusable
        pieces = list(self._pieces(self._data(window, rejected), window.start))
        if not pieces and rejected:
            pieces = [b""]
        # Counted with the first batch, since tallies are the outbox's.
        batches = [Batch(window.start, [piece] if piece else [], Counter() if index else rejected)
                   for index, piece in enumerate(pieces)]  # fmt: skip
        with self._leasing:
            self._out.extend(batch for batch in batches if batch.pieces)
        for batch in batches:
            self._put(batch)

    def _data(self, window: Window, rejected: Counter[str]) -> Iterator[Datum]:
        settings = self._settings
        most_values = emf.MOST_VALUES if settings.emf else MOST_VALUES
        cluster = next((labels[0] for _, labels in window.subjects), self._cluster)
        beat: tuple[Place, Datum] = ((Level.EXPORTER, (cluster,)), heartbeat(cluster))
        for place, datum in chain([beat], make_data(window, most_values=most_values)):
            reason = fault(datum) or self.active.refusal(place, datum, window.start)
            if reason is None:
                yield datum
                continue
            rejected[reason] += 1
            if reason not in self._told:
                self._told.add(reason)
                say(_log, logging.WARNING, "left out for CloudWatch, said once", reason=reason, metric=datum.name,
                    dimensions=dict(datum.dimensions))  # fmt: skip

    def _pieces(self, data: Iterable[Datum], start: float) -> Iterator[bytes]:
        settings = self._settings
        if settings.emf:
            documents = emf.documents(data, namespace=settings.namespace, log_group=settings.emf_log_group, start=start,
                                      resolution=settings.resolution)  # fmt: skip
            made: Iterable[dict[str, Any]] = ({"metrics": count, "document": document} for count, document in documents)
        else:
            made = (as_parameter(datum, start=start, resolution=settings.resolution) for datum in data)
        return (pack(group) for group in split(made))
