"""Samples to windows: increases add up to the totals whatever happens, gauges keep their spikes, times are the windows' own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.fixed import to_fixed
from collector.signals import Level
from collector.snapshot import Row
from collector.totals import Child, Histogram
from exporter.publish.cloudwatch.window import Statistics, Window, Windows

WALL = 1_800_000_000.0
TTFT = "time_to_first_token_seconds"
WANTED = {Level.POOL: frozenset({"requests", "prompt_tokens", "requests_waiting", TTFT}), Level.CLUSTER: frozenset({"requests"})}
CHAT = ("c", "serving", "chat")
PLACE = (Level.POOL, CHAT)


def row(
    counters: Mapping[Child, int] | None = None, histograms: Mapping[str, Histogram] | None = None, *, pool: str = "chat",
    level: Level = Level.POOL, **gauges: float,
) -> Row:  # fmt: skip
    labels = ("c", "serving", pool) if level is Level.POOL else ("c",)
    return Row(level=level, labels=labels, gauges={(name, ""): value for name, value in gauges.items()},
               counters=counters or {}, histograms=histograms or {})  # fmt: skip


def tokens(total: int, pool: str = "chat") -> Row:
    return row({("prompt_tokens", ""): total}, pool=pool)


def windows(period: float = 60.0) -> Windows:
    return Windows(period, WANTED)


def gained(window: Window | None, pool: str = "chat") -> int:
    assert window is not None
    return window.subjects[Level.POOL, ("c", "serving", pool)].counters["prompt_tokens", ""]


def test_a_window_ends_with_the_first_sample_after_it_and_what_came_up_to_that_is_its_own() -> None:
    box = windows()
    assert box.take([tokens(5)], WALL) is None
    assert box.take([tokens(8)], WALL + 59.9) is None
    first = box.take([tokens(20)], WALL + 60.002)
    assert first is not None
    assert (first.start, gained(first)) == (WALL, 20)
    second = box.take([tokens(21)], WALL + 125.0)
    assert second is not None
    assert (second.start, gained(second)) == (WALL + 60, 1)
    assert gained(box.close()) == 0


@pytest.mark.parametrize("period", [1.0, 10.0, 60.0, 300.0])
def test_windows_begin_at_whole_periods_of_the_clock(period: float) -> None:
    box = windows(period)
    box.take([tokens(0)], WALL + 0.3)
    closed = box.take([tokens(0)], WALL + 0.3 + period)
    assert closed is not None
    assert closed.start % period == 0
    assert closed.start <= WALL + 0.3 < closed.start + period


def test_a_gauge_keeps_its_spike_and_a_silent_one_is_absent() -> None:
    box = windows()
    for second, waiting in enumerate([3.0, 90.0, 0.0]):
        box.take([row(requests_waiting=waiting)], WALL + second)
    box.take([row()], WALL + 30)
    closed = box.take([row(requests_waiting=1.0)], WALL + 60)
    assert closed is not None
    assert closed.subjects[PLACE].gauges == {("requests_waiting", ""): Statistics(3, 93.0, 0.0, 90.0)}
    box.take([row()], WALL + 120)
    silent = box.take([row()], WALL + 180)
    assert silent is not None
    assert silent.subjects[PLACE].gauges == {}


def test_what_is_no_number_is_left_out_and_counted() -> None:
    box = windows()
    box.take([row(requests_waiting=float("nan"))], WALL)
    box.take([row(requests_waiting=float("inf"))], WALL + 1)
    box.take([row(requests_waiting=2.0)], WALL + 2)
    closed = box.close()
    assert closed.unusable == 2
    assert closed.subjects[PLACE].gauges["requests_waiting", ""] == Statistics(1, 2.0, 2.0, 2.0)


def test_only_what_is_wanted_is_taken() -> None:
    box = windows()
    both = [row({("requests", "stop"): 1, ("prompt_tokens", ""): 2}, level=level) for level in WANTED]
    box.take([*both, Row(level=Level.POD, labels=("c", "s", "p", "pod"), gauges={})], WALL)
    closed = box.close()
    assert {place[0]: set(one.counters) for place, one in closed.subjects.items()} == {
        Level.POOL: {("requests", "stop"), ("prompt_tokens", "")}, Level.CLUSTER: {("requests", "stop")}}  # fmt: skip


def test_totals_that_fell_are_another_subjects() -> None:
    box = windows()
    box.take([tokens(500)], WALL)
    box.take([tokens(500)], WALL + 60)
    closed = box.take([tokens(7)], WALL + 120)
    assert gained(closed) == 7


def test_a_pool_that_goes_leaves_what_it_gained_and_begins_anew_when_it_is_back() -> None:
    box = windows()
    box.take([tokens(100)], WALL)
    box.take([tokens(130)], WALL + 30)
    box.take([], WALL + 45)
    assert gained(box.take([], WALL + 60)) == 130
    box.take([tokens(5)], WALL + 90)
    assert gained(box.take([], WALL + 120)) == 5
    box.take([], WALL + 180)
    empty = box.take([], WALL + 240)
    assert empty is not None
    assert not empty.subjects
    box.take([tokens(204)], WALL + 270)
    assert gained(box.close()) == 204


def test_a_clock_that_is_set_back_or_forward_loses_nothing() -> None:
    box = windows()
    total, moments = 0, [0.0, 10.0, 70.0, 20.0, 80.0, 7200.0, 7210.0]
    seen = 0
    for moment in moments:
        total += 11
        closed = box.take([tokens(total)], WALL + moment)
        seen += gained(closed) if closed else 0
    assert seen + gained(box.close()) == total


def test_histograms_are_increases_on_the_engines_own_ladders() -> None:
    ladder = (0.1, 1.0)

    def of(sources: dict[tuple[float, ...], tuple[int, ...]], total: float) -> Row:
        return row(histograms={TTFT: Histogram((), to_fixed(total), sources)})

    box = windows()
    box.take([of({ladder: (1, 2, 0)}, 1.5)], WALL)
    first = box.take([of({ladder: (1, 5, 1), (0.5,): (3, 0)}, 9.0)], WALL + 60)
    second = box.take([of({ladder: (2, 5, 1), (0.5,): (3, 2)}, 12.25)], WALL + 120)
    assert first is not None
    assert second is not None
    gain = second.subjects[PLACE].histograms[TTFT]
    assert gain.ladders == {ladder: (1, 0, 0), (0.5,): (0, 2)}
    assert gain.sum_fixed == to_fixed(3.25)
    assert first.subjects[PLACE].histograms[TTFT].ladders == {ladder: (1, 5, 1), (0.5,): (3, 0)}


def test_a_cluster_that_is_renamed_gains_nothing_by_it() -> None:
    def renamed(total: int) -> Row:
        return replace(tokens(total), labels=("new", "serving", "chat"))

    box = windows()
    box.take([tokens(1000)], WALL)
    box.take([renamed(1010)], WALL + 30)
    box.take([renamed(1015)], WALL + 40)
    closed = box.take([tokens(1017)], WALL + 60)
    assert closed is not None
    assert closed.subjects[Level.POOL, ("new", "serving", "chat")].counters["prompt_tokens", ""] == 5
    assert gained(closed) == 1000


def test_rows_that_all_give_way_to_others_take_nothing_from_them() -> None:
    """A fleet's only pool, or pod, that goes as another comes is no cluster with another name."""
    box = windows()
    box.take([tokens(1000)], WALL)
    box.take([tokens(7, "next")], WALL + 30)
    closed = box.take([tokens(9, "next")], WALL + 60)
    assert (gained(closed), gained(closed, "next")) == (1000, 9)


@pytest.mark.parametrize("anew", [3, 500])
def test_a_row_that_begins_anew_inside_a_window_keeps_what_it_had_gained(anew: int) -> None:
    """A pod that leaves the list of targets and is back at once: its totals begin at zero, wherever they are when seen again."""

    def observed(total: int) -> Row:
        return row({("prompt_tokens", ""): total}, {TTFT: Histogram((), to_fixed(total), {(1.0,): (total, 0)})})

    box = windows()
    box.take([observed(100)], WALL)
    box.take([observed(100)], WALL + 60)
    box.take([observed(150)], WALL + 75)
    box.take([], WALL + 90)
    box.take([observed(anew)], WALL + 105)
    closed = box.take([observed(anew + 2)], WALL + 120)
    assert gained(closed) == 50 + anew + 2
    assert closed is not None
    gain = closed.subjects[PLACE].histograms[TTFT]
    assert (gain.ladders, gain.sum_fixed) == ({(1.0,): (52 + anew, 0)}, to_fixed(52 + anew))


def test_a_histogram_alone_tells_a_row_that_begins_anew() -> None:
    box = windows()
    box.take([row(histograms={TTFT: Histogram((), 0, {(1.0,): (1000, 0)})})], WALL)
    box.take([row(histograms={TTFT: Histogram((), 0, {(1.0,): (1000, 0)})})], WALL + 60)
    closed = box.take([row(histograms={TTFT: Histogram((), 0, {(1.0,): (5, 0)})})], WALL + 120)
    assert closed is not None
    assert closed.subjects[PLACE].histograms[TTFT].ladders == {(1.0,): (5, 0)}


@given(st.lists(st.tuples(st.floats(0.01, 200.0), st.integers(0, 50), st.booleans()), min_size=1, max_size=60))
def test_all_windows_together_are_the_totals(told: list[tuple[float, int, bool]]) -> None:
    """Any pace of samples, samples that miss a pool: increases of all windows and the open one are the last total."""
    box, moment, totals, rng = windows(), WALL, Counter(a=0, b=0), Random(1)  # b comes and goes
    seen: Counter[str] = Counter()
    for pause, more, both in told:
        moment += pause
        totals["a"] += more
        totals["b"] += rng.randrange(3)
        closed = box.take([tokens(totals["a"], "a"), *([tokens(totals["b"], "b")] if both else [])], moment)
        for place, subject in closed.subjects.items() if closed else ():
            seen[place[1][2]] += subject.counters["prompt_tokens", ""]
    for place, subject in box.close().subjects.items():
        seen[place[1][2]] += subject.counters["prompt_tokens", ""]
    assert seen["a"] == totals["a"]
