"""Time as an argument: a monotonic reading for ages, a wall reading for timestamps."""

import time
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment: `mono` seconds for differences, `wall` unix seconds for what people and engines see."""

    mono: float
    wall: float


class Clock(Protocol):
    """Where the process takes the time from."""

    def now(self) -> Instant: ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Instant:
        return Instant(mono=time.monotonic(), wall=time.time())
