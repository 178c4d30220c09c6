"""Gains of single series: first sample, known birth, reset, gap. Every expected number is worked out by hand."""

import pytest

from collector.counters import Gain, Look, count_gain, histogram_gain
from collector.reasons import DiscardReason
from tests.make import raw

PLAIN = Look()
BORN = Look(born=True)
WATCHED = Look(watched=True)
GAP = Look(gap=True)
UNSTABLE = Look(unstable=True, watched=True)


@pytest.mark.parametrize(
    ("before", "now", "look", "amount", "discarded"),
    [
        (None, 700, PLAIN, 700, DiscardReason.FIRST_SAMPLE),
        (None, 700, BORN, 700, None),
        (None, 7, WATCHED, 7, None),
        (None, 0, PLAIN, 0, DiscardReason.FIRST_SAMPLE),
        (100, 100, PLAIN, 0, None),
        (100, 130, PLAIN, 30, None),
        (100, 8, PLAIN, 8, None),
        (100, 0, PLAIN, 0, None),
        (100, 130, BORN, 130, None),
        (100, 130, GAP, 30, DiscardReason.GAP),
        (100, 8, GAP, 8, DiscardReason.GAP),
        (None, 700, GAP, 700, DiscardReason.GAP),
        (None, 700, Look(watched=True, gap=True), 700, DiscardReason.GAP),
        (100, 130, Look(born=True, gap=True), 130, DiscardReason.GAP),
        (2**60, 2**60 + 1, PLAIN, 1, None),
        (100, 130, UNSTABLE, 30, DiscardReason.UNSTABLE),
        (100, 8, UNSTABLE, 8, DiscardReason.UNSTABLE),
        (None, 700, UNSTABLE, 700, DiscardReason.UNSTABLE),
        (100, 130, Look(gap=True, unstable=True), 30, DiscardReason.UNSTABLE),
    ],
)
def test_count_gain(before: int | None, now: int, look: Look, amount: int, discarded: DiscardReason | None) -> None:
    gain = count_gain(before, now, look)
    assert gain == Gain(amount, discarded)
    assert type(gain.amount) is int


def test_histogram_gain_is_the_difference_by_bucket() -> None:
    before, now = raw((1.0, 2.0), (3, 1, 0), 4.5), raw((1.0, 2.0), (4, 1, 2), 14.75)
    assert histogram_gain(before, now, PLAIN) == Gain(raw((1.0, 2.0), (1, 0, 2), 10.25), None)


def test_histogram_that_fell_in_one_bound_begins_anew_as_a_whole() -> None:
    before, now = raw((1.0, 2.0), (3, 1, 0), 4.5), raw((1.0, 2.0), (2, 3, 1), 9.0)
    assert histogram_gain(before, now, PLAIN) == Gain(now, None)


@pytest.mark.parametrize(
    ("met", "look", "discarded"),
    [
        (False, PLAIN, DiscardReason.FIRST_SAMPLE), (False, BORN, None), (False, WATCHED, None),
        (False, GAP, DiscardReason.GAP), (True, GAP, DiscardReason.GAP), (True, BORN, None),
        (False, UNSTABLE, DiscardReason.UNSTABLE), (True, UNSTABLE, DiscardReason.UNSTABLE),
    ],
)  # fmt: skip
def test_histogram_verdicts_are_those_of_counters(met: bool, look: Look, discarded: DiscardReason | None) -> None:
    now = raw((1.0,), (5, 2), 6.0)
    before = raw((1.0,), (1, 0), 0.5) if met else None
    assert histogram_gain(before, now, look).discarded is discarded


def test_other_bounds_are_never_subtracted_by_position() -> None:
    """A35: of a new process they count whole; of the same one, whose page lost some, nothing tells what came since."""
    before, now = raw((1.0, 2.0, 3.0), (5, 5, 5, 5), 40.0), raw((1.0, 5.0), (6, 6, 6), 60.0)
    assert histogram_gain(before, now, BORN) == Gain(now, None)
    assert histogram_gain(before, now, PLAIN) == Gain(now, DiscardReason.FIRST_SAMPLE)
    assert histogram_gain(before, now, WATCHED) == Gain(now, DiscardReason.FIRST_SAMPLE)
    assert histogram_gain(before, now, GAP) == Gain(now, DiscardReason.GAP)


@pytest.mark.parametrize("bounds", [(0.5, 9.0), (1.0, 1.5), (2.0,), (1.0,)])
def test_bounds_are_other_ones_whichever_way_they_differ(bounds: tuple[float, ...]) -> None:
    before, now = raw((1.0, 2.0), (1, 1, 1)), raw(bounds, (5,) * (len(bounds) + 1))
    assert histogram_gain(before, now, PLAIN) == Gain(now, DiscardReason.FIRST_SAMPLE)


def test_equal_bounds_are_the_same_wherever_they_come_from() -> None:
    """Each page brings tuples of its own."""
    before, now = (raw(tuple(map(float, ("1", "2"))), counts) for counts in ((1, 1, 1), (2, 2, 2)))
    assert before.bounds is not now.bounds
    assert histogram_gain(before, now, PLAIN) == Gain(raw((1.0, 2.0), (1, 1, 1)), None)


def test_a_sum_that_wobbles_in_its_last_digit_never_takes_away() -> None:
    """Engines of several processes add their sums in any order; a published sum that fell would read as a reset."""
    before, now = raw((1.0,), (3, 0), 0.6000000000000001), raw((1.0,), (3, 0), 0.6)
    assert histogram_gain(before, now, PLAIN).amount.sum_fixed == 0
