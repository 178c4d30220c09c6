"""The cluster's feed over HTTP: the stream, a pod's page in the picker's names, and the example that follows the stream."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from exporter import feed
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.stream import step
from exporter.server import make_server
from tests.conftest import FakeClock
from tests.make import failure, reading, target, values
from tests.unit.test_sidecar_page import families

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "follow_endpoints.py"
A, B = target("a"), target("b")


@asynccontextmanager
async def served(clock: FakeClock) -> AsyncIterator[tuple[Hub, str]]:
    hub = Hub(parse_config("cluster: test").with_targets((A, B)), clock)
    busy(hub, A, waiting=3)
    busy(hub, B, waiting=5)
    async with TestServer(make_server(hub)) as server:
        yield hub, str(server.make_url("")).rstrip("/")


def busy(hub: Hub, one: Any, *, waiting: int) -> None:
    hub.take(reading(one, values(requests_running=1, requests_waiting=waiting, kv_cache_usage_max_ratio=0.5,
                                 kv_cache_usage_ratio=0.5), hub.clock.now()))  # fmt: skip


async def next_event(stream: aiohttp.StreamReader) -> tuple[str, dict[str, Any]]:
    lines = (await asyncio.wait_for(stream.readuntil(b"\n\n"), 10)).decode().split("\n")
    return lines[0].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))


async def test_the_stream_tells_all_then_changes_and_that_it_lives(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(feed, "ALIVE_SECONDS", 0.05)
    async with (
        served(clock) as (hub, url), aiohttp.ClientSession() as session,
        session.get(f"{url}/picker/v1/stream?pool=chat") as response,
    ):  # fmt: skip
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        name, data = await next_event(response.content)
        assert (name, [one["requests_waiting"] for one in data["endpoints"]]) == ("endpoints", [3, 5])
        assert (await next_event(response.content))[0] == "alive"
        busy(hub, A, waiting=9)
        while (found := await next_event(response.content))[0] == "alive":
            pass
        assert (found[0], [one["requests_waiting"] for one in found[1]["endpoints"]]) == ("changes", [9])
        async with session.get(f"{url}/picker/v1/endpoints") as now:
            assert (await now.json())["snapshot"] == found[1]["snapshot"]


async def test_many_streams_look_at_the_state_as_often_as_one(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.05)
    looks = 0
    present = feed.Feed._present

    def counted(self: feed.Feed) -> Any:
        nonlocal looks
        looks += 1
        return present(self)

    monkeypatch.setattr(feed.Feed, "_present", counted)
    async with served(clock) as (hub, url), aiohttp.ClientSession() as session, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(session.get(f"{url}/picker/v1/stream")) for _ in range(20)]
        for stream in streams:
            await next_event(stream.content)
        looks = 0
        await asyncio.sleep(0.5)
        assert looks <= 15
        busy(hub, A, waiting=9)
        for stream in streams:
            assert (await next_event(stream.content))[0] == "changes"


async def test_many_streams_compare_once_a_change_and_never_without(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(before: Any, entries: Any, *, number: int, now: float) -> feed.Step:
        compared.append(number)
        return step(before, entries, number=number, now=now)

    monkeypatch.setattr(feed, "step", counted)
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(feed, "ALIVE_SECONDS", 0.05)
    async with served(clock) as (hub, url), aiohttp.ClientSession() as session, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(session.get(f"{url}/picker/v1/stream?pool=chat")) for _ in range(20)]
        for stream in streams:
            await next_event(stream.content)
        compared.clear()
        for stream in streams:
            assert (await next_event(stream.content))[0] == "alive"
        assert compared == [], "nothing changed"
        busy(hub, A, waiting=9)
        told = []
        for stream in streams:
            while (found := await next_event(stream.content))[0] == "alive":
                pass
            told.append((found[0], [one["requests_waiting"] for one in found[1]["endpoints"]]))
        assert told == [("changes", [9])] * 20
        assert len(compared) < len(streams) / 2, "once a turn in which streams wake, not once a stream"


async def test_the_head_of_a_stream_is_refused(clock: FakeClock) -> None:
    async with served(clock) as (_, url), aiohttp.ClientSession() as session, session.head(f"{url}/picker/v1/stream") as response:
        assert response.status == 405


async def test_what_cannot_be_streamed_is_said(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_STREAMS", 1)
    async with served(clock) as (_, url), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/picker/v1/stream?pool=nowhere") as response:
            assert response.status == 400
            assert "unknown pool" in (await response.json())["error"]
        async with session.get(f"{url}/picker/v1/stream") as first:
            await next_event(first.content)
            async with session.get(f"{url}/picker/v1/stream") as second:
                assert second.status == 503
                assert second.headers["Retry-After"] == "5"


async def test_the_end_of_the_server_ends_its_streams(clock: FakeClock) -> None:
    async with aiohttp.ClientSession() as session:
        async with served(clock) as (_, url):
            response = await session.get(f"{url}/picker/v1/stream")
            await next_event(response.content)
            rest = asyncio.create_task(response.content.read())
            await asyncio.sleep(0)
        assert await asyncio.wait_for(rest, 5) == b"", "an orderly end"


async def test_a_reader_that_does_not_read_is_let_go_of(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SLOW_SECONDS", 0.05)

    class Deaf(web.StreamResponse):
        async def write(self, data: Any) -> None:
            await asyncio.Event().wait()

    hub = Hub(parse_config("cluster: test").with_targets((A,)), clock)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(feed.Feed(hub)._tell(Deaf(), ()), 5)


async def test_a_pods_page_in_the_pickers_names(clock: FakeClock) -> None:
    async with served(clock) as (hub, url), aiohttp.ClientSession() as session:

        async def page(path: str) -> tuple[int, bytes]:
            async with session.get(f"{url}/picker/pods/{path}") as response:
                return response.status, await response.read()

        status, body = await page("serving/a/metrics")
        assert status == 200
        assert families(body)["vllm:num_requests_waiting"] == {(): 3}
        status, body = await page("serving/b/metrics?names=sglang")
        assert families(body)["sglang:num_queue_reqs"] == {(): 5}
        assert (await page("serving/nobody/metrics"))[0] == 404
        assert (await page("serving/a/metrics?names=tgi"))[0] == 400
        clock.advance(60.0)
        hub.take(failure(A, clock.now()))
        status, body = await page("serving/a/metrics")
        assert (status, body) == (503, b"no current values: down\n"), "never an old number"


async def test_the_example_follows_the_stream(clock: FakeClock) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 45
    async with served(clock) as (hub, url):
        process = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), url, A.pool, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert await asyncio.wait_for(process.stdout.readline(), 20) == b"a:8000\n"
            busy(hub, A, waiting=50)
            assert await asyncio.wait_for(process.stdout.readline(), 20) == b"b:8000\n"
        finally:
            process.kill()
            await process.wait()
