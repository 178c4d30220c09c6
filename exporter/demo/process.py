"""One serving process: the engines of a pod behind one API server, and the wall clock that its page speaks
of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.demo.engine import Engine
from exporter.demo.http import HttpBook
from exporter.demo.ladders import MICROS

Wall = Callable[[float], float]


def same_clock(seconds: float) -> float:
    """Simulated seconds as they are, for a world that began at the epoch."""
    return seconds


@dataclass(frozen=True, slots=True)
class Process:
    """A life of a pod, from its start to its death. `wall` turns simulated seconds into unix seconds."""

    engines: tuple[Engine, ...]
    http: HttpBook
    wall: Wall = same_clock
    number: int = 1

    @property
    def lead(self) -> Engine:
        """The engine of rank 0; all ranks have the same configuration."""
        return self.engines[0]

    @property
    def started_wall(self) -> float:
        """Unix time of the start, to the hundredth of a second that the kernel keeps."""
        return round(self.wall(self.lead.started / MICROS), 2)

    def wall_at(self, micros: int) -> float:
        """Unix time of a moment inside an engine."""
        return self.wall(micros / MICROS)
