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
DIGITS = 32
"""Binary digits of a share of a bucket."""


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


Place = tuple[int, tuple[tuple[int, int], ...]]
"""Where a published bound lies: above how many whole source buckets, and which observations of the next one it takes in."""


@lru_cache(maxsize=256)
def _places(source: Ladder, target: Ladder) -> tuple[Place, ...]:
    places: list[Place] = []
    for bound in target:
        whole = sum(1 for upper in source if upper <= bound)
        if whole == len(source):
            places.append((whole, ()))
            continue
        upper = source[whole]
        lower = source[whole - 1] if whole else min(0.0, upper)
        part = (bound - lower) / (upper - lower) if bound > lower else 0.0
        places.append((whole, _taken(int(part * (1 << DIGITS)))))
    return tuple(places)


def _taken(part: int) -> tuple[tuple[int, int], ...]:
    """The binary digits of a share, each as the observations it takes in: those whose number is `first` modulo 2**`shift`."""
    digits = [shift for shift in range(1, DIGITS + 1) if part >> DIGITS - shift & 1]
    return tuple((shift, sum(1 << digit - 1 for digit in digits if digit < shift)) for shift in digits)


def project(totals: Mapping[Ladder, Sequence[int]], target: Ladder) -> tuple[int, ...]:
    """Cumulative counts on the target ladder plus the overflow: spread evenly inside a source bucket, in whole observations.

    Exact where source and target share a bound. The n-th observation of a source bucket lies at a place of its own once and for
    all (1/2, 1/4, 3/4, 1/8 ...: van der Corput's sequence). So published buckets never lose what they had, what they gain over
    any span is itself a histogram, and n observations are spread to within log2(n) of an even share. By the closing minimum from
    the top, monotone along the ladder also after a torn scrape. What lies beyond the last finite source bound is beyond every
    finite target bound.
    """
    result = [0] * (len(target) + 1)
    for source, counts in totals.items():
        below = [0, *accumulate(counts)]
        for index, (whole, taken) in enumerate(_places(source, target)):
            result[index] += below[whole]
            if taken:
                n = counts[whole]
                result[index] += sum([(n - first >> shift) + 1 for shift, first in taken]) - 1
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
