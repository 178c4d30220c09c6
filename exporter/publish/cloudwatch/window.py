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
        self._there: frozenset[Place] = frozenset()
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
        self._go_on(now)
        self._newest |= now
        closed = self.close() if ends else None
        self._start = start
        self._newest = dict(now) if ends else self._newest
        self._there = frozenset(now)
        self._look(seen)
        return closed

    def _go_on(self, now: Mapping[Place, Totals]) -> None:
        """Rows whose totals are not those of the sample before: what was gained so far stays, from here on it counts anew."""
        renamed = bool(now and self._there) and {row[1][0] for row in now}.isdisjoint(row[1][0] for row in self._there)
        for place, totals in now.items():
            last = self._newest.get(place) or self._before.get(place, _NOTHING)
            if not renamed and place in self._there and not _fell(last, totals):
                continue
            # Under another name of the cluster totals are old; else the row is another subject's, or back after it was gone.
            base = totals if renamed else _NOTHING
            self._before[place] = _less(self._before.get(place, _NOTHING), _less(last, base))

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
        gained = _less(now, self._before.get(place, _NOTHING))
        return Subject(gauges=self._gauges.get(place, {}), counters=gained.counters, histograms=gained.histograms)


_NOTHING = Totals({}, {})
_EMPTY = Gain({}, 0)


def _totals(row: Row, wanted: frozenset[str]) -> Totals:
    return Totals(
        {child: total for child, total in row.counters.items() if child[0] in wanted},
        {name: Gain(one.sources, one.sum_fixed) for name, one in row.histograms.items() if name in wanted},
    )


def _fell(before: Totals, now: Totals) -> bool:
    """True when the row is another subject's of the same name, whose totals began anew."""
    if any(now.counters.get(child, 0) < total for child, total in before.counters.items()):
        return True
    return any(_observed(now.histograms.get(name, _EMPTY)) < _observed(gain) for name, gain in before.histograms.items())


def _observed(gain: Gain) -> int:
    return sum(map(sum, gain.ladders.values()))


def _less(one: Totals, other: Totals) -> Totals:
    counters = {child: one.counters.get(child, 0) - other.counters.get(child, 0) for child in {**one.counters, **other.counters}}
    return Totals(counters, {name: _gain_less(one.histograms.get(name, _EMPTY), other.histograms.get(name, _EMPTY))
                             for name in {**one.histograms, **other.histograms}})  # fmt: skip


def _gain_less(one: Gain, other: Gain) -> Gain:
    ladders: dict[Ladder, tuple[int, ...]] = {}
    for ladder in {**one.ladders, **other.ladders}:
        none = (0,) * (len(ladder) + 1)
        pairs = zip(one.ladders.get(ladder, none), other.ladders.get(ladder, none), strict=True)
        ladders[ladder] = tuple(count - less for count, less in pairs)
    return Gain(ladders, one.sum_fixed - other.sum_fixed)
