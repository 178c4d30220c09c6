"""What a fleet consists of and what happens to it, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from exporter.demo.config import EngineConfig
from exporter.demo.load import Mix, Wave

FaultKind = Literal["kill", "hang", "freeze", "slow", "fail"]
Routing = Literal["two_choices", "round_robin"]

USUAL_MIX = Mix()


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod: its name and its engine, as many times as it has data-parallel ranks."""

    name: str
    engine: EngineConfig
    ranks: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 1 or (self.ranks > 1 and self.engine.kind == "tgi"):
            raise ValueError("a pod has at least one rank, and TGI exactly one")


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Pods that serve one model behind one router, and the traffic they get.

    `two_choices` sends a request to the less loaded of two pods drawn at random, `round_robin` ignores load.
    """

    name: str
    pods: tuple[PodPlan, ...]
    wave: Wave
    mix: Mix = USUAL_MIX
    namespace: str = "serving"
    routing: Routing = "two_choices"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a pod at `at` and is over `seconds` later, again every `every_seconds` if
    given.

    `kill`: connections are refused, then a new process starts. `hang`: connections are accepted and not
    answered. `freeze`: the page is served while the engine stands still. `slow`: steps take `factor` times as
    long. `fail`: every new request ends in an error.
    """

    pod: str
    kind: FaultKind
    at: float
    seconds: float
    every_seconds: float | None = None
    factor: float = 3.0

    def __post_init__(self) -> None:
        if self.seconds <= 0 or (self.every_seconds is not None and self.every_seconds <= self.seconds):
            raise ValueError(f"the fault of {self.pod} must last, and end before it comes again")


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Pools and faults."""

    pools: tuple[PoolPlan, ...]
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        names = [pod.name for pool in self.pools for pod in pool.pods]
        if len(set(names)) != len(names):
            raise ValueError("two pods have the same name")
        if unknown := {fault.pod for fault in self.faults} - set(names):
            raise ValueError(f"faults name unknown pods: {', '.join(sorted(unknown))}")
