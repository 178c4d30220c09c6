"""What stands between the loop and a back end that is pushed to: a bounded queue, and a thread that sends from it.

A back end that is slow, full or gone costs the loop nothing and memory at most the queue: the oldest batch goes first.
"""

import logging
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from collector.clock import Clock
from exporter.log import say

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Data points of a batch that were taken, and those left out or refused, by reason."""

    sent: int
    rejected: Mapping[str, int] = field(default_factory=dict)


class Unsent(Exception):
    """A batch was not taken. `again`: it is worth another try, not before `after_seconds`."""

    def __init__(self, reason: str, detail: str = "", *, again: bool = True, after_seconds: float = 0.0) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.again = again
        self.after_seconds = after_seconds


@dataclass(slots=True)
class Tally:
    """What came of the batches so far. `last_success` is Unix time."""

    batches: Counter[str] = field(default_factory=lambda: Counter(sent=0, dropped=0))
    failures: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    last_success: float | None = None


class Outbox(Generic[T]):
    """Batches on their way to one sink, in order. `send` runs on a thread of its own and raises Unsent when it failed.

    `given_up` is told each batch that is dropped, on whichever thread drops it, and says what came of it before.
    """

    def __init__(
        self, sink: str, send: Callable[[T], Receipt], clock: Clock, *, size: int,
        given_up: Callable[[T], Receipt] = lambda _batch: Receipt(0),
        first_pause_seconds: float = 1.0, longest_pause_seconds: float = 60.0,
    ) -> None:  # fmt: skip
        self.sink = sink
        self.tally = Tally()
        self._send = send
        self._given_up = given_up
        self._clock = clock
        self._size = size
        self._pauses = (first_pause_seconds, longest_pause_seconds)
        self._waiting: deque[T] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._failed_in_a_row = 0
        self._at_hand: T | None = None
        self._thread = threading.Thread(target=self._work, name=f"outbox-{sink}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting) + (self._at_hand is not None)

    def put(self, batch: T) -> None:
        """Queue a batch; never blocks for longer than a glance at the queue."""
        with self._changed:
            if self._closing:
                self._drop(batch)
                return
            if len(self._waiting) >= self._size:
                self._drop(self._waiting.popleft())
            self._waiting.append(batch)
            self._changed.notify()

    def close(self, *, within_seconds: float) -> None:
        """Send what waits, one attempt each and without pauses; what is left by then counts as dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(within_seconds)
        with self._changed:
            left = [*([] if self._at_hand is None else [self._at_hand]), *self._waiting]
            self._waiting.clear()
            for batch in left:
                self._drop(batch)
        if left:
            say(_log, logging.WARNING, "not everything was sent before the end", sink=self.sink, batches=len(left))

    def _drop(self, batch: T) -> None:
        self.tally.batches["dropped"] += 1
        self._count(self._given_up(batch))

    def _count(self, receipt: Receipt) -> None:
        with self._changed:
            self.tally.sent += receipt.sent
            self.tally.rejected.update(receipt.rejected)

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            while (pause := self._attempt(batch)) is not None:
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, timeout=pause)
            self._at_hand = None

    def _next(self) -> T | None:
        """The oldest batch, out of the queue from now on; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._at_hand = self._waiting.popleft() if self._waiting else None
            return self._at_hand

    def _attempt(self, batch: T) -> float | None:
        """Seconds to wait before the next attempt; None when the batch is dealt with."""
        try:
            receipt = self._send(batch)
        except Unsent as error:
            return self._failed(batch, error)
        except Exception as error:
            say(_log, logging.ERROR, "a batch could not be sent", sink=self.sink, error=repr(error))
            return self._failed(batch, Unsent("defect", again=False))
        if self._failed_in_a_row:
            say(_log, logging.INFO, "sending again", sink=self.sink, failed_attempts=self._failed_in_a_row)
        self._failed_in_a_row = 0
        self.tally.batches["sent"] += 1
        self._count(receipt)
        self.tally.last_success = self._clock.now().wall
        return None

    def _failed(self, batch: T, error: Unsent) -> float | None:
        self.tally.failures[error.reason] += 1
        if not self._failed_in_a_row:
            say(_log, logging.WARNING, "sending failed", sink=self.sink, error=str(error), again=error.again)
        self._failed_in_a_row += 1
        # With a full queue the batch at hand is the oldest and makes room for the next.
        if not error.again or self._closing or len(self._waiting) >= self._size:
            self._drop(batch)
            return None
        first, longest = self._pauses
        # Jitter: replicas that failed together do not come back together.
        backed_off: float = min(longest, first * 2.0 ** min(self._failed_in_a_row - 1, 16)) * random.uniform(0.5, 1.0)
        return max(backed_off, min(error.after_seconds, longest))
