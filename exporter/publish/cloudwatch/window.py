"""Samples of the levels to windows: what each subject gained in one period, and how its gauges moved meanwhile."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.ladders import Ladder
from collector.signals import Level
from collector.snapshot import Row
from collector.totals import Child

Place = tuple[Level, tuple[str, ...]]
"""A level, and the values of its labels."""

Wanted = Mapping[Level, frozenset[str]]
"""Signals by level."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a gauge was over the samples of a window."""

    count: int
    total: float
    low: float
    high: float

    def and_(self, value: float) -> "Statistics":
        return Statistics(self.count + 1, self.total + value, min(self.low, value), max(self.high, value))


@dataclass(frozen=True, slots=True)
class Gain:
    """What a histogram holds or gained: counts of each bucket by the engines' own ladders, sum as a fixed-point integer."""

    ladders: Mapping[Ladder, tuple[int, ...]]
    sum_fixed: int


@dataclass(frozen=True, slots=True)
class Subject:
    """One row over a window."""

    gauges: Mapping[Child, Statistics] = field(default_factory=dict)
    counters: Mapping[Child, int] = field(default_factory=dict)
    histograms: Mapping[str, Gain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Totals:
    """What is kept of a row until the next sample: its wanted totals."""

    counters: Mapping[Child, int]
    histograms: Mapping[str, Gain]


@dataclass(frozen=True, slots=True)
class Window:
    """One period from `start` (Unix time) on. `unusable` counts samples that were no finite number."""

    start: float
    subjects: Mapping[Place, Subject]
    unusable: int = 0


class Windows:
    """Takes in samples, hands out a window when the first sample after it is there. Totals begin at zero with the process."""

    def __init__(self, period_seconds: float, wanted: Wanted) -> None:
        self._period = period_seconds
        self._wanted = wanted
        self._start = -math.inf
        self._before: dict[Place, Totals] = {}
        self._newest: dict[Place, Totals] = {}
        self._gauges: dict[Place, dict[Child, Statistics]] = {}
        self._unusable = 0

    @property
    def start(self) -> float:
        """Unix time at which the open window began; minus infinity before the first sample."""
        return self._start

    def take(self, rows: Iterable[Row], wall: float) -> Window | None:
        """One sample. What was gained up to it belongs to the window that it ends, or else to the one it falls into."""
        seen = {(row.level, row.labels): row for row in rows if row.level in self._wanted}
        now = {place: _totals(row, self._wanted[place[0]]) for place, row in seen.items()}
        start = wall // self._period * self._period
        ends = start != self._start and self._start != -math.inf
        if now and self._newest and self._newest.keys().isdisjoint(now):
            # The cluster has another name: its totals are old, and nothing was gained under the new one yet.
            self._before |= now
        self._newest |= now
        closed = self.close() if ends else None
        self._start = start
        if ends:
            # A row that is gone for a whole window begins at zero should it come back.
            self._newest = dict(now)
        self._look(seen)
        return closed

    def close(self) -> Window:
        """The open window as far as it is known; the next one goes on from there."""
        subjects = {place: self._subject(place, totals) for place, totals in self._newest.items()}
        closed = Window(self._start, subjects, self._unusable)
        self._before, self._gauges, self._unusable = dict(self._newest), {}, 0
        return closed

    def _look(self, seen: Mapping[Place, Row]) -> None:
        for place, row in seen.items():
            wanted, known = self._wanted[place[0]], self._gauges.setdefault(place, {})
            for child, value in row.gauges.items():
                if child[0] not in wanted:
                    continue
                if not math.isfinite(value):
                    self._unusable += 1
                    continue
                so_far = known.get(child)
                known[child] = Statistics(1, value, value, value) if so_far is None else so_far.and_(value)

    def _subject(self, place: Place, now: Totals) -> Subject:
        before = self._before.get(place, _NOTHING)
        if _fell(before, now):
            before = _NOTHING
        return Subject(
            gauges=self._gauges.get(place, {}),
            counters={child: total - before.counters.get(child, 0) for child, total in now.counters.items()},
            histograms={name: _gain(before.histograms.get(name), gain) for name, gain in now.histograms.items()},
        )


_NOTHING = Totals({}, {})


def _totals(row: Row, wanted: frozenset[str]) -> Totals:
    return Totals(
        {child: total for child, total in row.counters.items() if child[0] in wanted},
        {name: Gain(one.sources, one.sum_fixed) for name, one in row.histograms.items() if name in wanted},
    )


def _fell(before: Totals, now: Totals) -> bool:
    """True when the row is another subject's of the same name, whose totals began anew."""
    return any(now.counters.get(child, 0) < total for child, total in before.counters.items())


def _gain(before: Gain | None, now: Gain) -> Gain:
    if before is None:
        return now
    gained: dict[Ladder, tuple[int, ...]] = {}
    for ladder, counts in now.ladders.items():
        past = before.ladders.get(ladder)
        gained[ladder] = counts if past is None else tuple(count - less for count, less in zip(counts, past, strict=True))
    return Gain(gained, now.sum_fixed - before.sum_fixed)
