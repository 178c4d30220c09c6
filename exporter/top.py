"""A live table in the terminal: reads the targets by itself, as `serve` would."""

import asyncio
from collections.abc import Callable

from collector.clock import SystemClock
from collector.http import open_fetch
from exporter import __version__
from exporter.app import Scraping
from exporter.config import Config
from exporter.hub import Hub

_STEP_SECONDS = 0.02


async def watch(config: Config, show: Callable[[Hub], None], *, every_seconds: float, times: int | None = None) -> None:
    """Read the targets and show the state of things again and again, `times` times or until cancelled.

    The first look waits until every target was tried, or for twice the deadline.
    """
    clock = SystemClock()
    hub = Hub(config, clock, version=__version__)
    async with open_fetch(deadline_seconds=config.deadline, max_body=config.max_body) as client:
        scraping = Scraping(hub, client, clock)
        scraping.configure(config)
        try:
            await _tried(hub, patience=2 * config.deadline)
            shown = 0
            while True:
                show(hub)
                shown += 1
                if times is not None and shown >= times:
                    return
                await asyncio.sleep(every_seconds)
        finally:
            scraping.stop()


async def _tried(hub: Hub, *, patience: float) -> None:
    for _ in range(int(patience / _STEP_SECONDS) + 1):
        if not hub.untried():
            return
        await asyncio.sleep(_STEP_SECONDS)
