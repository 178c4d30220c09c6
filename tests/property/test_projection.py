"""Projection onto the published ladder, for any ladders and any counts."""

from itertools import accumulate, pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collector.fixed import from_fixed, to_fixed
from collector.ladders import Ladder, RawHistogram, difference, fell, from_cumulative, project
from tests.make import raw

bounds = st.lists(st.floats(1e-4, 1e6), min_size=1, max_size=12, unique=True).map(lambda one: tuple(sorted(one)))


@st.composite
def series(draw: st.DrawFn, ladder: Ladder | None = None) -> RawHistogram:
    ladder = draw(bounds) if ladder is None else ladder
    size = len(ladder) + 1
    return raw(ladder, draw(st.lists(st.integers(0, 10**12), min_size=size, max_size=size)), draw(st.floats(0, 1e9)))


@settings(deadline=None)
@given(st.lists(series(), max_size=4), bounds)
def test_monotone_along_the_ladder_and_exact_in_count(many: list[RawHistogram], target: Ladder) -> None:
    sources = {one.bounds: one.counts for one in many}
    cumulative = project(sources, target)
    assert len(cumulative) == len(target) + 1
    assert all(0 <= low <= high for low, high in pairwise((0, *cumulative)))
    assert cumulative[-1] == sum(map(sum, sources.values()))


@settings(deadline=None)
@given(series(), bounds)
def test_exact_on_own_bounds(one: RawHistogram, more: Ladder) -> None:
    target = tuple(sorted({*one.bounds, *more}))
    published = dict(zip(target, project({one.bounds: one.counts}, target), strict=False))
    assert [published[bound] for bound in one.bounds] == list(accumulate(one.counts))[:-1]


@settings(deadline=None)
@given(series(), bounds)
def test_never_beyond_what_the_neighbours_bounds_allow(one: RawHistogram, target: Ladder) -> None:
    """Between two bounds of the engine the projected count lies between the engine's counts there."""
    own = list(accumulate(one.counts))
    for bound, count in zip(target, project({one.bounds: one.counts}, target), strict=False):
        below = sum(1 for upper in one.bounds if upper <= bound)
        assert (own[below - 1] if below else 0) <= count <= own[below if below < len(one.bounds) else below - 1]


@settings(deadline=None)
@given(bounds, st.data(), bounds)
def test_monotone_in_time(ladder: Ladder, data: st.DataObject, target: Ladder) -> None:
    before, gain = data.draw(series(ladder)), data.draw(series(ladder))
    later = tuple(a + b for a, b in zip(before.counts, gain.counts, strict=True))
    first, second = project({ladder: before.counts}, target), project({ladder: later}, target)
    gained = [high - low for low, high in zip(first, second, strict=True)]
    assert all(low <= high for low, high in pairwise((0, *gained))), "what was gained is a histogram too"


@settings(deadline=None)
@given(bounds, st.data(), bounds)
def test_monotone_in_time_and_along_the_ladder_even_over_torn_pages(ladder: Ladder, data: st.DataObject, target: Ladder) -> None:
    """Whatever pages show, as long as no cumulative count falls: buckets may lose what lower ones gain."""
    size = len(ladder) + 1
    cumulative = [0] * size
    totals, before = [0] * size, project({ladder: (0,) * size}, target)
    last = raw(ladder, (0,) * size)
    for _ in range(4):
        grown = [old + data.draw(st.integers(0, 20)) for old in cumulative]
        assume(all(low <= high for low, high in pairwise(grown)))
        cumulative = grown
        now = raw(ladder, [high - low for low, high in pairwise((0, *cumulative))])
        assert not fell(last, now)
        totals = [total + gain for total, gain in zip(totals, difference(last, now).counts, strict=True)]
        published = project({ladder: totals}, target)
        assert all(low <= high for low, high in pairwise(published))
        assert all(old <= new for old, new in zip(before, published, strict=True))
        assert published[-1] == cumulative[-1]
        last, before = now, published


@settings(deadline=None)
@given(bounds, st.data())
def test_a_difference_gives_back_what_was_added(ladder: Ladder, data: st.DataObject) -> None:
    before, gain = data.draw(series(ladder)), data.draw(series(ladder))
    counts = tuple(a + b for a, b in zip(before.counts, gain.counts, strict=True))
    now = RawHistogram(ladder, counts, before.sum_fixed + gain.sum_fixed)
    assert not fell(before, now)
    assert difference(before, now) == gain


@settings(deadline=None)
@given(series())
def test_a_page_reads_back(one: RawHistogram) -> None:
    printed = dict(zip((*one.bounds, float("inf")), map(float, accumulate(one.counts)), strict=True))
    assert from_cumulative(printed, from_fixed(one.sum_fixed)) == one


@given(st.one_of(st.just(0.0), st.floats(1e-12, 1e15)))
def test_fixed_point_gives_back_every_number(number: float) -> None:
    assert from_fixed(to_fixed(number)) == number
