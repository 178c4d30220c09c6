"""The scraping loop: each target at its own phase, one request in flight, full pages between fast ones."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from collector.model import Failure, Reading, Target
from collector.read import Read
from collector.signals import Lane

_log = logging.getLogger(__name__)

Sink = Callable[[Reading | Failure], None]
Sleep = Callable[[float], Awaitable[None]]


async def turn(
    target: Target, read: Read, sink: Sink, *,
    fast_interval: float, full_interval: float, phase: float, time: Callable[[], float], sleep: Sleep = asyncio.sleep,
) -> None:  # fmt: skip
    """Read one target for ever. `phase` (0 to 1) spreads targets over the interval; a full page stands for a fast one.

    A read that takes longer than the interval skips the turns it missed; nothing is ever asked twice at once.
    """
    next_full = time()
    slot = time() + phase * fast_interval
    if phase:
        await sleep(max(slot - time(), 0.0))
    while True:
        lane = Lane.FULL if time() >= next_full - fast_interval / 2 else Lane.FAST
        try:
            outcome = await read(target, lane)
            sink(outcome)
        except Exception:
            _log.exception("reading broke: target=%s", target.url)
        else:
            if lane is Lane.FULL and isinstance(outcome, Reading):
                next_full = slot + full_interval
        missed = max(int((time() - slot) / fast_interval), 0)
        slot += fast_interval * (missed + 1)
        await sleep(max(slot - time(), 0.0))


class Wheel:
    """Keeps one `turn` running for each target of the present set."""

    def __init__(self, read: Read, sink: Sink, *, fast_interval: float, full_interval: float) -> None:
        self._read = read
        self._sink = sink
        self._fast_interval = fast_interval
        self._full_interval = full_interval
        self._turns: dict[str, asyncio.Task[None]] = {}

    def replace(self, targets: tuple[Target, ...]) -> None:
        """Begin with targets that are new or changed, end with those that went; call from inside the loop."""
        self.stop()
        time = asyncio.get_running_loop().time
        for index, target in enumerate(targets):
            work = turn(target, self._read, self._sink, fast_interval=self._fast_interval,
                        full_interval=self._full_interval, phase=index / len(targets), time=time)  # fmt: skip
            self._turns[target.key] = asyncio.create_task(work, name=f"read {target.url}")

    def stop(self) -> None:
        for task in self._turns.values():
            task.cancel()
        self._turns.clear()
