"""Counters from pages to totals: what is published, what is discarded, and that both together are the truth."""

import pytest

from collector.fixed import to_fixed
from collector.model import Values
from collector.reasons import DiscardReason
from collector.signals import Lane
from collector.state import State
from tests.make import WALL, at, counts, failure, pod_row, pool_row, raw, reading, state, target, values

POD = target()
TOKENS = "generation_tokens"
TTFT = "time_to_first_token_seconds"
FIRST, GAP = DiscardReason.FIRST_SAMPLE, DiscardReason.GAP


def feed(
    into: State, when: float, *, engine: str = "vllm", lane: Lane = Lane.FULL, started: float | None = None, **by_signal: object
) -> None:
    """One page of the pod; `started` is seconds after the clock's start."""
    page = values(counts(**by_signal), started_at=None if started is None else WALL + started)  # type: ignore[arg-type]
    into.absorb(reading(POD, page, at(when), engine=engine, lane=lane))


def published(of: State, signal: str = TOKENS, child: str = "") -> int | None:
    """The pool's total, after checking that pod and cluster say the same."""
    cut = of.snapshot(at(10_000.0))
    totals = {row.counters.get((signal, child)) for row in (pool_row(cut), pod_row(cut), cut.cluster)}
    assert len(totals) == 1
    return totals.pop()


def discarded(of: State, signal: str = TOKENS) -> dict[DiscardReason, int]:
    return {reason: amount for (name, reason), amount in of.tally.discarded.items() if name == signal and amount}


def test_first_sample_is_not_published_but_kept_in_the_ledger() -> None:
    """A33: a new target with large totals makes no jump."""
    core = state(POD)
    feed(core, 0, generation_tokens=5_000_000)
    assert published(core) == 0
    assert discarded(core) == {FIRST: 5_000_000}
    feed(core, 5, generation_tokens=5_000_321)
    assert published(core) == 321
    assert discarded(core) == {FIRST: 5_000_000}


def test_before_the_first_look_there_is_no_series() -> None:
    """A32: absent, not zero."""
    core = state(POD)
    assert published(core) is None
    core.absorb(failure(POD, at(1)))
    assert published(core) is None


def test_a_failed_look_between_good_ones_loses_nothing() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=100)
    for second in (5, 10, 15):
        core.absorb(failure(POD, at(second)))
    feed(core, 20, generation_tokens=160)
    assert published(core) == 60


def test_gap_at_its_exact_limit() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=100)
    feed(core, 300.0, generation_tokens=150)
    assert published(core) == 50
    feed(core, 600.001, generation_tokens=190)
    assert published(core) == 50
    assert discarded(core) == {FIRST: 100, GAP: 40}
    feed(core, 605, generation_tokens=191)
    assert published(core) == 51


def test_a_reset_counts_the_new_value() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=100)
    feed(core, 5, generation_tokens=130)
    feed(core, 10, generation_tokens=8)
    assert published(core) == 38
    assert discarded(core) == {FIRST: 100}


def test_a_reset_over_a_gap_is_discarded_with_its_new_value() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=100)
    feed(core, 400, generation_tokens=8)
    feed(core, 405, generation_tokens=9)
    assert published(core) == 1
    assert discarded(core) == {FIRST: 100, GAP: 8}


def test_big_numbers_stay_exact() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=2**53)
    feed(core, 5, generation_tokens=2**53 + 1)
    feed(core, 10, generation_tokens=2**53 + 3)
    total = published(core)
    assert total == 3
    assert type(total) is int


# ---- baseline zero


def test_a_process_that_began_after_we_watched_counts_from_zero() -> None:
    core = state(POD)
    feed(core, 20, generation_tokens=40, started=5)
    assert published(core) == 40
    assert discarded(core) == {}


def test_failed_looks_while_a_process_loads_do_not_hide_its_birth() -> None:
    """The port opens a minute after the process began: the looks that failed meanwhile saw no counter."""
    core = state(POD)
    for second in range(0, 60, 5):
        core.absorb(failure(POD, at(second)))
    feed(core, 60, generation_tokens=40, started=2)
    assert published(core) == 40


def test_a_process_older_than_our_watch_has_its_first_sample_discarded() -> None:
    core = state(POD)
    feed(core, 1, generation_tokens=40, started=-0.5)
    assert published(core) == 0
    assert discarded(core) == {FIRST: 40}


def test_a_young_process_counts_from_zero_even_where_it_overtook_the_old_one() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=10, started=-500)
    core.absorb(failure(POD, at(5)))
    feed(core, 10, generation_tokens=25, started=3)
    assert published(core) == 25


def test_a_process_is_born_once_even_if_its_clock_is_ahead_of_ours() -> None:
    """Its start lies after our looks for as long as the clocks differ; counting it whole each time would multiply it."""
    core = state(POD)
    feed(core, 0, generation_tokens=1000, started=-500)
    feed(core, 5, generation_tokens=30, started=4.5 + 20)
    for second in range(6, 60):
        feed(core, second, generation_tokens=30, started=4.5 + 20)
    assert published(core) == 30


def test_a_first_look_at_an_old_process_whose_clock_is_ahead_is_no_birth() -> None:
    """An hour ahead, half an hour old: its start seems to lie in the future."""
    core = state(POD)
    feed(core, 1, generation_tokens=9_000, started=-1800 + 3600)
    feed(core, 2, generation_tokens=9_001, started=-1800 + 3600)
    assert published(core) == 1
    assert discarded(core) == {FIRST: 9_000}


def test_our_own_clock_set_back_makes_no_process_young() -> None:
    core = state(POD)
    page = values(counts(generation_tokens=70), started_at=WALL - 100)
    core.absorb(reading(POD, page, at(0)))
    for second in range(1, 10):
        set_back = at(second)
        core.absorb(reading(POD, page, type(set_back)(mono=set_back.mono, wall=set_back.wall - 3600)))
    assert published(core) == 0
    assert discarded(core) == {FIRST: 70}


def test_a_young_process_behind_a_long_gap_makes_no_jump() -> None:
    """Unreachable for an hour, restarted 50 minutes ago: its total came about in the gap."""
    core = state(POD)
    feed(core, 0, generation_tokens=100, started=-500)
    feed(core, 3600, generation_tokens=70_000, started=600)
    assert published(core) == 0
    assert discarded(core) == {FIRST: 100, GAP: 70_000}


def test_a_young_process_after_a_long_gap_is_published() -> None:
    """Down for an hour, but the process is a minute old."""
    core = state(POD)
    feed(core, 0, generation_tokens=100, started=-500)
    feed(core, 3600, generation_tokens=7, started=3540)
    assert published(core) == 7


# ---- restarts without a start time


def test_most_counters_falling_is_a_restart_of_all() -> None:
    """Prompt tokens fell, so the process is new, and generation tokens, which overtook their old value, count from zero too."""
    core = state(POD)
    feed(core, 0, generation_tokens=10, prompt_tokens=1000)
    feed(core, 5, generation_tokens=25, prompt_tokens=90)
    assert published(core) == 25
    assert published(core, "prompt_tokens") == 90


def test_one_counter_of_many_that_falls_resets_only_itself() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=10, prompt_tokens=1000, prefix_cache_query_tokens=50, prefix_cache_hit_tokens=5)
    feed(core, 5, generation_tokens=25, prompt_tokens=1100, prefix_cache_query_tokens=60, prefix_cache_hit_tokens=2)
    assert published(core) == 15
    assert published(core, "prefix_cache_hit_tokens") == 2
    assert published(core, "prompt_tokens") == 100


def test_empty_histograms_do_not_outvote_a_restart() -> None:
    """Histograms without observations say nothing on whether the process is the same."""
    names = (TTFT, "inter_token_latency_seconds", "queue_time_seconds", "decode_time_seconds", "end_to_end_latency_seconds")
    empty = {name: raw((1.0,), (0, 0)) for name in names}
    core = state(POD)
    core.absorb(reading(POD, values(counts(generation_tokens=3, prompt_tokens=1000), empty), at(0)))
    core.absorb(reading(POD, values(counts(generation_tokens=4, prompt_tokens=20), empty), at(5)))
    assert published(core) == 4


def test_a_restart_zeroes_also_what_the_page_does_not_show_yet() -> None:
    """TGI writes a family with its first event: 100 before the restart, 120 of the new process."""
    core = state(POD)
    feed(core, 0, engine="tgi", generation_tokens=100, prompt_tokens=50)
    feed(core, 5, engine="tgi", prompt_tokens=3)
    feed(core, 10, engine="tgi", prompt_tokens=6, generation_tokens=120)
    assert published(core) == 120


def test_a_fast_page_that_shows_the_restart_serves_the_full_one() -> None:
    core = state(POD)
    feed(core, 0, generation_tokens=10, prefix_cache_query_tokens=500)
    feed(core, 1, lane=Lane.FAST, prefix_cache_query_tokens=7)
    feed(core, 5, generation_tokens=30, prefix_cache_query_tokens=9)
    assert published(core) == 30
    assert published(core, "prefix_cache_query_tokens") == 9


# ---- series that first appear


def test_a_series_that_appears_under_a_running_watch_counts_from_zero() -> None:
    core = state(POD)
    feed(core, 0, requests={"stop": 10})
    feed(core, 5, requests={"stop": 11, "error": 2})
    assert published(core, "requests", "error") == 2
    assert published(core, "requests", "stop") == 1


def test_a_series_whose_lane_was_never_read_before_has_a_first_sample() -> None:
    """A fast look does not cover tokens: that they were not on it says nothing."""
    core = state(POD)
    feed(core, 0, lane=Lane.FAST, prefix_cache_query_tokens=5)
    feed(core, 5, generation_tokens=400, prefix_cache_query_tokens=6)
    assert published(core) == 0
    assert discarded(core) == {FIRST: 400}


def test_a_page_of_new_series_only_is_another_process() -> None:
    core = state(POD)
    feed(core, 0, requests={"stop": 10})
    feed(core, 5, requests={"length": 70})
    assert published(core, "requests", "length") == 0
    assert discarded(core, "requests") == {FIRST: 80}


def test_an_engine_that_had_counted_nothing_yet_counts_from_zero() -> None:
    core = state(POD)
    core.absorb(reading(POD, Values(), at(0), engine="tgi"))
    feed(core, 5, engine="tgi", requests={"other": 3})
    assert published(core, "requests", "other") == 3


def test_a_new_series_over_a_gap_is_discarded() -> None:
    core = state(POD)
    feed(core, 0, requests={"stop": 10})
    feed(core, 400, requests={"stop": 12, "error": 5})
    assert published(core, "requests", "error") == 0
    assert discarded(core, "requests") == {FIRST: 10, GAP: 7}


# ---- closed children


TOLD = {"vllm": ("stop", "length", "abort", "error", "other"), "sglang": ("abort", "other"), "tgi": ("abort", "error", "other")}


@pytest.mark.parametrize("engine", TOLD)
def test_outcomes_begin_at_zero_with_the_first_page(engine: str) -> None:
    """So that the first error is an increase and not a new series; an outcome that an engine does not tell apart is absent."""
    core = state(POD)
    core.absorb(reading(POD, Values(), at(0), engine=engine))
    for row in (pool_row(core.snapshot(at(0))), core.snapshot(at(0)).cluster):
        shown = {child: total for (signal, child), total in row.counters.items() if signal == "requests"}
        assert shown == dict.fromkeys(TOLD[engine], 0)
        assert row.counters["prompt_tokens", ""] == 0


def test_a_fast_page_begins_nothing_it_does_not_cover() -> None:
    core = state(POD)
    core.absorb(reading(POD, Values(), at(0), lane=Lane.FAST))
    assert published(core, "requests", "stop") is None


def test_what_an_engine_cannot_tell_stays_absent() -> None:
    core = state(POD)
    core.absorb(reading(POD, Values(), at(0), engine="tgi"))
    cut = core.snapshot(at(0))
    assert ("prefix_cache_hit_tokens", "") not in pool_row(cut).counters
    assert TTFT not in pool_row(cut).histograms


# ---- derived `other`: all minus what is told apart


def outcomes(of: State) -> dict[str, int]:
    row = pool_row(of.snapshot(at(10_000.0)))
    return {child: total for (signal, child), total in row.counters.items() if signal == "requests" and total}


def sglang(into: State, when: float, **requests: int) -> None:
    feed(into, when, engine="sglang", requests={"*" if child == "all" else child: number for child, number in requests.items()})


def test_other_is_all_minus_aborts() -> None:
    core = state(POD)
    sglang(core, 0, all=100, abort=10)
    assert outcomes(core) == {}
    assert discarded(core, "requests") == {FIRST: 100}
    sglang(core, 5, all=108, abort=13)
    assert outcomes(core) == {"abort": 3, "other": 5}


def test_a_deficit_is_carried_and_nothing_ever_falls() -> None:
    """An abort is counted when it is called for, the request when it ends."""
    core = state(POD)
    sglang(core, 0, all=100, abort=10)
    sglang(core, 5, all=100, abort=14)
    assert outcomes(core) == {"abort": 4}
    sglang(core, 10, all=103, abort=14)
    assert outcomes(core) == {"abort": 4}
    sglang(core, 15, all=106, abort=14)
    assert outcomes(core) == {"abort": 4, "other": 2}
    assert sum(outcomes(core).values()) == 106 - 100


def test_an_abort_shown_before_the_first_finished_request_is_part_of_all() -> None:
    """The family of all finished requests appears with the first one; the abort was shown before."""
    core = state(POD)
    core.absorb(reading(POD, Values(), at(0), engine="sglang"))
    sglang(core, 5, abort=1)
    assert outcomes(core) == {"abort": 1}
    sglang(core, 10, all=3, abort=1)
    assert outcomes(core) == {"abort": 1, "other": 2}


def test_the_deficit_survives_a_gap() -> None:
    core = state(POD)
    sglang(core, 0, all=100, abort=10)
    sglang(core, 5, all=100, abort=12)
    sglang(core, 400, all=110, abort=15)
    sglang(core, 405, all=115, abort=15)
    assert outcomes(core) == {"abort": 2, "other": 3}
    assert discarded(core, "requests") == {FIRST: 100, GAP: 10}
    assert sum(outcomes(core).values()) + 110 == 115


def test_a_restart_forgets_the_deficit() -> None:
    """What the old process never finished it never will."""
    core = state(POD)
    sglang(core, 0, all=100, abort=10)
    sglang(core, 5, all=100, abort=14)
    sglang(core, 10, all=6, abort=1)
    assert outcomes(core) == {"abort": 5, "other": 5}


# ---- histograms


def observed(
    into: State, when: float, per_bucket: tuple[int, int, int], total: float, bounds: tuple[float, float] = (0.1, 1.0)
) -> None:
    into.absorb(reading(POD, values(histograms={TTFT: raw(bounds, per_bucket, total)}), at(when)))


def test_histograms_publish_increases_with_exact_sum_and_count() -> None:
    core = state(POD)
    observed(core, 0, (1000, 1000, 1000), 5000.5)
    observed(core, 5, (1003, 1001, 1002), 5012.75)
    histogram = pool_row(core.snapshot(at(5))).histograms[TTFT]
    assert histogram.cumulative[-1] == 6
    assert histogram.sum_fixed == to_fixed(12.25)
    assert core.tally.discarded[TTFT, FIRST] == 3000


def test_histograms_reset_and_gap() -> None:
    core = state(POD)
    observed(core, 0, (5, 5, 5), 50.0)
    observed(core, 5, (2, 0, 0), 0.1)
    observed(core, 405, (9, 0, 0), 0.5)
    observed(core, 410, (9, 1, 0), 1.25)
    histogram = pool_row(core.snapshot(at(410))).histograms[TTFT]
    assert histogram.cumulative[-1] == 3
    assert histogram.sum_fixed == to_fixed(0.1) + to_fixed(1.25) - to_fixed(0.5)
    assert core.tally.discarded[TTFT, FIRST] == 15
    assert core.tally.discarded[TTFT, GAP] == 7


def test_other_bounds_after_an_upgrade_begin_anew_on_a_ladder_of_their_own() -> None:
    core = state(POD)
    observed(core, 0, (0, 0, 0), 0.0)
    observed(core, 5, (4, 0, 0), 0.2)
    observed(core, 10, (3, 0, 0), 0.3, bounds=(0.25, 2.5))
    assert pool_row(core.snapshot(at(10))).histograms[TTFT].cumulative[-1] == 7


# ---- pools as sums


def test_a_pool_total_never_falls_when_pods_come_and_go() -> None:
    """A34: three pods, one leaves, one joins."""
    pods = [target(f"p{index}") for index in range(4)]
    core = state(*pods[:3])
    for pod in pods[:3]:
        core.absorb(reading(pod, values(counts(generation_tokens=1000)), at(0)))
        core.absorb(reading(pod, values(counts(generation_tokens=1010)), at(5)))
    assert pool_row(core.snapshot(at(5))).counters[TOKENS, ""] == 30
    core.watch(pods[1:], at(6))
    assert pool_row(core.snapshot(at(6))).counters[TOKENS, ""] == 30
    core.absorb(reading(pods[3], values(counts(generation_tokens=77)), at(10)))
    core.absorb(reading(pods[3], values(counts(generation_tokens=79)), at(15)))
    cut = core.snapshot(at(15))
    assert pool_row(cut).counters[TOKENS, ""] == cut.cluster.counters[TOKENS, ""] == 32
    assert sum(row.counters[TOKENS, ""] for row in cut.pods) == 22


def test_oddities_and_failures_are_tallied() -> None:
    core = state(POD)
    core.absorb(failure(POD, at(0)))
    core.absorb(failure(POD, at(1)))
    assert dict(core.tally.failures) == {"timeout": 2}
