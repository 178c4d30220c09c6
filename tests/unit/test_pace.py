"""The pace of reading: phases that stay, pauses that grow, full pages that give way, tracebacks that do not flood."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from collector.model import Failure, Reading, Target
from collector.reasons import FailureReason
from collector.seldom import Seldom
from collector.signals import Lane
from collector.wheel import CEILING_SECONDS, Wheel, pause, spread, turn
from tests.make import at, failure, reading, target, values

ONE = target()


class Stage:
    """A clock that only `sleep` moves; ends the turn after so many looks."""

    def __init__(self, looks: int) -> None:
        self.now, self.looks = 100.0, looks
        self.begun: list[tuple[float, Lane]] = []

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if len(self.begun) >= self.looks:
            raise asyncio.CancelledError

    @property
    def moments(self) -> list[float]:
        return [round(moment - 100.0, 6) for moment, _ in self.begun]

    @property
    def lanes(self) -> str:
        return "".join("F" if lane is Lane.FULL else "f" for _, lane in self.begun)


async def play(
    stage: Stage, outcome: Callable[[int, Lane], bool], *, fast: float = 1.0, jitter: float = 1.0, stagger: float = 0.0
) -> None:
    """Turns whose outcome is good or not by number and lane."""

    async def look(of: Target, lane: Lane) -> Reading | Failure:
        stage.begun.append((stage.now, lane))
        good = outcome(len(stage.begun) - 1, lane)
        return reading(of, values(), at(0), lane=lane) if good else failure(of, at(0), lane=lane)

    with pytest.raises(asyncio.CancelledError):
        await turn(ONE, look, lambda _: None, fast_interval=fast, full_interval=5.0, phase=0.0, stagger=stagger, time=stage.time,
                   sleep=stage.sleep, jitter=lambda: jitter)  # fmt: skip


def test_pauses_grow_to_a_ceiling_and_are_never_equal_for_all() -> None:
    grown = [pause(failures, 0.1, 1.0) for failures in range(10)]
    assert grown == [0.0, 0.0, 0.0, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert pause(10_000, 0.05, 1.0) == CEILING_SECONDS
    assert pause(50, 0.1, 0.0) == 0.75 * CEILING_SECONDS
    assert pause(50, 30.0, 1.0) == 30.0, "a target that is read seldom is not asked more often because it is dead"


async def test_a_dead_target_is_asked_less_and_less_but_often_enough() -> None:
    stage = Stage(looks=14)
    await play(stage, lambda *_: False, fast=0.1)
    gaps = [round(after - before, 6) for before, after in zip(stage.moments, stage.moments[1:], strict=False)]
    assert gaps[:2] == [0.1, 0.1]
    assert gaps[2:7] == [0.2, 0.4, 0.8, 1.6, 2.0]
    assert max(gaps) == CEILING_SECONDS


async def test_it_is_back_at_full_pace_with_its_first_answer() -> None:
    stage = Stage(looks=14)
    await play(stage, lambda number, _: number >= 10, fast=0.1)
    assert all(after - before <= 0.1 + 1e-6 for before, after in zip(stage.moments[10:], stage.moments[11:], strict=False))


async def test_a_failing_full_page_leaves_every_other_turn_to_the_fast_lane() -> None:
    stage = Stage(looks=12)
    await play(stage, lambda number, lane: lane is Lane.FAST or number == 0)
    assert stage.lanes == "FffffFfFfFfF"
    assert stage.moments == list(map(float, range(12))), "as long as the fast lane works there is no pause"


async def test_before_the_first_answer_only_whole_pages_are_asked_for() -> None:
    stage = Stage(looks=6)
    await play(stage, lambda *_: False)
    assert stage.lanes == "FFFFFF"


async def test_full_pages_of_different_targets_are_spread_over_their_interval() -> None:
    stage = Stage(looks=11)
    await play(stage, lambda *_: True, stagger=0.6)
    assert [moment for moment, lane in zip(stage.moments, stage.lanes, strict=True) if lane == "F"] == [0.0, 2.0, 7.0]


@pytest.mark.parametrize("number", [1, 2, 3, 10, 100, 1000])
def test_phases_are_even_however_many_targets_there_are(number: int) -> None:
    phases = spread()
    taken = sorted(next(phases) for _ in range(number))
    gaps = [after - before for before, after in zip(taken, [*taken[1:], taken[0] + 1.0], strict=True)]
    assert all(0.0 <= phase < 1.0 for phase in taken)
    assert max(gaps) <= 2.7 / number


# --- the wheel ----------------------------------------------------------------------------------------------------------------


class Reads:
    """A reader that never answers by itself: tests see who is being read, and let go."""

    def __init__(self) -> None:
        self.under_way: dict[str, asyncio.Event] = {}
        self.seen: list[Target] = []
        self.cancelled: list[str] = []

    async def __call__(self, of: Target, lane: Lane) -> Reading | Failure:
        self.seen.append(of)
        self.under_way[of.url] = asyncio.Event()
        try:
            await self.under_way[of.url].wait()
        except asyncio.CancelledError:
            self.cancelled.append(of.url)
            raise
        return reading(of, values(), at(0), lane=lane)


async def until(true: Callable[[], bool]) -> None:
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited in vain")


async def test_a_change_of_the_set_is_no_event_for_those_who_stay() -> None:
    reads = Reads()
    wheel = Wheel(reads, lambda _: None, fast_interval=0.01, full_interval=0.05)
    first, second, third = (target(pod) for pod in "abc")
    wheel.replace((first, second))
    await until(lambda: len(reads.under_way) == 2)
    wheel.replace((second, third))
    await until(lambda: third.url in reads.under_way)
    await until(lambda: reads.cancelled == [first.url])
    assert [one.url for one in reads.seen].count(second.url) == 1
    wheel.stop()
    await until(lambda: len(reads.cancelled) == 3)


async def test_other_labels_reach_the_next_read_without_disturbing_the_one_under_way() -> None:
    reads = Reads()
    wheel = Wheel(reads, lambda _: None, fast_interval=0.01, full_interval=0.05)
    wheel.replace((target("a", url="http://h:1/metrics"),))
    await until(lambda: len(reads.seen) == 1)
    wheel.replace((target("b", url="http://h:1/metrics"),))
    reads.under_way["http://h:1/metrics"].set()
    await until(lambda: len(reads.seen) == 2)
    assert [one.pod for one in reads.seen] == ["a", "b"]
    assert reads.cancelled == []
    wheel.stop()


async def test_a_fault_in_our_own_code_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    broken = asyncio.Event()
    times = 0

    def sink(_: Reading | Failure) -> None:
        nonlocal times
        times += 1
        if times >= 50:
            broken.set()
        raise ZeroDivisionError

    async def look(of: Target, lane: Lane) -> Reading | Failure:
        return failure(of, at(0), reason=FailureReason.OTHER)

    wheel = Wheel(look, sink, fast_interval=0.001, full_interval=0.005)
    wheel.replace(tuple(target(f"p{number}") for number in range(10)))
    async with asyncio.timeout(10.0):
        await broken.wait()
    wheel.stop()
    assert len([record for record in caplog.records if record.exc_info]) == 1


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def test_the_same_fault_is_told_again_after_a_minute_and_another_at_once() -> None:
    seldom = Seldom()
    assert [seldom.worth(caught(ValueError()), now) for now in (0.0, 1.0, 59.9, 60.0, 61.0)] == [True, False, False, True, False]
    assert seldom.worth(caught(KeyError()), 61.0)
