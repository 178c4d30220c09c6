"""The running process: reads its targets and serves what they say until it is told to stop."""

import asyncio
import gc
import logging
import math
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from collector.clock import Clock, SystemClock
from collector.http import Client, open_fetch
from collector.lanes import Reader
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.signals import Lane
from collector.targets import Roster
from collector.wheel import Wheel
from exporter import __version__
from exporter.asking import keep_asking
from exporter.config import Config
from exporter.debug import Debugger
from exporter.endpoints import keep_endpoints
from exporter.hub import Hub
from exporter.log import say
from exporter.reload import Origin, follow, hung_up
from exporter.server import make_server
from exporter.stop import stop_on_signal

_log = logging.getLogger(__name__)
_STOP_WITHIN_SECONDS = 3.0
_LOOK_FOR_CHANGES_SECONDS = 0.5
_WAIT_FOR_TARGETS_SECONDS = 2.0
_AT_ONCE = 64
_SWITCH_SECONDS = 0.0005
"""How long a thread that makes a page or a push may hold the loop up; Python's default is ten times that."""


class ListenError(Exception):
    """The address cannot be listened on."""


async def serve(
    config: Config, *, host: str, port: int, clock: Clock | None = None, origin: Origin | None = None,
    ready: Callable[[str], Awaitable[None]] | None = None,
) -> None:  # fmt: skip
    """Run until SIGTERM or SIGINT. `ready` is called with the base URL once it is served. ListenError if it cannot be.

    With an `origin` the configuration is read again when its file changes, and on SIGHUP.
    """
    clock = clock or SystemClock()
    stop = stop_on_signal()
    sys.setswitchinterval(_SWITCH_SECONDS)
    hub = Hub(config, clock, version=__version__)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_fetch(deadline_seconds=config.deadline, max_body=config.max_body))
        scraping = Scraping(hub, client, clock)
        base = await _listen(stack, make_server(hub, Debugger(hub, client, scraping.reader)), host, port)
        if config.cloudwatch is not None:
            await stack.enter_async_context(cloudwatch(hub, config))
        if config.otlp is not None:
            await stack.enter_async_context(otlp(hub, config))
        stack.callback(scraping.stop)
        scraping.configure(config)
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_FOR_TARGETS_SECONDS):
                await hub.roster.settled()
        _beside(stack, _log_changes(hub))
        _beside(stack, keep_asking(hub.state, client, clock, every_seconds=config.details_interval))
        _beside(stack, keep_endpoints(hub))
        if origin is not None:
            _beside(stack, follow(origin, hung_up(), scraping.configure, hub.own.note_reload))
        keep_for_good()
        say(_log, logging.INFO, "serving", url=base, cluster=config.cluster, targets=len(hub.state.tracks))
        for note in config.notes:
            say(_log, logging.WARNING, "configuration", note=note)
        if ready is not None:
            await ready(base)
        await stop.wait()
        say(_log, logging.INFO, "stopping")


def keep_for_good() -> None:
    """What is loaded by now stays: the collector would look through it again and again, and the loop would wait."""
    gc.collect()
    gc.freeze()


def cloudwatch(hub: Hub, config: Config) -> AbstractAsyncContextManager[None]:
    """What publishes to CloudWatch; the SDK is loaded only for it."""
    from exporter.publish.cloudwatch.sink import to_cloudwatch

    assert config.cloudwatch is not None
    return to_cloudwatch(hub, config.cloudwatch)


def otlp(hub: Hub, config: Config) -> AbstractAsyncContextManager[object]:
    """What pushes by OTLP; the SDK is loaded only for it."""
    from exporter.publish.otlp.push import pushing

    assert config.otlp is not None
    return pushing(hub, config.otlp, cluster=config.cluster, region=config.region)


def _beside(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    stack.callback(task.cancel)


class Scraping:
    """What reads the targets, kept in line with the configuration and with the present set."""

    def __init__(self, hub: Hub, client: Client, clock: Clock) -> None:
        self._hub = hub
        self._client = client
        self.reader = Reader(client, clock)
        self._wheel: Wheel | None = None
        self._intervals = (0.0, 0.0)
        hub.roster = Roster(self.watch)

    def configure(self, config: Config) -> None:
        """Take over a configuration; call from inside the loop."""
        self._hub.configure(config)
        self._client.limit(deadline_seconds=config.deadline, max_body=config.max_body)
        if self._wheel is None or self._intervals != (config.fast_interval, config.full_interval):
            self._intervals = (config.fast_interval, config.full_interval)
            if self._wheel is not None:
                self._wheel.stop()
            self._wheel = Wheel(
                self.reader, self._hub.take, fast_interval=config.fast_interval, full_interval=config.full_interval
            )
            self._wheel.replace(self._hub.roster.targets)
        self._hub.roster.follow(config.sources)

    def watch(self, targets: tuple[Target, ...]) -> None:
        """Begin with targets that are new, end with those that went."""
        self._hub.watch(targets)
        self._client.keep(targets)
        self.reader.keep(targets)
        if self._wheel is not None:
            self._wheel.replace(targets)

    def stop(self) -> None:
        self._hub.roster.stop()
        if self._wheel is not None:
            self._wheel.stop()


async def _listen(stack: AsyncExitStack, server: web.Application, host: str, port: int) -> str:
    runner = web.AppRunner(server, access_log=None, shutdown_timeout=_STOP_WITHIN_SECONDS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(f"cannot listen on {host}:{port}: {why}; name another address with --listen") from error
    bound: tuple[str, int] = runner.addresses[0][:2]
    return f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"


async def _log_changes(hub: Hub) -> None:
    while True:
        hub.log_changes(hub.clock.now())
        await asyncio.sleep(_LOOK_FOR_CHANGES_SECONDS)


async def read_once(config: Config, clock: Clock | None = None) -> tuple[Hub, list[Reading | Failure]]:
    """One full attempt at every target; outcomes in the order of the configuration. The hub's roster tells of its sources.

    Nothing turns stale meanwhile: what the first target said still counts when the last one has used up its deadline.
    """
    clock = clock or SystemClock()
    patient = msgspec.structs.replace(config, limits=replace(config.limits, stale_after=math.inf))
    hub = Hub(patient, clock, version=__version__)
    hub.roster.follow(config.sources)
    await hub.roster.settled()
    hub.roster.stop()
    async with open_fetch(deadline_seconds=config.deadline, max_body=config.max_body) as fetch:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def attempt(target: Target) -> Reading | Failure:
            async with slots:
                return await read(target, Lane.FULL, fetch=fetch, clock=clock)

        outcomes = await asyncio.gather(*map(attempt, hub.roster.targets))
    for outcome in outcomes:
        hub.take(outcome)
    return hub, list(outcomes)
