"""The running process: reads its targets and serves what they say until it is told to stop."""

import asyncio
import logging
import math
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import msgspec
from aiohttp import web

from collector.clock import Clock, SystemClock
from collector.http import open_fetch
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.signals import Lane
from collector.wheel import Wheel
from exporter import __version__
from exporter.asking import keep_asking
from exporter.config import Config
from exporter.hub import Hub
from exporter.log import say
from exporter.server import make_server

_log = logging.getLogger(__name__)
_STOP_WITHIN_SECONDS = 3.0
_LOOK_FOR_CHANGES_SECONDS = 0.5
_AT_ONCE = 64


class ListenError(Exception):
    """The address cannot be listened on."""


async def serve(
    config: Config, *, host: str, port: int, clock: Clock | None = None, ready: Callable[[str], Awaitable[None]] | None = None
) -> None:
    """Run until SIGTERM or SIGINT. `ready` is called with the base URL once it is served. ListenError if it cannot be."""
    clock = clock or SystemClock()
    stop = _stop_on_signal()
    hub = Hub(config, clock, version=__version__)
    async with AsyncExitStack() as stack:
        fetch = await stack.enter_async_context(open_fetch(deadline_seconds=config.deadline, max_body=config.max_body))
        base = await _listen(stack, hub, host, port)
        wheel = Wheel(partial(read, fetch=fetch, clock=clock), hub.take, fast_interval=config.fast_interval,
                      full_interval=config.full_interval)  # fmt: skip
        stack.callback(wheel.stop)
        wheel.replace(config.targets)
        watcher = asyncio.create_task(_log_changes(hub))
        stack.callback(watcher.cancel)
        asking = keep_asking(hub.state, fetch, clock, every_seconds=config.details_interval)
        stack.callback(asyncio.create_task(asking).cancel)
        say(_log, logging.INFO, "serving", url=base, cluster=config.cluster, targets=len(config.targets))
        if ready is not None:
            await ready(base)
        await stop.wait()
        say(_log, logging.INFO, "stopping")


def _stop_on_signal() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; a second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def heed() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        loop.add_signal_handler(number, heed)
    return stop


async def _listen(stack: AsyncExitStack, hub: Hub, host: str, port: int) -> str:
    runner = web.AppRunner(make_server(hub), access_log=None, shutdown_timeout=_STOP_WITHIN_SECONDS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    bound: tuple[str, int] = runner.addresses[0][:2]
    return f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"


async def _log_changes(hub: Hub) -> None:
    while True:
        hub.log_changes(hub.clock.now())
        await asyncio.sleep(_LOOK_FOR_CHANGES_SECONDS)


async def read_once(config: Config, clock: Clock | None = None) -> tuple[Hub, list[Reading | Failure]]:
    """One full attempt at every target; outcomes in the order of the configuration.

    Nothing turns stale meanwhile: what the first target said still counts when the last one has used up its deadline.
    """
    clock = clock or SystemClock()
    patient = msgspec.structs.replace(config, limits=replace(config.limits, stale_after=math.inf))
    hub = Hub(patient, clock, version=__version__)
    async with open_fetch(deadline_seconds=config.deadline, max_body=config.max_body) as fetch:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def attempt(target: Target) -> Reading | Failure:
            async with slots:
                return await read(target, Lane.FULL, fetch=fetch, clock=clock)

        outcomes = await asyncio.gather(*map(attempt, config.targets))
    for outcome in outcomes:
        hub.take(outcome)
    return hub, list(outcomes)
