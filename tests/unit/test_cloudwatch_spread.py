"""Histograms as values with counts: percentiles agree with `histogram_quantile`, and with exact samples to within a bucket."""

import math
from bisect import bisect_left
from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.ladders import Ladder, quantile
from collector.signals import SIGNALS
from exporter.demo.cloudwatch.store import percentile
from exporter.publish.cloudwatch.limits import MOST_VALUES
from exporter.publish.cloudwatch.spread import PINNED, Spread, buckets_of, merge, spread

POINTS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
TTFT = SIGNALS["time_to_first_token_seconds"].ladder
ladders = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60, unique=True).map(sorted).map(tuple)


@st.composite
def histograms(draw: st.DrawFn) -> tuple[Ladder, list[int]]:
    """A ladder and its cumulative counts, overflow last."""
    bounds = draw(ladders)
    counts = draw(st.lists(st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 10**7)), min_size=len(bounds) + 1,
                           max_size=len(bounds) + 1))  # fmt: skip
    return bounds, list(accumulate(counts))


def pairs(bounds: Ladder, cumulative: list[int]) -> list[tuple[float, int]]:
    points = spread(bounds, cumulative, MOST_VALUES)
    return list(zip(points.values, points.counts, strict=True))


def by_rank(points: Spread, share: float) -> int:
    """Index of the value that a percentile by rank picks."""
    upto = list(accumulate(points.counts))
    return next(index for index, count in enumerate(upto) if count >= share * upto[-1])


@given(histograms())
def test_every_observation_is_counted_once_within_the_budget(histogram: tuple[Ladder, list[int]]) -> None:
    bounds, cumulative = histogram
    points = spread(bounds, cumulative, MOST_VALUES)
    assert points.count == (cumulative[-1] if cumulative[-1] > 0 else 0)
    assert len(points.values) <= MOST_VALUES
    assert all(low < high for low, high in pairwise(points.values))
    assert all(count > 0 for count in points.counts)
    assert points.overflow == cumulative[-1] - cumulative[-2]


@given(histograms())
def test_any_percentile_is_within_half_a_step_of_histogram_quantile(histogram: tuple[Ladder, list[int]]) -> None:
    bounds, cumulative = histogram
    points = spread(bounds, cumulative, MOST_VALUES)
    for share in POINTS if points.count else ():
        index = by_rank(points, share)
        expected = quantile(share, bounds, cumulative)
        assert expected is not None
        bucket = next(one for one in buckets_of(bounds, cumulative) if points.values[index] <= one.high)
        half = (bucket.high - bucket.low) * points.counts[index] / bucket.count / 2
        # A pinned point stands where its own percentile lies, not in the middle of the one observation that it counts.
        step = 2 * half if points.counts[index] == 1 else half
        assert points.values[index] == pytest.approx(expected, abs=step * (1 + 1e-9), rel=1e-9)


@given(histograms())
def test_the_usual_percentiles_are_exact_where_each_has_an_observation_of_its_own(histogram: tuple[Ladder, list[int]]) -> None:
    bounds, cumulative = histogram
    points = spread(bounds, cumulative, MOST_VALUES)
    if points.count < 1000:
        return
    for share in PINNED:
        assert points.values[by_rank(points, share)] == pytest.approx(quantile(share, bounds, cumulative), rel=1e-9)


def test_steps_are_small_in_proportion() -> None:
    """The figure in docs/cloudwatch.md: half a step is at most 6 % of the value, even with every bucket of a ladder in use."""
    worst = 0.0
    for row in SIGNALS.values():
        cumulative = [1000 * (index + 1) for index in range(len(row.ladder) + 1)]
        points = pairs(row.ladder, cumulative) if row.ladder else []
        for bucket in buckets_of(row.ladder, cumulative)[:-1]:
            inside = [count for value, count in points if bucket.low < value < bucket.high]
            if bucket.low < bucket.high:
                worst = max(worst, max(inside) / bucket.count * (bucket.high - bucket.low) / 2 / bucket.high)
    assert 0.01 < worst < 0.06


def observed(values: list[float], bounds: Ladder = TTFT) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return list(accumulate(counts))


def lognormal(rng: Random, middle: float, width: float, count: int) -> list[float]:
    return [middle * rng.lognormvariate(0.0, width) for _ in range(count)]


SHAPES = {
    "usual": lambda rng: lognormal(rng, 0.2, 0.8, 5000),
    "one bucket": lambda rng: [rng.uniform(0.11, 0.14) for _ in range(700)],
    "two modes": lambda rng: lognormal(rng, 0.03, 0.2, 900) + lognormal(rng, 8.0, 0.2, 100),
    "one observation": lambda _: [0.3],
    "two observations": lambda _: [0.02, 60.0],
    "on the bounds": lambda _: [bound for bound in TTFT for _ in range(10)],
    "overflow": lambda rng: lognormal(rng, 0.2, 0.8, 900) + [5000.0] * 100,
    "all overflow": lambda _: [5000.0] * 40,
    "millions": lambda rng: lognormal(rng, 0.2, 0.8, 300) * 1000,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_percentiles_are_in_the_bucket_of_the_exact_sample(shape: str, share: float) -> None:
    """The stated bound: nobody who has buckets only can do better than their width."""
    samples = sorted(SHAPES[shape](Random(shape)))
    points = spread(TTFT, observed(samples), MOST_VALUES)
    true = samples[math.ceil(len(samples) * share) - 1]
    index = bisect_left(TTFT, true)
    low, high = (TTFT[index - 1] if index else 0.0), TTFT[min(index, len(TTFT) - 1)]
    seen = percentile(dict(zip(points.values, points.counts, strict=True)), share)
    assert low <= seen <= high or (index == len(TTFT) and seen == TTFT[-1])
    assert points.overflow == sum(sample > TTFT[-1] for sample in samples)


def test_nothing_gives_nothing() -> None:
    assert spread(TTFT, [0] * (len(TTFT) + 1), MOST_VALUES) == Spread((), (), 0, 0.0, 0.0)
    assert spread((), [7], MOST_VALUES) == Spread((), (), 7, 0.0, 0.0)


def test_a_window_that_lost_what_the_next_one_gains_keeps_its_count() -> None:
    bounds, cumulative = merge({(1.0, 2.0, 4.0): (5, -2, 3, 1)}, TTFT, MOST_VALUES)
    assert bounds == (1.0, 2.0, 4.0)
    points = spread(bounds, cumulative, MOST_VALUES)
    assert points.count == 7
    assert points.overflow == 1


def test_ladders_of_two_engines_become_one_with_all_bounds() -> None:
    bounds, cumulative = merge({(1.0, 3.0): (10, 10, 0), (2.0, 3.0): (6, 0, 2), (9.0,): (0, 0)}, TTFT, MOST_VALUES)
    assert bounds == (1.0, 2.0, 3.0)
    assert cumulative == (10 + 3, 10 + 5 + 6, 20 + 6, 28)


def test_too_many_bounds_fall_back_to_the_published_ones() -> None:
    many = {tuple(1.0 + start + step * 1e-3 for step in range(30)): (1,) * 31 for start in range(10)}
    bounds, cumulative = merge(many, TTFT, MOST_VALUES)
    assert bounds == TTFT
    points = spread(bounds, cumulative, MOST_VALUES)
    assert points.count == 310
    assert len(points.values) <= MOST_VALUES
