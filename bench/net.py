"""Fetching: CPU of a scrape against other clients, and a fleet of simulated pods read at one second."""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import requests

from collector.clock import SystemClock
from collector.http import open_fetch
from collector.model import Target
from exporter.app import Scraping
from exporter.config import parse_config
from exporter.hub import Hub

TARGETS = 50
ROUNDS = 7
FETCHES = 400
FLEET = 200
SECONDS = 12.0
SETTLE_SECONDS = 4.0


@contextmanager
def beside(*arguments: str) -> Iterator[Any]:
    """What another process says of itself while it runs."""
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("pods.py")), *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """On uvloop where it is installed, as the process itself does."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def _cpu_us(fetch: Callable[[int], Awaitable[object]]) -> float:
    begun = time.process_time()
    for start in range(0, FETCHES, TARGETS):
        await asyncio.gather(*(fetch(number % TARGETS) for number in range(start, start + TARGETS)))
    return (time.process_time() - begun) / FETCHES * 1e6


async def _clients(url: str) -> dict[str, float]:
    """Microseconds of CPU for one fetch by client: medians of interleaved rounds, one kept connection a target each."""
    targets = [Target(url=f"{url}?{number}", namespace="b", pool="p", pod=str(number)) for number in range(TARGETS)]
    sessions = [requests.Session() for _ in targets]
    found: dict[str, list[float]] = {"ours": [], "aiohttp": [], "requests": []}
    async with (
        open_fetch(deadline_seconds=10.0, max_body=1 << 24) as client,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def by_aiohttp(number: int) -> object:
            async with session.get(targets[number].url) as response:
                return await response.read()

        async def by_requests(number: int) -> object:
            return sessions[number].get(targets[number].url, timeout=10).content

        for _ in range(ROUNDS + 1):
            found["ours"].append(await _cpu_us(lambda number: client(targets[number])))
            found["aiohttp"].append(await _cpu_us(by_aiohttp))
            found["requests"].append(await _cpu_us(by_requests))
    for one in sessions:
        one.close()
    return {name: statistics.median(values[1:]) for name, values in found.items()}


async def _read(targets: list[Target], *, seconds: float, scrape: str = "{}") -> tuple[float, list[float], Hub]:
    """Share of a core, and ages of all fast signals seen meanwhile, once all were read."""
    config = parse_config(f"cluster: bench\nscrape: {scrape}").with_targets(tuple(targets))
    clock = SystemClock()
    hub = Hub(config, clock)
    ages: list[float] = []
    async with open_fetch(deadline_seconds=config.deadline, max_body=config.max_body) as client:
        scraping = Scraping(hub, client, clock)
        scraping.configure(config)
        await asyncio.sleep(SETTLE_SECONDS)
        cpu, begun = time.process_time(), time.monotonic()
        looking = 0.0
        while time.monotonic() - begun < seconds:
            await asyncio.sleep(0.1)
            mark = time.process_time()
            now = clock.now().mono
            ages += [now - track.last_good.mono for track in hub.state.tracks.values() if track.last_good is not None]
            looking += time.process_time() - mark
        share = (time.process_time() - cpu - looking) / (time.monotonic() - begun)
        scraping.stop()
    return share, sorted(ages), hub


def _at(ages: list[float], share: float) -> float:
    return ages[min(int(len(ages) * share), len(ages) - 1)] * 1000


async def _sleeper(url: str) -> tuple[float, list[float], Hub]:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10.0)
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        good = [Target(url=f"{url}?{number}", namespace="b", pool="p", pod=str(number)) for number in range(49)]
        sleeper = Target(url=f"http://127.0.0.1:{port}/metrics", namespace="b", pool="p", pod="sleeper")
        return await _read([*good, sleeper], seconds=SECONDS / 2)


def report() -> None:
    """Print all lines."""
    with beside("page") as url:
        clients = run(_clients(url))
        _, ages, hub = run(_sleeper(url))
    print(f"\nCPU of one fetch, {len(clients)} clients in one run, {TARGETS} kept connections, page of 54 KB")
    for name, cost in clients.items():
        print(f"  {name:10} {cost:8.1f} us  {cost / clients['ours']:5.1f}x")
    fine = sum(one.failure is None for one in hub.state.endpoints(hub.clock.now()))
    print(f"\n50 targets at 1 s, one of which sleeps 10 s: {fine} answer, their age is {_at(ages, 0.5):.0f} ms (median), "
          f"{_at(ages, 0.99):.0f} ms (p99)")  # fmt: skip
    with beside("fleet", str(FLEET)) as pods:
        targets = [Target(url=one["url"], namespace="b", pool=one["pool"], pod=one["pod"]) for one in pods]
        share, ages, hub = run(_read(targets, seconds=SECONDS))
    failures = hub.state.tally.failures.total()
    print(f"\n{FLEET} simulated pods at 1 s (whole pages every 5 s): {share:.1%} of a core, signal age {_at(ages, 0.5):.0f} ms "
          f"(median), {_at(ages, 0.99):.0f} ms (p99), {failures} failures")  # fmt: skip


if __name__ == "__main__":
    report()
