"""Reading through: a poll that finds no fresh sample scrapes the engine, one scrape for all who wait, or gets no answer at all.

A picker takes the arrival of a page for the age of its numbers. A page with old numbers would keep a dead engine alive in its
eyes, so there is none.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from collector.clock import Clock, Instant
from collector.details import Details
from collector.model import Failure, Reading, Target
from collector.read import Read
from collector.seldom import Seldom
from collector.signals import Lane
from collector.state import State
from exporter.sidecar.page import View, view_of

_log = logging.getLogger(__name__)
_P95 = 0.95
_REQUIRED = frozenset({"requests_running", "requests_waiting"})
_LOAD = _REQUIRED | {"kv_cache_usage_ratio", "kv_cache_usage_max_ratio"}
"""Once told, these have to be on every page."""

_LAGGING = frozenset({"sglang"})
"""Engines whose page is behind what their short answer tells: SGLang sets its gauges at its log interval."""

Ask = Callable[[Target, str], Awaitable[Details | None]]
"""What no page tells, asked of an engine by name."""


class NoSample(Exception):
    """There is nothing fresh to show; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds. A sample is fresh for `fresh_for`; a poll waits for one no longer than `budget`. Whole pages and what is asked
    beside them come when these pauses are over, in the place of a short answer."""

    fresh_for: float = 0.1
    budget: float = 0.8
    whole_every: float = 5.0
    ask_every: float = 30.0


@dataclass(slots=True)
class Tally:
    """What became of polls and scrapes since the start."""

    polls: Counter[str] = field(default_factory=Counter)
    scrapes: Counter[str] = field(default_factory=Counter)


class Through:
    """The one engine behind a sidecar, looked at when somebody asks."""

    def __init__(self, target: Target, read: Read, ask: Ask, clock: Clock, *, state: State, pace: Pace) -> None:
        self._target = target
        self._read = read
        self._ask = ask
        self._clock = clock
        self._state = state
        self._pace = pace
        self._scrape: asyncio.Task[Reading | Failure] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._seldom = Seldom()
        self._told: frozenset[str] = _REQUIRED
        self._sampled: Instant | None = None
        self.tally = Tally()
        state.watch([target], clock.now())

    async def view(self) -> View:
        """The pod as it is now. NoSample when the engine did not tell it in time."""
        until = self._clock.now().mono + self._pace.budget
        try:
            while not self._fresh(now := self._clock.now()):
                if now.mono >= until:
                    raise NoSample(f"no fresh sample within {self._pace.budget:g} s")
                outcome = await self._shared(until - now.mono)
                if isinstance(outcome, Failure):
                    raise NoSample(f"{outcome.reason}: {outcome.detail}")
            view = self._view(self._clock.now())
        except NoSample:
            self.tally.polls["refused"] += 1
            raise
        self.tally.polls["answered"] += 1
        return view

    async def close(self) -> None:
        """End what is under way."""
        for task in (self._scrape, self._asking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    def _fresh(self, now: Instant) -> bool:
        """Whether a scrape that was done to its end is new enough: one under way may have read only a page that lags behind."""
        last = self._sampled
        return last is not None and 0 <= now.mono - last.mono <= self._pace.fresh_for

    async def _shared(self, within_seconds: float) -> Reading | Failure:
        """The outcome of the scrape under way, or of a new one; a poll that gives up leaves it to the others."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._scraped())
        scrape = self._scrape  # by the time it is done another may be under way
        done, _ = await asyncio.wait([scrape], timeout=within_seconds)
        if not done:
            raise NoSample(f"the engine did not answer within {self._pace.budget:g} s")
        return scrape.result()

    async def _scraped(self) -> Reading | Failure:
        track, now = self._state.tracks[self._target.key], self._clock.now()
        whole = track.readings.get(Lane.FULL)
        due = whole is None or now.mono - whole.at.mono >= self._pace.whole_every
        outcome = await self._read(self._target, Lane.FULL if due else Lane.FAST)
        self._state.absorb(outcome)
        if due and isinstance(outcome, Reading) and outcome.engine in _LAGGING:
            outcome = await self._read(self._target, Lane.FAST)
            self._state.absorb(outcome)
        failed = isinstance(outcome, Failure)
        self._sampled = None if failed else outcome.at
        self.tally.scrapes[str(outcome.reason) if isinstance(outcome, Failure) else str(outcome.lane)] += 1
        if not failed:
            self._ask_if_due(outcome.at)
        return outcome

    def _ask_if_due(self, now: Instant) -> None:
        if self._asking is None or self._asking.done():
            for target, engine in self._state.to_ask(now, self._pace.ask_every):
                self._asking = asyncio.create_task(self._asked(target, engine))

    async def _asked(self, target: Target, engine: str) -> None:
        try:
            if (details := await self._ask(target, engine)) is not None:
                self._state.note_details(target.key, details)
        except Exception as error:
            if self._seldom.worth(error, self._clock.now().mono):
                _log.exception("asking broke")

    def _view(self, now: Instant) -> View:
        seen = view_of(self._state.endpoints(now))
        if seen is None or (missing := self._told - seen.gauges.keys()):
            # A picker keeps the last value of what a page lacks, as fresh as the page.
            raise NoSample(f"the engine's page does not tell {', '.join(sorted(missing)) if seen else 'its load'}")
        self._told |= _LOAD & seen.gauges.keys()
        window, totals = self._state.limits.window, self._state.totals
        points = totals.window_quantiles("time_to_first_token_seconds", now.mono, window, (_P95,))
        stuck = self._state.tracks[self._target.key].vitals.stuck_since
        return replace(seen, first_token_p95_seconds=points.get(_P95), stuck_seconds=None if stuck is None else now.mono - stuck,
                       preemptions_per_second=totals.rate("preemptions", now.mono, window))  # fmt: skip
