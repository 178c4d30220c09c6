"""Asks the servers now and then for what their metrics pages do not tell, a few at a time and beside the lanes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from collector.clock import Clock
from collector.details import ask
from collector.model import Target
from collector.read import Fetch
from collector.state import State

_log = logging.getLogger(__name__)
_AT_ONCE = 4
_LOOK_SECONDS = 1.0


async def ask_due(state: State, fetch: Fetch, clock: Clock, *, every_seconds: float) -> int:
    """Ask every server that is due once, and take in what it says; returns how many were asked.

    A server that answers nothing keeps what it said before: it may only be busy.
    """
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(target: Target, engine: str) -> None:
        async with slots:
            details = await ask(target, engine, fetch)
        if details is not None:
            state.note_details(target.key, details)

    due = state.to_ask(clock.now(), every_seconds)
    await asyncio.gather(*(one(target, engine) for target, engine in due))
    return len(due)


async def keep_asking(
    state: State, fetch: Fetch, clock: Clock, *, every_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Ask for ever; nothing that a server does ends it."""
    while True:
        try:
            await ask_due(state, fetch, clock, every_seconds=every_seconds)
        except Exception:
            _log.exception("asking broke")
        await sleep(_LOOK_SECONDS)
