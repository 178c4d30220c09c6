"""Delta temporality: increases since what was taken, whatever was lost between, and never a negative one."""

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric, NumberDataPoint

from collector.signals import Kind
from exporter.publish.otlp.data import DELTA, Point, histogram_point, metric_of
from exporter.publish.otlp.delta import Ledger
from exporter.publish.otlp.ended import Living

BOUNDS = (0.5, 0.55)


def counter(total: int, *, when: int, start: int = 0, pod: str = "a") -> Metric:
    return metric_of("c_total", Kind.COUNTER, [NumberDataPoint({"pod": pod}, start, when, total)], unit="", help_text="")


def histogram(cumulative: tuple[int, ...], *, when: int, total: float = 0.0, start: int = 0) -> Metric:
    point = histogram_point(BOUNDS, cumulative, total, {"pod": "a"}, start, when)
    return metric_of("h", Kind.HISTOGRAM, [point], unit="s", help_text="")


def only(metric: Metric) -> Point:
    (point,) = metric.data.data_points
    assert isinstance(point, NumberDataPoint | HistogramDataPoint)
    return point


def test_a_new_series_counts_from_its_own_start() -> None:
    point = only(Ledger().since(counter(7, when=10, start=3)))
    assert isinstance(point, NumberDataPoint)
    assert (point.value, point.start_time_unix_nano, point.time_unix_nano) == (7, 3, 10)


def test_what_was_not_taken_is_part_of_the_next() -> None:
    """Hard case A42: no wrong number after a drop."""
    ledger = Ledger()
    ledger.take([counter(10, when=10)])
    ledger.since(counter(15, when=20))
    point = only(ledger.since(counter(18, when=30)))
    assert isinstance(point, NumberDataPoint)
    assert (point.value, point.start_time_unix_nano) == (8, 10)


def test_a_total_that_began_anew_is_told_whole_from_its_new_start() -> None:
    """Hard case A42: 10, then 3."""
    ledger = Ledger()
    ledger.take([counter(10, when=10, start=1)])
    point = only(ledger.since(counter(3, when=30, start=20)))
    assert isinstance(point, NumberDataPoint)
    assert (point.value, point.start_time_unix_nano) == (3, 20)
    more = only(ledger.since(counter(30, when=30, start=20)))
    assert isinstance(more, NumberDataPoint)
    assert more.value == 30, "a higher total of a new start is no continuation"


def test_a_clock_that_was_set_back_behind_the_start_counts_nothing_twice() -> None:
    """Starts are then the points' own times, another at each look, until the clock has caught up."""
    ledger, told = Ledger(), 0
    for total, start, when in ((10, 1000, 1010), (20, 30, 30), (30, 40, 40), (40, 1000, 1030), (50, 1000, 1040)):
        metric = counter(total, when=when, start=start)
        point = only(ledger.since(metric))
        assert isinstance(point, NumberDataPoint)
        assert (point.start_time_unix_nano or 0) <= point.time_unix_nano
        told += int(point.value)
        ledger.take([metric])
    assert told == 50


def test_temporality_is_said_and_gauges_stay() -> None:
    ledger = Ledger()
    gauge = metric_of("g", Kind.GAUGE, [NumberDataPoint({}, 0, 1, 2.0)], unit="", help_text="")
    assert ledger.since(gauge) == gauge
    assert ledger.since(counter(1, when=1)).data.aggregation_temporality is DELTA  # type: ignore[union-attr]
    assert ledger.since(histogram((1, 1, 2), when=1)).data.aggregation_temporality is DELTA  # type: ignore[union-attr]


def told(histories: Iterable[tuple[int, ...]]) -> list[HistogramDataPoint]:
    ledger, points = Ledger(), []
    for when, cumulative in enumerate(histories):
        metric = histogram(cumulative, when=when)
        point = only(ledger.since(metric))
        assert isinstance(point, HistogramDataPoint)
        ledger.take([metric])
        points.append(point)
    return points


def test_a_bucket_that_steps_back_is_never_negative_and_comes_out_right() -> None:
    """A page read between two writes of the engine: a lower bucket has an observation that the sum of all has not yet."""
    histories = [(1, 3, 3), (2, 3, 3), (2, 4, 4), (3, 4, 5), (3, 4, 6), (3, 6, 8)]
    assert any(later[1] - later[0] < former[1] - former[0] for former, later in pairwise(histories)), "else this shows nothing"
    points = told(histories)
    assert all(min(point.bucket_counts) >= 0 and sum(point.bucket_counts) == point.count for point in points)
    last = histories[-1]
    sums = [sum(point.bucket_counts[index] for point in points) for index in range(3)]
    assert sums == [last[0], last[1] - last[0], last[2] - last[1]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=30), st.integers(0, 2**32))
def test_increases_add_up_to_the_totals_whatever_is_lost(gains: list[tuple[int, int, int]], seed: int) -> None:
    chance, ledger = random.Random(seed), Ledger()
    counts, total, sum_told = [0, 0, 0], 0.0, 0.0
    told_counts = [0, 0, 0]
    for when, gain in enumerate([*gains, (1, 1, 1)]):
        counts = [old + new for old, new in zip(counts, gain, strict=True)]
        total += sum(gain) * 0.25
        metric = histogram((counts[0], counts[0] + counts[1], sum(counts)), when=when, total=total)
        point = only(ledger.since(metric))
        assert isinstance(point, HistogramDataPoint)
        if when == len(gains) or chance.random() < 0.6:
            ledger.take([metric])
            told_counts = [old + new for old, new in zip(told_counts, point.bucket_counts, strict=True)]
            sum_told += point.sum
    assert told_counts == counts
    assert sum_told == total


@pytest.mark.parametrize("pods", [10_000])
def test_ten_thousand_names_leave_nothing_behind(pods: int) -> None:
    """Hard case A41."""
    ledger, living = Ledger(), Living()
    for number in range(pods):
        metrics = [counter(1, when=number, pod=f"pod-{number}")]
        living.begin(), living.see(metrics), ledger.see(metrics)
        ledger.forget()
        for ended in living.ended().parts(100):
            living.forget(ended)
        ledger.take(metrics)
        living.take(metrics)
    assert (len(ledger), len(living)) == (1, 1)
