"""The queue before a back end: order kept, bounded, patient, and at an end in time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from collector.clock import SystemClock
from exporter.publish.outbox import Outbox, Receipt, Unsent

PATIENCE_SECONDS = 10.0


class BackEnd:
    """Answers each attempt with what was planned for it, then takes everything."""

    def __init__(self, *plan: Exception | Receipt) -> None:
        self.plan = list(plan)
        self.taken: list[int] = []
        self.attempts = 0
        self.changed = threading.Condition()
        self.held = threading.Event()
        self.held.set()

    def send(self, batch: int) -> Receipt:
        with self.changed:
            self.attempts += 1
            self.changed.notify_all()
        assert self.held.wait(PATIENCE_SECONDS)
        answer = self.plan.pop(0) if self.plan else Receipt(1)
        if isinstance(answer, Exception):
            raise answer
        with self.changed:
            self.taken.append(batch)
            self.changed.notify_all()
        return answer

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_SECONDS)


@contextmanager
def outbox(back_end: BackEnd, size: int = 10) -> Iterator[Outbox[int]]:
    box = Outbox("test", back_end.send, SystemClock(), size=size, first_pause_seconds=0.001, longest_pause_seconds=0.002)
    yield box
    back_end.held.set()
    box.close(within_seconds=PATIENCE_SECONDS)


def test_batches_arrive_once_and_in_order_through_failures() -> None:
    back_end = BackEnd(Unsent("throttled"), Receipt(2), Unsent("timeout", after_seconds=0.001), Unsent("timeout"))
    with outbox(back_end) as box:
        for batch in range(5):
            box.put(batch)
        back_end.wait(lambda: len(back_end.taken) == 5)
    assert back_end.taken == [0, 1, 2, 3, 4]
    assert box.tally.failures == {"throttled": 1, "timeout": 2}
    assert box.tally.batches == {"sent": 5, "dropped": 0}
    assert box.tally.sent == 6
    assert box.tally.last_success is not None


def test_a_batch_that_cannot_be_taken_costs_itself_only() -> None:
    back_end = BackEnd(Unsent("bad_request", again=False), ValueError("a defect of ours"), Receipt(1, {"not_a_number": 3}))
    with outbox(back_end) as box:
        for batch in range(3):
            box.put(batch)
        back_end.wait(lambda: back_end.taken == [2])
    assert box.tally.batches == {"sent": 1, "dropped": 2}
    assert box.tally.failures == {"bad_request": 1, "defect": 1}
    assert box.tally.rejected == {"not_a_number": 3}


def test_a_full_queue_loses_its_oldest() -> None:
    back_end = BackEnd()
    back_end.held.clear()
    with outbox(back_end, size=2) as box:
        box.put(0)
        back_end.wait(lambda: back_end.attempts == 1)
        for batch in (1, 2, 3, 4):
            box.put(batch)
        assert len(box) == 3
        back_end.held.set()
        back_end.wait(lambda: len(back_end.taken) == 3)
    assert back_end.taken == [0, 3, 4]
    assert box.tally.batches == {"sent": 3, "dropped": 2}


def test_a_batch_that_fails_before_a_full_queue_makes_room() -> None:
    back_end = BackEnd(Unsent("timeout"))
    back_end.held.clear()
    with outbox(back_end, size=2) as box:
        box.put(0)
        back_end.wait(lambda: back_end.attempts == 1)
        box.put(1), box.put(2)
        back_end.held.set()
        back_end.wait(lambda: len(back_end.taken) == 2)
    assert back_end.taken == [1, 2]
    assert box.tally.batches == {"sent": 2, "dropped": 1}


def test_the_end_sends_what_waits_without_pauses() -> None:
    back_end = BackEnd(Unsent("timeout"))
    back_end.held.clear()
    box = Outbox("test", back_end.send, SystemClock(), size=9, first_pause_seconds=3600, longest_pause_seconds=3600)
    box.put(0), box.put(1)
    closing = threading.Thread(target=box.close, kwargs={"within_seconds": PATIENCE_SECONDS})
    back_end.wait(lambda: back_end.attempts == 1)
    closing.start()
    back_end.held.set()
    closing.join(PATIENCE_SECONDS)
    assert back_end.taken[-1] == 1
    assert len(box) == 0
    assert sum(box.tally.batches.values()) == 2


def test_a_back_end_that_hangs_does_not_hold_the_end_up() -> None:
    back_end = BackEnd()
    back_end.held.clear()
    box = Outbox("test", back_end.send, SystemClock(), size=9)
    box.put(0), box.put(1)
    back_end.wait(lambda: back_end.attempts == 1)
    box.close(within_seconds=0.05)
    assert box.tally.batches == {"sent": 0, "dropped": 2}
    box.put(2)
    assert box.tally.batches["dropped"] == 3
    back_end.held.set()


@pytest.mark.parametrize("failures", [1, 50])
def test_pauses_grow_and_end(failures: int) -> None:
    back_end = BackEnd(*(Unsent("timeout") for _ in range(failures)))
    with outbox(back_end) as box:
        box.put(7)
        back_end.wait(lambda: back_end.taken == [7])
    assert back_end.attempts == failures + 1


def test_what_came_of_a_batch_before_it_was_dropped_is_counted() -> None:
    """Whether it is dropped half sent, out of the queue, at the end or after it."""
    sent = {0: 5, 1: 0, 2: 7, 3: 0, 4: 0}
    back_end = BackEnd(Unsent("bad_request", again=False))
    back_end.held.clear()
    box = Outbox("test", back_end.send, SystemClock(), size=2, given_up=lambda one: Receipt(sent[one], {"not_finite": one}))
    box.put(0)
    back_end.wait(lambda: back_end.attempts == 1)
    box.put(1), box.put(2), box.put(3)
    back_end.held.set()
    back_end.wait(lambda: back_end.taken == [2, 3])
    back_end.held.clear()
    box.put(4)
    back_end.wait(lambda: back_end.attempts == 4)
    box.close(within_seconds=0.05)
    box.put(2)
    assert box.tally.batches == {"sent": 2, "dropped": 4}
    assert box.tally.sent == 2 + 5 + 7
    assert box.tally.rejected == {"not_finite": 0 + 1 + 4 + 2}
    back_end.held.set()
