"""Increases that were published so far, of one target, pod, pool or cluster. Integers, so parts add up exactly."""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from math import inf
from types import MappingProxyType

from collector.ladders import DIGITS, Ladder, RawHistogram, project, quantile
from collector.signals import SHARES, SIGNALS, WINDOWED

Child = tuple[str, str]
"""Signal and the value of its own label ("" without one)."""


@cache
def _parts(signal: str, child: str) -> tuple[Child, ...]:
    """The counters that a side of a share is made of: one child, or all that the signal can have."""
    return ((signal, child),) if child else tuple((signal, one) for one in SIGNALS[signal].children or ("",))


_MARKED = frozenset({"preemptions", *(name for share in SHARES.values() for name in (share.numerator, share.denominator))})
_MARKS_PER_WINDOW = 12
_MOST_LADDERS = 16
"""Ladders kept of one histogram; each costs memory for the life of the process."""

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram on the published ladder of its signal: cumulative counts (the last is all), sum as a fixed-point integer.

    `sources` are the counts of each bucket on the engines' own ladders, for readers that compute quantiles from increases.
    """

    cumulative: tuple[int, ...]
    sum_fixed: int
    sources: Mapping[Ladder, tuple[int, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Mark:
    """Totals as they were from the moment `since` on: counters that ratios and rates need, histograms that quantiles need."""

    since: float
    counters: Mapping[Child, int]
    ladders: Mapping[str, Mapping[Ladder, tuple[int, ...]]]


@dataclass(slots=True)
class Totals:
    """Accumulated increases, and marks of the past for ratios over the window: a mark's totals held from its moment on.

    `began` is the Unix time at which nothing was counted yet.
    """

    counters: dict[Child, int] = field(default_factory=dict)
    ladders: dict[str, dict[Ladder, list[int]]] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    marks: deque[Mark] = field(default_factory=deque)
    touched: float = -inf
    first_look: float = inf
    began: float | None = None

    def held(self) -> "Totals":
        """The same as it is at this moment; what is added later does not change it."""
        ladders = {signal: {ladder: counts.copy() for ladder, counts in some.items()} for signal, some in self.ladders.items()}
        return Totals(self.counters.copy(), ladders, self.sums.copy(), self.marks.copy(), self.touched, self.first_look,
                      self.began)  # fmt: skip

    def begin(self, signal: str, children: tuple[str, ...]) -> None:
        """Start the children of a counter, or a histogram, at zero."""
        if SIGNALS[signal].ladder:
            self.ladders.setdefault(signal, {})
            self.sums.setdefault(signal, 0)
        else:
            for child in children:
                self.counters.setdefault((signal, child), 0)

    def add(self, child: Child, amount: int) -> None:
        self.counters[child] = self.counters.get(child, 0) + amount

    def add_histogram(self, signal: str, gain: RawHistogram) -> None:
        ladders = self.ladders.setdefault(signal, {})
        counts = ladders.setdefault(gain.bounds, [0] * len(gain.counts))
        for index, count in enumerate(gain.counts):
            counts[index] += count
        self.sums[signal] = self.sums.get(signal, 0) + gain.sum_fixed

    def mark(self, at: float, window: float) -> None:
        """Remember the totals as they have been since the last look, before the increases of this moment."""
        if at <= self.touched:
            return
        since, self.touched = self.touched, at
        self.first_look = min(self.first_look, at)
        if self.marks and at - self.marks[-1].since < window / _MARKS_PER_WINDOW:
            return
        counters = {child: total for child, total in self.counters.items() if child[0] in _MARKED}
        ladders = {name: {ladder: tuple(counts) for ladder, counts in self.ladders[name].items()}
                   for name in WINDOWED if name in self.ladders}  # fmt: skip
        self.marks.append(Mark(since, counters, ladders))
        while len(self.marks) > 1 and self.marks[1].since <= at - window:
            self.marks.popleft()

    def _past(self, now: float, window: float) -> Mark | None:
        """The totals at the beginning of the window; None when nothing was read in it."""
        if self.touched <= now - window or not self.marks:
            return None
        return self.marks[max(bisect_right(self.marks, now - window, key=lambda mark: mark.since) - 1, 0)]

    def share(self, name: str, now: float, window: float) -> float | None:
        """A ratio of the table over the window up to now; None without a look-up in it."""
        share = SHARES[name]
        mark = self._past(now, window)
        if mark is None:
            return None
        part = self._gained(_parts(share.numerator, share.child), mark)
        whole = self._gained(_parts(share.denominator, ""), mark)
        return min(part / whole, 1.0) if part is not None and whole else None

    def _gained(self, children: tuple[Child, ...], mark: Mark) -> int | None:
        """Sum of increases since a mark; None when none of the children was ever told."""
        told = [child for child in children if child in self.counters]
        return sum(self.counters[child] - mark.counters.get(child, 0) for child in told) if told else None

    def rate(self, name: str, now: float, window: float) -> float | None:
        """Increase of a counter per second over the window; None when it was not told in it, or only once."""
        mark = self._past(now, window)
        gained = None if mark is None else self._gained(_parts(name, ""), mark)
        if mark is None or gained is None or self.touched <= self.first_look:
            return None
        return gained / (now - max(mark.since, now - window, self.first_look))

    def window_quantiles(
        self, name: str, now: float, window: float, points: tuple[float, ...] = QUANTILES
    ) -> dict[float, float]:  # fmt: skip
        """Quantiles of a histogram over the window, on the engines' own ladders; empty without an observation in it."""
        mark = self._past(now, window)
        if mark is None:
            return {}
        past = mark.ladders.get(name, {})
        gained = {ladder: [count - before << DIGITS for count, before in zip(counts, past.get(ladder, repeat(0)), strict=False)]
                  for ladder, counts in self.ladders.get(name, {}).items()}  # fmt: skip
        # Counted that finely, each observation is spread evenly over its bucket, not put at one place of it.
        bounds = tuple(sorted({bound for ladder in gained for bound in ladder}))
        cumulative = project(gained, bounds)
        return {point: value for point in points if (value := quantile(point, bounds, cumulative)) is not None}

    def projected_share(self, name: str) -> float | None:
        """Share of a histogram's observations that came on bounds which are not all published ones; None without any."""
        published = set(SIGNALS[name].ladder)
        counts = {ladder: sum(counts) for ladder, counts in self.ladders.get(name, {}).items()}
        whole = sum(counts.values())
        return sum(count for ladder, count in counts.items() if not published.issuperset(ladder)) / whole if whole else None

    def has_room(self, signal: str, ladder: Ladder) -> bool:
        """False when a histogram came on too many ladders already to take in another."""
        known = self.ladders.get(signal, {})
        return ladder in known or len(known) < _MOST_LADDERS

    def histograms(self) -> Mapping[str, Histogram]:
        """All histograms on their published ladders and on the engines' own."""
        return MappingProxyType({
            signal: Histogram(project(ladders, SIGNALS[signal].ladder), self.sums[signal],
                              {ladder: tuple(counts) for ladder, counts in ladders.items()})
            for signal, ladders in self.ladders.items()
        })  # fmt: skip
