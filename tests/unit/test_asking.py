"""When servers are asked for their details, and that whatever they do disturbs nothing."""

import asyncio
import json
from typing import Any

import pytest

from collector.model import Target
from collector.read import Body
from collector.reasons import FailureReason, ReadError
from collector.state import State
from exporter.asking import _AT_ONCE, ask_due, keep_asking
from tests.make import HandClock, counts, failure, pod_row, reading, state, target, values

EVERY = 60.0
POD = target()


class Server:
    """Says a version, counts who asks at once."""

    def __init__(self, version: str = "1.0") -> None:
        self.version = version
        self.asked: list[str] = []
        self.now = self.most = 0

    async def __call__(self, where: Target, path: str = "") -> Body:
        self.asked.append(f"{where.pod}{path}")
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if not self.version:
            raise ReadError(FailureReason.TIMEOUT, "no complete answer")
        return Body(json.dumps({"version": self.version, "data": []}).encode(), "application/json")


def good(core: State, clock: HandClock, pod: Target = POD, tokens: int = 50, started: float | None = None) -> None:
    page = values(counts(generation_tokens=tokens, prompt_tokens=tokens), progress=1.0, requests_running=1.0, started_at=started)
    core.absorb(reading(pod, page, clock.now()))


def version(core: State, clock: HandClock) -> str:
    return pod_row(core.snapshot(clock.now())).info["version"]


async def test_asked_once_after_the_first_good_reading_then_every_minute() -> None:
    core, clock, server = state(POD), HandClock(), Server()
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 0
    core.absorb(failure(POD, clock.now()))
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 0
    good(core, clock)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 1
    assert server.asked == ["p0/version", "p0/v1/models"]
    assert version(core, clock) == "1.0"
    for _ in range(59):
        clock.move(1)
        good(core, clock)
        assert await ask_due(core, server, clock, every_seconds=EVERY) == 0
    clock.move(1)
    good(core, clock)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 1


@pytest.mark.parametrize("tells", [True, False])
async def test_asked_again_after_a_restart(tells: bool) -> None:
    core, clock, server = state(POD), HandClock(), Server()
    good(core, clock, started=clock.wall - 500 if tells else None)
    await ask_due(core, server, clock, every_seconds=EVERY)
    server.version = "2.0"
    clock.move(5)
    good(core, clock, tokens=3, started=clock.wall - 1 if tells else None)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 1
    assert version(core, clock) == "2.0"


async def test_a_failing_target_is_left_alone_and_asked_when_it_is_back() -> None:
    core, clock, server = state(POD), HandClock(), Server()
    good(core, clock)
    core.absorb(failure(POD, clock.move(1)))
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 0
    clock.move(1)
    good(core, clock)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 1


async def test_a_server_that_says_nothing_keeps_what_it_said() -> None:
    core, clock, server = state(POD), HandClock(), Server()
    good(core, clock)
    await ask_due(core, server, clock, every_seconds=EVERY)
    server.version = ""
    clock.move(61)
    good(core, clock)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 1
    assert version(core, clock) == "1.0"


async def test_few_at_a_time() -> None:
    pods = [target(f"p{number}") for number in range(50)]
    core, clock, server = state(*pods), HandClock(), Server()
    for pod in pods:
        good(core, clock, pod)
    assert await ask_due(core, server, clock, every_seconds=EVERY) == 50
    assert len(server.asked) == 100
    assert server.most == _AT_ONCE


async def test_a_target_that_goes_while_it_is_asked_is_forgotten() -> None:
    core, clock = state(POD), HandClock()
    good(core, clock)

    async def leaving(_where: Target, path: str = "") -> Body:
        core.watch([], clock.now())
        return Body(b'{"version": "1"}', "application/json")

    assert await ask_due(core, leaving, clock, every_seconds=EVERY) == 1
    assert core.tracks == {}


async def test_nothing_ends_the_loop() -> None:
    core, clock = state(POD), HandClock()
    good(core, clock)
    rounds: list[float] = []

    async def broken(_where: Target, path: str = "") -> Body:
        raise RuntimeError("a fault of our own")

    async def sleep(seconds: float) -> None:
        rounds.append(seconds)
        clock.move(61)
        good(core, clock)
        if len(rounds) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_asking(core, broken, clock, every_seconds=EVERY, sleep=sleep)
    assert len(rounds) == 3


def test_the_interval_is_a_setting() -> None:
    from exporter.config import parse_config

    text: Any = "cluster: c\nscrape: {details_interval: 5m}\n"
    assert parse_config(text).details_interval == 300.0
    assert parse_config("cluster: c").details_interval == 60.0
