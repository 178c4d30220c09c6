"""Increases that were published so far, of one target, pod, pool or cluster. Integers, so parts add up exactly."""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from collector.ladders import Ladder, RawHistogram, project
from collector.signals import SHARES, SIGNALS

Child = tuple[str, str]
"""Signal and the value of its own label ("" without one)."""

_MARKED = frozenset(name for share in SHARES.values() for name in (share.numerator, share.denominator))
_MARKS_PER_WINDOW = 12


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram on the published ladder of its signal: cumulative counts (the last is all), sum as a fixed-point integer."""

    cumulative: tuple[int, ...]
    sum_fixed: int


@dataclass(slots=True)
class Totals:
    """Accumulated increases, and marks of the past for ratios over the window: a mark's totals held from its moment on."""

    counters: dict[Child, int] = field(default_factory=dict)
    ladders: dict[str, dict[Ladder, list[int]]] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    marks: deque[tuple[float, Mapping[Child, int]]] = field(default_factory=deque)
    touched: float = -inf

    def begin(self, signal: str) -> None:
        """Start a counter's closed children, or a histogram, at zero."""
        if SIGNALS[signal].ladder:
            self.ladders.setdefault(signal, {})
            self.sums.setdefault(signal, 0)
        else:
            for child in SIGNALS[signal].children or ("",):
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
        if self.marks and at - self.marks[-1][0] < window / _MARKS_PER_WINDOW:
            return
        self.marks.append((since, {child: total for child, total in self.counters.items() if child[0] in _MARKED}))
        while len(self.marks) > 1 and self.marks[1][0] <= at - window:
            self.marks.popleft()

    def share(self, name: str, now: float, window: float) -> float | None:
        """A ratio of the table over the window up to now; None without a look-up in it."""
        share = SHARES[name]
        if self.touched <= now - window or not any(signal == share.numerator for signal, _ in self.counters):
            return None
        past = self.marks[max(bisect_right(self.marks, now - window, key=lambda mark: mark[0]) - 1, 0)][1]
        parts = [0, 0]
        for child, total in self.counters.items():
            increase = total - past.get(child, 0)
            if child[0] == share.numerator and share.child in ("", child[1]):
                parts[0] += increase
            if child[0] == share.denominator:
                parts[1] += increase
        return min(parts[0] / parts[1], 1.0) if parts[1] > 0 else None

    def histograms(self) -> Mapping[str, Histogram]:
        """All histograms on their published ladders."""
        return MappingProxyType({signal: Histogram(project(ladders, SIGNALS[signal].ladder), self.sums[signal])
                                 for signal, ladders in self.ladders.items()})  # fmt: skip
