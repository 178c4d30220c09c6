"""A changed configuration file or SIGHUP: read it anew, keep the old one when it is bad, and say so."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from collector.auth import Stamp, stamp
from exporter.config import Config, ConfigError
from exporter.log import say

_log = logging.getLogger(__name__)
LOOK_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the configuration came from, so that it can be read again, and how the file looked before it was first read."""

    path: Path
    load: Callable[[], Config]
    looked: Stamp


def hung_up() -> asyncio.Event:
    """An event that each SIGHUP sets."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, event.set)
    return event


async def follow(
    origin: Origin, hup: asyncio.Event, apply: Callable[[Config], None], told: Callable[[bool], None]
) -> None:  # fmt: skip
    """Until cancelled: `apply` each new configuration; `told` whether the last reading was good.

    A file counts as changed when it looks different and stands still: whoever writes it may not be done yet.
    """
    loaded = last = origin.looked
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await hup.wait()
        now = look(origin.path)
        if hup.is_set() or (now != loaded and now == last):
            hup.clear()
            loaded = now
            told(_reload(origin, apply))
        last = now


def look(path: Path) -> Stamp:
    """What tells a changed file from an unchanged one."""
    try:
        return stamp(str(path))
    except OSError:
        return ()


def _reload(origin: Origin, apply: Callable[[Config], None]) -> bool:
    try:
        config = origin.load()
    except ConfigError as error:
        say(_log, logging.ERROR, "configuration not reloaded, the old one stays", error=str(error))
        return False
    apply(config)
    say(_log, logging.INFO, "configuration reloaded", path=str(origin.path), cluster=config.cluster)
    return True
