"""Histogram arithmetic in integers: increases per source ladder, and projection onto the published one.

A ladder is a tuple of finite upper bounds, ascending; the overflow bucket is implied. Sums are fixed-point integers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf

from collector.fixed import to_fixed

Ladder = tuple[float, ...]
_SHIFT = 32


@dataclass(frozen=True, slots=True)
class RawHistogram:
    """One histogram series as an engine prints it: counts per bucket (the last is overflow), sum as a fixed-point integer."""

    bounds: Ladder
    counts: tuple[int, ...]
    sum_fixed: int

    @property
    def count(self) -> int:
        return sum(self.counts)


def from_cumulative(buckets: Mapping[float, float], total: float) -> RawHistogram | None:
    """Cumulative counts by bound (with +Inf) and the sum, as printed; None when they are no cumulative histogram."""
    bounds = sorted(buckets)
    if not bounds or bounds[-1] != inf or bounds[0] == -inf or total < 0:
        return None
    cumulative = [buckets[bound] for bound in bounds]
    if cumulative[0] < 0 or any(low > high for low, high in pairwise(cumulative)):
        return None
    whole = [round(value) for value in cumulative]
    counts = [whole[0], *(high - low for low, high in pairwise(whole))]
    return RawHistogram(tuple(bounds[:-1]), tuple(counts), to_fixed(total))


def fell(before: RawHistogram, now: RawHistogram) -> bool:
    """True when the series began anew: other bounds, or any cumulative count or the total went down."""
    if before.bounds != now.bounds:
        return True
    return any(low > high for low, high in zip(accumulate(before.counts), accumulate(now.counts), strict=True))


def difference(before: RawHistogram, now: RawHistogram) -> RawHistogram:
    """Increase between two samples of one series that did not fall.

    A bucket can lose what a lower one gains only through a scrape that met the engine between two writes; cumulative counts
    are what is compared, so single buckets of the increase may be negative and level out with the next sample. A sum that
    several processes add up in any order wobbles in its last digit: it never takes away.
    """
    counts = tuple(high - low for low, high in zip(before.counts, now.counts, strict=True))
    return RawHistogram(now.bounds, counts, max(now.sum_fixed - before.sum_fixed, 0))


@lru_cache(maxsize=256)
def _shares(source: Ladder, target: Ladder) -> tuple[tuple[int, int], ...]:
    """For each target bound: how many source buckets lie below it whole, and the share of the next one, in 2**-32."""
    shares = []
    for bound in target:
        whole = sum(1 for upper in source if upper <= bound)
        if whole == len(source):
            shares.append((whole, 0))
            continue
        upper = source[whole]
        lower = source[whole - 1] if whole else min(0.0, upper)
        part = (bound - lower) / (upper - lower) if bound > lower else 0.0
        shares.append((whole, int(part * (1 << _SHIFT))))
    return tuple(shares)


def project(totals: Mapping[Ladder, Sequence[int]], target: Ladder) -> tuple[int, ...]:
    """Cumulative counts on the target ladder plus the overflow: linear inside a source bucket, rounded down.

    Exact where source and target share a bound; monotone in time and, by the closing minimum from the top, along the ladder
    also after a torn scrape. What lies beyond the last finite source bound is beyond every finite target bound.
    """
    result = [0] * (len(target) + 1)
    for source, counts in totals.items():
        below = [0, *accumulate(counts)]
        for index, (whole, part) in enumerate(_shares(source, target)):
            result[index] += below[whole] + (counts[whole] * part >> _SHIFT if part else 0)
        result[-1] += below[-1]
    return tuple(accumulate(reversed(result), min))[::-1]


def quantile(point: float, bounds: Ladder, cumulative: Sequence[int]) -> float | None:
    """Quantile as Prometheus computes it: linear inside a bucket, the highest finite bound for the overflow; None when empty."""
    if not bounds or cumulative[-1] <= 0:
        return None
    rank = point * cumulative[-1]
    index = next((index for index, count in enumerate(cumulative) if count >= rank and count > 0), len(bounds))
    if index >= len(bounds):
        return bounds[-1]
    if index == 0 and bounds[0] <= 0:
        return bounds[0]
    lower, below = (bounds[index - 1], cumulative[index - 1]) if index else (0.0, 0)
    return lower + (bounds[index] - lower) * (rank - below) / (cumulative[index] - below)
