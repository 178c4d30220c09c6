"""One pod of the fleet: its present process, the ledgers of its past ones, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from exporter.demo.engine import Engine
from exporter.demo.http import HttpBook
from exporter.demo.ledger import Ledger
from exporter.demo.pages import Page, page_of
from exporter.demo.plan import FaultKind, PodPlan
from exporter.demo.process import Process, Wall, same_clock
from exporter.demo.request import Request

PodState = Literal["up", "dead", "hung"]


class Pod:
    """A pod whose clock is moved by `advance`; faults take effect at the time it shows."""

    def __init__(self, plan: PodPlan, *, seed: int = 0, wall: Wall = same_clock, keep_records: bool = False) -> None:
        self.plan = plan
        self.now = 0.0
        self.state: PodState = "up"
        self.failing = False
        self.lives = 0
        self._seed = seed
        self._wall = wall
        self._keep_records = keep_records
        self._past: list[Ledger] = []
        self._start()

    @property
    def reachable(self) -> bool:
        """Whether a router that checks health sends requests here; a frozen engine looks healthy."""
        return self.state == "up"

    @property
    def load(self) -> float:
        """How busy the pod is for each of its ranks, as a router sees it."""
        return sum(engine.load for engine in self.process.engines) / self.plan.ranks

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The ledgers of every process this pod ever had, one for each rank, oldest first."""
        return (*self._past, *(engine.ledger for engine in self.process.engines))

    def advance(self, to_seconds: float) -> None:
        """Move the clock of all engines; a time already passed changes nothing."""
        if to_seconds <= self.now:
            return
        self.now = to_seconds
        if self.state != "dead":
            for engine in self.process.engines:
                engine.advance(to_seconds)

    def submit(self, request: Request) -> bool:
        """Give a request to the least loaded rank; False when it is turned away. The pod has been advanced to
        its arrival.
        """
        engine = min(self.process.engines, key=lambda engine: engine.load)
        return engine.submit(replace(request, fault="error", output_tokens=1) if self.failing else request)

    def apply(self, kind: FaultKind, *, factor: float = 3.0) -> None:
        """Let something go wrong now."""
        if kind == "kill":
            self.kill()
        elif kind == "hang":
            self.hang()
        elif kind == "freeze":
            self.freeze()
        elif kind == "fail":
            self.fail()
        else:
            self.slow(factor)

    def kill(self) -> None:
        """The process dies with all that is in hand."""
        if self.state == "dead":
            return
        for engine in self.process.engines:
            engine.lose_all()
        self.state = "dead"

    def hang(self) -> None:
        """The API server accepts connections and answers none; the engine works on."""
        if self.state == "up":
            self.state = "hung"

    def freeze(self) -> None:
        """The engines stand still behind an API server that answers."""
        for engine in self.process.engines:
            engine.freeze()

    def slow(self, factor: float) -> None:
        """Steps take `factor` times as long from the next one on."""
        for engine in self.process.engines:
            engine.slowdown = factor

    def fail(self) -> None:
        """Every request that comes from now on ends in an error at its first token."""
        self.failing = True

    def restore(self) -> None:
        """All is well again: a dead pod has a new process that starts now, with counters at zero."""
        if self.state == "dead":
            self._past += [engine.ledger for engine in self.process.engines]
            self._start()
        self.state = "up"
        self.failing = False
        for engine in self.process.engines:
            engine.thaw()
            engine.slowdown = 1.0

    def page(self) -> str:
        """The metrics page as of now."""
        return self._page.render()

    def restricted_page(self, names: frozenset[str]) -> str:
        """The samples of these names only."""
        return self._page.restrict(names)

    def _start(self) -> None:
        self.lives += 1
        http = HttpBook()
        engines = tuple(
            Engine(
                self.plan.engine,
                seed=self._seed * 1000 + self.lives * 10 + rank,
                started_at=self.now,
                http=http,
                keep_records=self._keep_records,
            )
            for rank in range(self.plan.ranks)
        )
        self.process = Process(engines, http, self._wall, self.lives)
        self._page: Page = page_of(self.process)
