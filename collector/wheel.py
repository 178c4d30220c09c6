"""The scraping loop: each target at its own phase, one request in flight, full pages between fast ones."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

from collector.model import Failure, Reading, Target
from collector.read import Read
from collector.seldom import Seldom
from collector.signals import Lane

_log = logging.getLogger(__name__)

Sink = Callable[[Reading | Failure], None]
Sleep = Callable[[float], Awaitable[None]]

AT_ONCE = 2
"""Failures in a row after which a target is still asked at every turn: most faults are over by then."""
CEILING_SECONDS = 2.0
"""Longest pause between two attempts at a dead target, if turns are not further apart."""
_GOLDEN = 0.6180339887498949


def pause(failures: int, fast_interval: float, jitter: float) -> float:
    """Seconds to wait after so many failures in a row. `jitter` (0 to 1) spreads the pauses, so that those who died together
    are not asked together for ever."""
    if failures <= AT_ONCE:
        return 0.0
    longest = max(CEILING_SECONDS, fast_interval)
    grown = fast_interval * 2.0 ** min(failures - AT_ONCE, 32)
    return float(min(grown, longest) * (0.75 + 0.25 * jitter))


async def turn(
    target: Target, read: Read, sink: Sink, *,
    fast_interval: float, full_interval: float, phase: float, time: Callable[[], float], sleep: Sleep = asyncio.sleep,
    stagger: float = 0.0, jitter: Callable[[], float] = random.random, seldom: Seldom | None = None,
) -> None:  # fmt: skip
    """Read one target for ever. `phase` (0 to 1) spreads targets over the fast interval, `stagger` their pages over the full one.

    A read that takes longer than the interval skips the turns it missed; nothing is ever asked twice at once. Once a target has
    answered, a full page that fails is asked again at every other turn only: the fast lane may still work.
    """
    seldom = seldom or Seldom()
    next_full = time()
    slot = time() + phase * fast_interval
    failures, known, resting, first = 0, False, False, True
    if phase:
        await sleep(max(slot - time(), 0.0))
    while True:
        lane = Lane.FULL if time() >= next_full - fast_interval / 2 and not resting else Lane.FAST
        try:
            outcome = await read(target, lane)
            sink(outcome)
        except Exception as error:
            if seldom.worth(error, time()):
                _log.exception("reading broke: target=%s", target.url)
        else:
            good = isinstance(outcome, Reading)
            failures, known = (0, True) if good else (failures + 1, known)
            resting = known and not good and lane is Lane.FULL
            if good and lane is Lane.FULL:
                next_full = slot + full_interval * (1.0 - stagger if first else 1.0)
                first = False
        missed = max(int((time() - slot) / fast_interval), 0)
        slot += fast_interval * (missed + 1)
        await sleep(max(slot - time(), pause(failures, fast_interval, jitter())))


def spread() -> Iterator[float]:
    """Numbers from 0 to 1, the next one always in one of the widest gaps: phases stay even as targets come and go."""
    return (number * _GOLDEN % 1.0 for number in count())


class Wheel:
    """Keeps one `turn` running for each target of the present set."""

    def __init__(self, read: Read, sink: Sink, *, fast_interval: float, full_interval: float) -> None:
        self._read = read
        self._sink = sink
        self._fast_interval = fast_interval
        self._full_interval = full_interval
        self._targets: dict[str, Target] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._phases = spread()
        self._seldom = Seldom()

    def replace(self, targets: tuple[Target, ...]) -> None:
        """Begin with targets that are new, end with those that went; call from inside the loop.

        Those that stay keep their phase and what is under way, also under other labels: a change to one is no event for others.
        """
        self._targets = {target.key: target for target in targets}
        for key in self._turns.keys() - self._targets.keys():
            self._turns.pop(key).cancel()
        time = asyncio.get_running_loop().time
        for key, target in self._targets.items():
            if key not in self._turns:
                phase = next(self._phases)
                work = turn(target, self._present, self._sink, fast_interval=self._fast_interval, seldom=self._seldom,
                            full_interval=self._full_interval, phase=phase, stagger=phase, time=time)  # fmt: skip
                self._turns[key] = asyncio.create_task(work, name=f"read {target.url}")

    async def _present(self, target: Target, lane: Lane) -> Reading | Failure:
        """Read a target as it is known now."""
        return await self._read(self._targets.get(target.key, target), lane)

    def stop(self) -> None:
        for task in self._turns.values():
            task.cancel()
        self._turns.clear()
        self._targets.clear()
