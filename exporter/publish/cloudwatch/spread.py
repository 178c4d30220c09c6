"""A histogram's increase as values with counts, so that percentiles of them agree with `histogram_quantile`.

Both see observations as spread evenly over their bucket. Each bucket becomes so many points that the steps between them are
alike in proportion; each point stands in the middle of the observations that it counts. A percentile that goes by rank is
thus off by half a step at most. Where the usual percentiles of this window lie, a point of one observation is put there.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from collector.ladders import Ladder, project

PINNED = (0.5, 0.99, 0.95, 0.9, 0.999)
"""Percentiles that are exact for a single window; of two that fall on one observation the first."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Values, ascending, and how many observations each stands for. `overflow` of them lie above the highest bound."""

    values: tuple[float, ...]
    counts: tuple[int, ...]
    overflow: int
    low: float
    high: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Observations between two bounds: `count` of them, with `below` observations under it."""

    low: float
    high: float
    below: int
    count: int

    def at(self, rank: float) -> float:
        """Where the observation of that rank is taken to lie."""
        return self.low + (self.high - self.low) * (rank - self.below) / self.count


def merge(gained: Mapping[Ladder, Sequence[int]], published: Ladder, most: int) -> tuple[Ladder, tuple[int, ...]]:
    """Increases on several ladders as cumulative counts on all their bounds; on the published ones where those are too many."""
    used = [ladder for ladder, counts in gained.items() if any(counts)]
    bounds = tuple(sorted({bound for ladder in used for bound in ladder}))
    if len(bounds) + 1 + 2 * len(PINNED) > most:
        bounds = published
    return bounds, project(gained, bounds)


def buckets_of(bounds: Ladder, cumulative: Sequence[int]) -> list[Bucket]:
    """Buckets that hold anything; what lies above the highest bound is taken to lie on it, as Prometheus does."""
    if not bounds:
        return []
    found, below, lower = [], 0, min(0.0, bounds[0])
    for bound, upto in zip((*bounds, bounds[-1]), cumulative, strict=True):
        # After a torn scrape a single window can have lost what the next one gains.
        count = max(upto, 0) - below
        if count > 0:
            found.append(Bucket(lower, bound, below, count))
        below, lower = max(below, upto), bound
    return found


def spread(bounds: Ladder, cumulative: Sequence[int], most: int) -> Spread:
    """At most so many values for these cumulative counts (overflow last); none when there is nothing, or no finite bound."""
    buckets = buckets_of(bounds, cumulative)
    if not buckets:
        return Spread((), (), max(cumulative[-1], 0), 0.0, 0.0)
    total = buckets[-1].below + buckets[-1].count
    pins: dict[int, float] = {}
    for point in PINNED:
        pins.setdefault(max(math.ceil(point * total), 1), point * total)
    points = [point for bucket, pieces in zip(buckets, _pieces(buckets, most - 2 * len(PINNED)), strict=True)
              for point in _points(bucket, pieces, pins)]  # fmt: skip
    by_value: dict[float, int] = {}
    for value, count in points:
        by_value[value] = by_value.get(value, 0) + count
    overflow = cumulative[-1] - max(*cumulative[:-1], 0)
    return Spread(tuple(by_value), tuple(by_value.values()), overflow, buckets[0].low, buckets[-1].high)


def _pieces(buckets: Sequence[Bucket], most: int) -> list[int]:
    """How many points each bucket gets: one more where the steps are widest in proportion, until there are so many."""
    pieces = [1] * len(buckets)
    widths = [(one.high - one.low) / max(abs(one.low), abs(one.high), 1e-300) for one in buckets]
    widest = [(-width, index) for index, width in enumerate(widths) if width > 0 and buckets[index].count > 1]
    heapq.heapify(widest)
    for _ in range(most - len(buckets)):
        if not widest:
            break
        _, index = widest[0]
        pieces[index] += 1
        if pieces[index] < buckets[index].count:
            heapq.heapreplace(widest, (-widths[index] / pieces[index], index))
        else:
            heapq.heappop(widest)
    return pieces


def _points(bucket: Bucket, pieces: int, pins: Mapping[int, float]) -> list[tuple[float, int]]:
    """Points of one bucket: each stands in the middle of the ranks that it counts, a pinned one where its percentile lies."""
    if bucket.low == bucket.high:
        return [(bucket.high, bucket.count)]
    cuts = {bucket.count * piece // pieces for piece in range(pieces + 1)}
    here = [rank for rank in pins if bucket.below < rank <= bucket.below + bucket.count]
    cuts.update(rank - bucket.below for rank in here)
    cuts.update(rank - bucket.below - 1 for rank in here)
    found = []
    for before, upto in pairwise(sorted(cuts)):
        rank = bucket.below + upto
        middle = pins[rank] if upto - before == 1 and rank in pins else bucket.below + (before + upto) / 2
        found.append((bucket.at(middle), upto - before))
    return found
