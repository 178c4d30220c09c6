"""Many targets at once: a bad one costs only itself, is asked once at a time, and leaks nothing."""

import asyncio
import gc
import gzip
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from collector.clock import Instant, SystemClock
from collector.http import open_fetch
from collector.lanes import Reader
from collector.model import Failure, Reading, Target
from collector.read import Body, read
from collector.reasons import FailureReason
from collector.signals import Lane
from collector.wheel import Wheel, turn
from exporter.config import parse_config
from exporter.hub import Hub
from tests.net.scripted import PAGE, answer, drip, hang, say, serving
from tests.net.test_fetch import closed_port

DESCRIPTORS = Path("/proc/self/fd")


def config(*urls: str, deadline: str = "1s") -> str:
    lines = "".join(f"    - {url}\n" for url in urls)
    return (f"cluster: c\nscrape: {{fast_interval: 20ms, full_interval: 40ms, deadline: {deadline}}}\n"
            f"static_targets:\n- pool: p\n  urls:\n{lines}")  # fmt: skip


async def run_until(text: str, done: Callable[[Hub], bool], *, within: float = 15.0) -> Hub:
    """Read the targets of a configuration, for real, until the hub shows what is waited for."""
    settings = parse_config(text)
    hub = Hub(settings, SystemClock())
    reached = asyncio.Event()

    def sink(outcome: Reading | Failure) -> None:
        hub.take(outcome)
        if done(hub):
            reached.set()

    async with open_fetch(deadline_seconds=settings.deadline, max_body=settings.max_body) as fetch:
        wheel = Wheel(partial(read, fetch=fetch, clock=hub.clock), sink,
                      fast_interval=settings.fast_interval, full_interval=settings.full_interval)  # fmt: skip
        wheel.replace(settings.targets)
        try:
            await asyncio.wait_for(reached.wait(), within)
        finally:
            wheel.stop()
    return hub


async def test_a_bad_target_costs_only_itself() -> None:
    broken = say(answer(length=9999), close=True)
    bad_gzip = say(answer(gzip.compress(PAGE)[:20], headers={"Content-Encoding": "gzip"}))
    async with (
        serving(say(answer())) as good, serving(hang) as hanging, serving(drip) as dripping, serving(broken) as cut,
        serving(say(answer(b"", "500 Oh"))) as failing, serving(bad_gzip) as packed,
    ):  # fmt: skip
        bad = [hanging.url, dripping.url, cut.url, failing.url, packed.url, f"http://127.0.0.1:{closed_port()}/metrics"]
        hub = await run_until(config(*bad, good.url), lambda _: len(good.requests) >= 60 and hanging.in_flight == 1)
        endpoints = {one.target.url: one for one in hub.state.endpoints(hub.clock.now())}
    one = endpoints.pop(good.url)
    assert one.state == "fresh"
    assert one.age_seconds is not None
    assert one.age_seconds < 1.0
    assert one.failure is None
    assert all(other.sampled_at is None for other in endpoints.values())
    assert hub.state.tally.failures.keys() <= {FailureReason.TIMEOUT, FailureReason.CONNECTION_LOST, FailureReason.HTTP_STATUS,
                                               FailureReason.REFUSED}  # fmt: skip


async def test_a_hanging_target_is_never_asked_twice_at_once() -> None:
    async with serving(hang) as hanging:
        hub = await run_until(config(hanging.url, deadline="100ms"), lambda hub: hub.state.tally.failures.total() >= 6)
    assert hub.state.tally.failures == Counter({FailureReason.TIMEOUT: hub.state.tally.failures.total()})
    assert hanging.peak == 1
    assert len(hanging.requests) <= hub.state.tally.failures.total() + 1


async def test_a_failed_target_keeps_its_last_sample_and_comes_back() -> None:
    async with serving(say(answer(), answer(b"", "503 Loading"), answer(b"", "503 Loading"), answer())) as server:
        hub = await run_until(config(server.url), lambda _: len(server.requests) >= 6)
    assert hub.state.tally.failures == {FailureReason.HTTP_STATUS: 2}
    (endpoint,) = hub.state.endpoints(hub.clock.now())
    assert endpoint.failure is None
    assert endpoint.gauges["requests_running"] == 3.0


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors under /proc")
async def test_descriptors_stay_flat_over_three_hundred_failures() -> None:
    raws = [answer(length=9999), b"rubbish\r\n\r\n", b"", answer(b"", "500 Oh"), answer(b"<html>"),
            answer(gzip.compress(PAGE)[:20], headers={"Content-Encoding": "gzip"}),
            answer(b"", "302 Found", {"Location": "http://elsewhere.invalid/"}), answer(b"#" * 5000)]  # fmt: skip
    script = say(*(raws * 40), close=True)

    async def cycle(times: int) -> None:
        for _ in range(times):
            outcome = await read(target, Lane.FULL, fetch=fetch, clock=SystemClock())
            assert isinstance(outcome, Failure)

    async def opened() -> int:
        gc.collect()
        await asyncio.sleep(0)
        return len(os.listdir(DESCRIPTORS))

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=4096) as fetch:
        target = Target(url=server.url, namespace="default", pool="p", pod="a")
        await cycle(20)
        before = await opened()
        await cycle(300)
        assert abs(await opened() - before) <= 2


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors under /proc")
async def test_descriptors_stay_flat_over_timeouts() -> None:
    async with serving(hang) as server, open_fetch(deadline_seconds=0.01, max_body=4096) as fetch:
        target = Target(url=server.url, namespace="default", pool="p", pod="a")
        counts = []
        for _ in range(100):
            outcome = await read(target, Lane.FULL, fetch=fetch, clock=SystemClock())
            assert isinstance(outcome, Failure)
            counts.append(len(os.listdir(DESCRIPTORS)))
    assert max(counts[20:]) - min(counts[20:]) <= 3
    assert server.peak <= 2


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors under /proc")
async def test_descriptors_stay_flat_over_a_thousand_targets_that_come_fail_and_go() -> None:
    counts: list[int] = []
    async with (
        serving(say(answer())) as good, serving(say(answer(b"", "503 Oh"))) as failing, serving(hang) as hanging,
        open_fetch(deadline_seconds=0.02, max_body=4096) as client,
    ):  # fmt: skip
        asked = asyncio.Event()
        reader = Reader(client, SystemClock())

        def sink(_: Reading | Failure) -> None:
            asked.set()

        wheel = Wheel(reader, sink, fast_interval=0.001, full_interval=0.005)
        dead = f"http://127.0.0.1:{closed_port()}/metrics"
        for cycle in range(1000):
            url = (good.url, failing.url, dead, hanging.url if cycle % 40 == 3 else good.url)[cycle % 4]
            targets = (Target(url=f"{url}?{cycle}", namespace="default", pool="p", pod=str(cycle)),)
            asked.clear()
            client.keep(targets)
            reader.keep(targets)
            wheel.replace(targets)
            await asyncio.wait_for(asked.wait(), 5.0)
            counts.append(len(os.listdir(DESCRIPTORS)))
        wheel.stop()
    assert len(counts) == 1000
    assert max(counts[500:]) <= max(counts[20:200]) + 3
    assert max(counts) - min(counts) <= 20


async def test_one_target_that_sleeps_takes_nothing_from_forty_nine_others() -> None:
    """Real time, since it is the pace that is looked at: while the sleeper uses up its deadline, the others keep their age."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(say(answer()))) for _ in range(49)]
        sleeper = await stack.enter_async_context(serving(hang))
        text = config(sleeper.url, *(server.url for server in servers), deadline="10s")
        oldest: list[float] = []

        def done(hub: Hub) -> bool:
            ages = [one.age_seconds for one in hub.state.endpoints(hub.clock.now()) if one.target.url != sleeper.url]
            if None in ages:
                return False
            oldest.append(max(age for age in ages if age is not None))
            return len(oldest) >= 1000

        hub = await run_until(text, done, within=30.0)
        states = Counter(one.state for one in hub.state.endpoints(hub.clock.now()))
    assert sleeper.peak == 1
    assert states["fresh"] == 49
    ordinary = sorted(oldest)[int(len(oldest) * 0.9)]
    assert ordinary < 0.5, "twenty-five turns of 20 ms"


# --- the turn of one target, with time in our hand ----------------------------------------------------------------------------


TARGET = Target(url="http://127.0.0.1:1/metrics", namespace="default", pool="p", pod="a")


class Stage:
    """A clock that only `sleep` and slow reads move; ends the turn when it has had enough looks."""

    def __init__(self, *, looks: int) -> None:
        self.now = 100.0
        self.looks = looks
        self.begun: list[tuple[float, Lane]] = []

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds
        if len(self.begun) >= self.looks:
            raise asyncio.CancelledError

    def note(self, lane: Lane) -> None:
        self.begun.append((round(self.now - 100.0, 6), lane))


def good(lane: Lane) -> Reading:
    return Reading(target=TARGET, lane=lane, at=Instant(0.0, 0.0), engine="vllm", rows={})


def bad(lane: Lane) -> Failure:
    return Failure(target=TARGET, lane=lane, at=Instant(0.0, 0.0), reason=FailureReason.OTHER, detail="")


async def take_turns(
    stage: Stage, outcome: Callable[[Lane], Reading | Failure], *, takes: float = 0.0, phase: float = 0.0,
    sink: Callable[[Reading | Failure], None] = lambda _: None,
) -> None:  # fmt: skip
    async def look(_target: Target, lane: Lane) -> Reading | Failure:
        stage.note(lane)
        stage.now += takes
        return outcome(lane)

    with pytest.raises(asyncio.CancelledError):
        await turn(TARGET, look, sink, fast_interval=1.0, full_interval=5.0, phase=phase, time=stage.time, sleep=stage.sleep)


async def test_a_full_page_stands_for_each_fifth_fast_one() -> None:
    stage = Stage(looks=11)
    await take_turns(stage, good)
    assert [at for at, _ in stage.begun] == list(map(float, range(11)))
    assert [at for at, lane in stage.begun if lane is Lane.FULL] == [0.0, 5.0, 10.0]


async def test_each_target_has_its_own_phase() -> None:
    stage = Stage(looks=3)
    await take_turns(stage, good, phase=0.25)
    assert [at for at, _ in stage.begun] == [0.25, 1.25, 2.25]


async def test_a_slow_read_skips_the_turns_it_missed_and_keeps_the_phase() -> None:
    stage = Stage(looks=4)
    await take_turns(stage, good, takes=2.5)
    assert [at for at, _ in stage.begun] == [0.0, 3.0, 6.0, 9.0]


async def test_a_failed_full_page_is_asked_again_at_the_next_turn() -> None:
    stage = Stage(looks=3)
    await take_turns(stage, bad)
    assert [lane for _, lane in stage.begun] == [Lane.FULL] * 3


async def test_a_sink_that_breaks_does_not_end_the_reading(caplog: pytest.LogCaptureFixture) -> None:
    def break_down(_outcome: Reading | Failure) -> None:
        raise ZeroDivisionError

    stage = Stage(looks=3)
    await take_turns(stage, good, sink=break_down)
    assert len(stage.begun) == 3
    assert "ZeroDivisionError" in caplog.text


async def test_a_page_that_breaks_the_reader_is_a_failure_of_that_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> Reading:
        raise RecursionError("too clever a page")

    async def fetch(target: Target) -> Body:
        return Body(PAGE, "text/plain")

    monkeypatch.setattr("collector.read.understand", break_down)
    outcome = await read(TARGET, Lane.FULL, fetch=fetch, clock=SystemClock())
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.OTHER
    assert "too clever a page" in outcome.detail
