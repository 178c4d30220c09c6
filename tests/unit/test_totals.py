"""Accumulated increases, closed children, and ratios over the window."""

import pytest

from collector.fixed import to_fixed
from collector.ladders import project
from collector.signals import OUTCOMES, SIGNALS
from collector.totals import Histogram, Totals
from tests.make import raw

WINDOW = 60.0
HITS, QUERIES = ("prefix_cache_hit_tokens", ""), ("prefix_cache_query_tokens", "")
TTFT = "time_to_first_token_seconds"


def grow(totals: Totals, at: float, hits: int, queries: int) -> None:
    totals.mark(at, WINDOW)
    totals.add(HITS, hits)
    totals.add(QUERIES, queries)


def hit_ratio(totals: Totals, now: float) -> float | None:
    return totals.share("prefix_cache_hit_ratio", now, WINDOW)


def test_closed_children_begin_at_a_true_zero() -> None:
    totals = Totals()
    totals.begin("requests", OUTCOMES)
    assert totals.counters == {("requests", outcome): 0 for outcome in ("stop", "length", "abort", "error", "other")}


def test_to_begin_again_changes_nothing() -> None:
    totals = Totals()
    totals.add(("requests", "stop"), 5)
    totals.add_histogram(TTFT, raw((1.0,), (2, 1), 4.5))
    totals.begin("requests", OUTCOMES)
    totals.begin(TTFT, ())
    assert totals.counters["requests", "stop"] == 5
    assert totals.histograms()[TTFT].cumulative[-1] == 3


def test_a_histogram_begins_with_all_its_buckets_at_zero() -> None:
    totals = Totals()
    totals.begin(TTFT, ())
    assert totals.histograms()[TTFT] == Histogram((0,) * (len(SIGNALS[TTFT].ladder) + 1), 0)


def test_histograms_of_several_ladders_add_up() -> None:
    totals = Totals()
    totals.add_histogram(TTFT, raw((0.1, 1.0), (1, 2, 3), 5.5))
    totals.add_histogram(TTFT, raw((0.1, 1.0), (10, 0, 0), 0.5))
    totals.add_histogram(TTFT, raw((0.5,), (4, 1), 2.25))
    expected = project({(0.1, 1.0): (11, 2, 3), (0.5,): (4, 1)}, SIGNALS[TTFT].ladder)
    assert totals.histograms()[TTFT] == Histogram(expected, to_fixed(8.25))
    assert expected[-1] == 21


def test_nothing_seen_is_absent() -> None:
    assert hit_ratio(Totals(), 0.0) is None


def test_first_scrape_has_no_ratio() -> None:
    """A32: unknown until there is an increase."""
    totals = Totals()
    grow(totals, 0.0, 0, 0)
    assert hit_ratio(totals, 0.0) is None


def test_ratio_of_increases_not_of_lifetimes() -> None:
    """80 of 100 long ago, 1 of 10 inside the window: 0.1."""
    totals = Totals()
    grow(totals, 0.0, 80, 100)
    grow(totals, 100.0, 1, 10)
    assert hit_ratio(totals, 100.0) == pytest.approx(0.1)


def test_idle_is_absent_not_zero() -> None:
    totals = Totals()
    for second in range(0, 200, 5):
        grow(totals, float(second), 1 if second <= 50 else 0, 2 if second <= 50 else 0)
    assert hit_ratio(totals, 195.0) is None


def test_without_hits_the_ratio_is_a_true_zero() -> None:
    totals = Totals()
    grow(totals, 0.0, 0, 50)
    assert hit_ratio(totals, 1.0) == 0.0


def test_an_increase_leaves_the_window_when_nobody_looks_any_more() -> None:
    """Silence of every target: no absorb renews the marks, the ratio ends by the clock alone."""
    totals = Totals()
    grow(totals, 0.0, 0, 0)
    grow(totals, 1.0, 3, 4)
    assert hit_ratio(totals, 60.5) == pytest.approx(0.75)
    assert hit_ratio(totals, 61.0) is None
    assert hit_ratio(totals, 3600.0) is None


def test_an_increase_before_a_silence_is_not_in_the_window_after_it() -> None:
    totals = Totals()
    grow(totals, 0.0, 0, 0)
    grow(totals, 1.0, 90, 100)
    grow(totals, 2.0, 9, 100)
    grow(totals, 3602.0, 1, 10)
    assert hit_ratio(totals, 3602.0) == pytest.approx(0.1)


@pytest.mark.parametrize("step", [0.05, 1.0, 4.0, 5.0, 7.0, 20.0])
def test_window_is_right_within_a_twelfth(step: float) -> None:
    """Even pace: 1 hit of 4 before the turn, 3 of 4 after. A window, a twelfth and a step later only the new ratio is left."""
    totals = Totals()
    moment = 0.0
    while moment <= 200.0 + WINDOW * 13 / 12 + step:
        grow(totals, moment, 1 if moment <= 200.0 else 3, 4)
        ratio = hit_ratio(totals, moment)
        assert ratio is not None
        if 200.0 < moment < 250.0:
            assert 0.25 < ratio < 0.75
        moment += step
    assert ratio == pytest.approx(0.75)


def test_marks_stay_few() -> None:
    totals = Totals()
    for tick in range(10_000):
        grow(totals, tick * 0.05, 1, 1)
    assert 12 <= len(totals.marks) <= 14


def test_error_ratio_divides_by_all_outcomes() -> None:
    totals = Totals()
    totals.mark(0.0, WINDOW)
    totals.begin("requests", OUTCOMES)
    for outcome, count in (("stop", 6), ("length", 1), ("error", 2), ("abort", 1)):
        totals.add(("requests", outcome), count)
    assert totals.share("error_ratio", 0.0, WINDOW) == pytest.approx(0.2)


def test_error_ratio_without_errors_is_zero_and_idle_is_absent() -> None:
    totals = Totals()
    totals.mark(0.0, WINDOW)
    totals.begin("requests", OUTCOMES)
    assert totals.share("error_ratio", 0.0, WINDOW) is None
    totals.add(("requests", "stop"), 4)
    assert totals.share("error_ratio", 0.0, WINDOW) == 0.0


def test_denominator_without_numerator_tells_nothing() -> None:
    """An engine that counts look-ups but not hits: absent, not zero."""
    totals = Totals()
    totals.mark(0.0, WINDOW)
    totals.add(QUERIES, 10)
    assert hit_ratio(totals, 0.0) is None


def test_a_rate_is_the_increase_over_the_time_that_was_seen() -> None:
    totals = Totals()
    assert totals.rate("preemptions", 0.0, 60.0) is None
    totals.mark(100.0, 60.0)
    totals.begin("preemptions", ("",))
    assert totals.rate("preemptions", 100.0, 60.0) is None, "one look is no rate"
    totals.mark(110.0, 60.0)
    totals.add(("preemptions", ""), 5)
    assert totals.rate("preemptions", 110.0, 60.0) == pytest.approx(0.5)
    assert totals.held().rate("preemptions", 110.0, 60.0) == pytest.approx(0.5)
    for at in range(120, 200, 10):
        totals.mark(float(at), 60.0)
    assert totals.rate("preemptions", 190.0, 60.0) == 0
    assert totals.rate("preemptions", 500.0, 60.0) is None, "silence"
