"""A fleet of simulated pods: pools with their own traffic and router, and faults that come by the clock.

Everything follows from (plan, seed, time): two fleets of the same plan and seed agree at every time they are
both advanced to, however often they were advanced in between.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from exporter.demo.load import arrivals
from exporter.demo.plan import Fault, FleetPlan, PoolPlan
from exporter.demo.pod import Pod
from exporter.demo.process import Wall, same_clock
from exporter.demo.request import Request


@dataclass(frozen=True, slots=True)
class FleetClock:
    """Simulated seconds since the fleet began, `factor` of them for each real one, and back to unix time."""

    monotonic: Callable[[], float]
    origin: float
    wall_origin: float
    factor: float = 1.0

    @classmethod
    def start(
        cls,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        factor: float = 1.0,
    ) -> FleetClock:
        """A clock that begins now."""
        if factor <= 0:
            raise ValueError("the factor of a clock is above zero")
        return cls(monotonic, monotonic(), wall(), factor)

    def now(self) -> float:
        """Simulated seconds since the beginning."""
        return (self.monotonic() - self.origin) * self.factor

    def wall(self, seconds: float) -> float:
        """Unix time at which the clock shows `seconds`."""
        return self.wall_origin + seconds / self.factor


@dataclass(order=True, slots=True)
class _Event:
    at: float
    order: int
    fault: Fault
    begins: bool


class Pool:
    """The pods of one model and the router in front of them."""

    def __init__(self, plan: PoolPlan, pods: tuple[Pod, ...], faults: tuple[Fault, ...], *, seed: int) -> None:
        self.plan = plan
        self.pods = pods
        self.now = 0.0
        self.routed = 0
        self.unrouted = 0
        self._by_name = {pod.plan.name: pod for pod in pods}
        self._random = Random(seed)
        self._turn = 0
        self._arrivals: Iterator[Request] = arrivals(plan.wave, plan.mix, seed=seed)
        self._next = next(self._arrivals)
        mine = [fault for fault in faults if fault.pod in self._by_name]
        self._events = [_Event(fault.at, order, fault, True) for order, fault in enumerate(mine)]
        heapq.heapify(self._events)

    def advance(self, to_seconds: float) -> None:
        """Let requests arrive and faults happen until `to_seconds`; a time already passed changes nothing."""
        if to_seconds <= self.now:
            return
        while True:
            fault_at = self._events[0].at if self._events else float("inf")
            if min(fault_at, self._next.at) > to_seconds:
                break
            if fault_at <= self._next.at:
                self._happen(heapq.heappop(self._events))
            else:
                self._route(self._next)
                self._next = next(self._arrivals)
        for pod in self.pods:
            pod.advance(to_seconds)
        self.now = to_seconds

    def _happen(self, event: _Event) -> None:
        pod, fault = self._by_name[event.fault.pod], event.fault
        pod.advance(event.at)
        if not event.begins:
            pod.restore()
            return
        pod.apply(fault.kind, factor=fault.factor)
        heapq.heappush(self._events, _Event(event.at + fault.seconds, event.order, fault, False))
        if fault.every_seconds is not None:
            heapq.heappush(self._events, _Event(event.at + fault.every_seconds, event.order, fault, True))

    def _route(self, request: Request) -> None:
        candidates = [pod for pod in self.pods if pod.reachable]
        if not candidates:
            self.unrouted += 1
            return
        if self.plan.routing == "round_robin":
            self._turn += 1
            chosen = candidates[self._turn % len(candidates)]
            chosen.advance(request.at)
        else:
            drawn = self._random.sample(candidates, min(2, len(candidates)))
            for pod in drawn:
                pod.advance(request.at)
            chosen = min(drawn, key=lambda pod: pod.load)
        chosen.submit(request)
        self.routed += 1


class Fleet:
    """All pools of a plan. `advance` moves everything; `pool_of(name).advance` moves one pool only, which is
    cheaper for one scrape.
    """

    def __init__(self, plan: FleetPlan, *, seed: int = 1, wall: Wall = same_clock, keep_records: bool = False) -> None:
        self.plan = plan
        self.pools: list[Pool] = []
        self._pool_of: dict[str, Pool] = {}
        self._pods: dict[str, Pod] = {}
        for index, pool_plan in enumerate(plan.pools):
            pods = tuple(
                Pod(pod, seed=seed * 10_000 + index * 100 + place, wall=wall, keep_records=keep_records)
                for place, pod in enumerate(pool_plan.pods)
            )
            pool = Pool(pool_plan, pods, plan.faults, seed=seed * 100 + index)
            self.pools.append(pool)
            for pod in pods:
                self._pods[pod.plan.name] = pod
                self._pool_of[pod.plan.name] = pool

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Every pod, pool by pool."""
        return tuple(self._pods.values())

    def pod(self, name: str) -> Pod:
        """A pod by its name; KeyError when there is none."""
        return self._pods[name]

    def pool_of(self, name: str) -> Pool:
        """The pool of a pod; KeyError when there is no such pod."""
        return self._pool_of[name]

    def advance(self, now: float) -> None:
        """Move every pool to `now`, in seconds since the fleet began."""
        for pool in self.pools:
            pool.advance(now)
