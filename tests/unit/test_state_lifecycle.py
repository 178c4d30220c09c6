"""Targets over time: states by the clock alone, lanes, joining, leaving, relabelling, and pools that outlive their pods."""

from dataclasses import replace

import pytest

from collector.model import Adapters, Values
from collector.signals import Lane, State
from collector.snapshot import Row, Snapshot
from exporter.publish.picker import LOAD, entry
from exporter.publish.prometheus import Format, render
from tests.make import WALL, at, counts, failure, pod_row, pool_row, reading, state, target, values

POD = target()
TOKENS = ("generation_tokens", "")
BUSY = {"requests_running": 4.0, "requests_waiting": 2.0, "kv_cache_usage_ratio": 0.5, "kv_cache_usage_max_ratio": 0.6}


def busy(progress: float | None = 10.0, tokens: int = 100, **more: object) -> Values:
    cache = counts(generation_tokens=tokens, prefix_cache_query_tokens=tokens * 2, prefix_cache_hit_tokens=tokens)
    return values(cache, adapters=Adapters(frozenset({"a"}), frozenset()), progress=progress, **{**BUSY, **more})  # type: ignore[arg-type]


def idle(progress: float | None = 10.0) -> Values:
    return values(progress=progress, requests_running=0.0, requests_waiting=0.0)


def state_at(core: object, seconds: float) -> State:
    (endpoint,) = core.endpoints(at(seconds))  # type: ignore[attr-defined]
    assert pod_row(core.snapshot(at(seconds))).gauges["state", endpoint.state] == 1.0  # type: ignore[attr-defined]
    return endpoint.state  # type: ignore[no-any-return]


# ---- silence


def load_of(row: Row) -> set[str]:
    alive = {"state", "targets", "last_sample_timestamp_seconds", "signal_age_seconds", "pods", "reporting_ratio",
             "picker_saturation_ratio"}  # fmt: skip
    return {name for name, _ in row.gauges} - alive


def test_silence_turns_every_output_by_itself() -> None:
    """A29: all readings stop, only the clock moves; nothing is told to the core any more."""
    core = state(POD)
    core.absorb(reading(POD, busy(progress=1.0, tokens=100), at(0)))
    core.absorb(reading(POD, busy(progress=2.0, tokens=150), at(1)))

    def outputs(seconds: float) -> tuple[Snapshot, str, dict[str, object]]:
        cut = core.snapshot(at(seconds))
        (endpoint,) = core.endpoints(at(seconds))
        return cut, render(cut, Format.TEXT, max_pods=10)[0], entry("test", endpoint)

    cut, page, feed = outputs(4.0)
    assert feed["state"] == "fresh"
    assert feed["requests_running"] == 4
    assert feed["prefix_cache_hit_ratio"] == pytest.approx(0.5)
    assert {"requests_running", "kv_cache_usage_ratio", "prefix_cache_hit_ratio"} <= load_of(pod_row(cut))
    assert 'llm_pod_requests_running{cluster="test",namespace="serving",pool="chat",pod="p0"} 4\n' in page

    for silent_until in (4.001, 20.0, 500.0, 1e6):
        cut, page, feed = outputs(silent_until)
        assert feed["state"] == "stale"
        assert [feed[name] for name in (*LOAD, "adapters")] == [None] * (len(LOAD) + 1)
        assert feed["sampled_at"] == WALL + 1
        assert feed["age_seconds"] == pytest.approx(silent_until - 1)
        pod, pool = pod_row(cut), pool_row(cut)
        assert load_of(pod) == set()
        assert pod.gauges["state", "stale"] == 1.0
        assert pod.gauges["signal_age_seconds", "full"] == pytest.approx(silent_until - 1)
        assert pod.gauges["last_sample_timestamp_seconds", ""] == WALL + 1
        assert pool.gauges["pods", "stale"] == cut.cluster.gauges["pods", "stale"] == 1.0
        assert pool.gauges["reporting_ratio", ""] == cut.cluster.gauges["reporting_ratio", ""] == 0.0
        assert pool.counters[TOKENS] == cut.cluster.counters[TOKENS] == pod.counters[TOKENS] == 50
        assert "llm_pod_requests_running" not in page
        assert "llm_pool_requests_running" not in page
        assert "llm_cluster_kv_cache_usage_ratio" not in page
        assert 'llm_pod_state{cluster="test",namespace="serving",pool="chat",pod="p0",state="stale"} 1\n' in page
        assert 'llm_pool_generation_tokens_total{cluster="test",namespace="serving",pool="chat"} 50\n' in page
        assert "llm_pod_info{" in page


def test_ratios_of_the_pool_leave_with_the_window_of_a_silent_pool() -> None:
    """What was counted in the last minute stays true for a minute, and not an hour."""
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.absorb(reading(POD, busy(tokens=150), at(1)))
    assert pool_row(core.snapshot(at(60))).gauges["prefix_cache_hit_ratio", ""] == pytest.approx(0.5)
    assert load_of(pool_row(core.snapshot(at(61)))) == set()
    assert load_of(core.snapshot(at(3600)).cluster) == set()


def test_with_no_reporting_pod_averages_are_absent() -> None:
    """A30: never a pool average of zero."""
    core = state(POD)
    core.absorb(failure(POD, at(0)))
    pool = pool_row(core.snapshot(at(1)))
    assert load_of(pool) == set()
    assert pool.gauges["pods", "down"] == 1.0
    assert pool.gauges["pods", "fresh"] == 0.0
    assert pool.gauges["reporting_ratio", ""] == 0.0


def test_failing_goes_stale_then_down_and_one_good_look_heals() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    core.absorb(failure(POD, at(1)))
    assert state_at(core, 3.0) is State.FRESH
    assert state_at(core, 3.01) is State.STALE
    assert state_at(core, 15.0) is State.STALE
    assert state_at(core, 15.01) is State.DOWN
    core.absorb(reading(POD, busy(), at(16)))
    assert state_at(core, 16.0) is State.FRESH


def test_terminating_comes_from_discovery() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    core.watch([replace(POD, terminating=True)], at(1))
    assert state_at(core, 1.0) is State.TERMINATING
    assert load_of(pod_row(core.snapshot(at(1)))) == set()
    core.absorb(reading(replace(POD, terminating=True), busy(tokens=120), at(2)))
    assert pool_row(core.snapshot(at(2))).counters[TOKENS] == 20


# ---- progress


def test_work_without_movement_is_no_progress_and_one_movement_clears_it() -> None:
    """A11, A12: a page with work and flat counters; whether the gauges lie or the engine hangs, it is suspect."""
    core = state(POD)
    for second in range(31):
        core.absorb(reading(POD, busy(progress=7.0), at(second)))
        assert state_at(core, second) is (State.NO_PROGRESS if second >= 30 else State.FRESH)
    cut = core.snapshot(at(30))
    assert pod_row(cut).gauges["requests_running", ""] == pool_row(cut).gauges["requests_running", ""] == 4.0
    core.absorb(reading(POD, busy(progress=8.0), at(31)))
    assert state_at(core, 31) is State.FRESH


def test_waiting_alone_is_work() -> None:
    """A12: running 0, waiting 3."""
    core = state(POD)
    for second in (0, 30):
        core.absorb(reading(POD, values(progress=7.0, requests_running=0.0, requests_waiting=3.0), at(second)))
    assert state_at(core, 30) is State.NO_PROGRESS


def test_an_idle_pod_is_fresh_for_ever() -> None:
    """A10: flat counters without work are idleness, whatever another gauge keeps showing."""
    core = state(POD)
    for second in range(0, 7200, 60):
        still = values(progress=7.0, requests_running=0.0, requests_waiting=0.0, kv_cache_usage_ratio=0.4)
        core.absorb(reading(POD, still, at(second)))
        assert state_at(core, second) is State.FRESH


def test_a_request_after_an_idle_hour_is_not_no_progress() -> None:
    core = state(POD)
    for second in range(0, 3601, 60):
        core.absorb(reading(POD, idle(), at(second)))
    core.absorb(reading(POD, busy(progress=10.0), at(3602)))
    assert state_at(core, 3602) is State.FRESH
    core.absorb(reading(POD, busy(progress=10.0), at(3631)))
    assert state_at(core, 3631) is State.FRESH
    core.absorb(reading(POD, busy(progress=10.0), at(3632)))
    assert state_at(core, 3632) is State.NO_PROGRESS


def test_a_new_process_is_not_blamed_for_the_old_ones_stillness() -> None:
    core = state(POD)
    for second in (0, 29):
        core.absorb(reading(POD, busy(progress=0.0, tokens=0), at(second)))
    young = replace(busy(progress=0.0, tokens=0), started_at=WALL + 30)
    core.absorb(reading(POD, young, at(31)))
    assert state_at(core, 31) is State.WARMING


def test_an_engine_without_such_a_counter_never_gets_it() -> None:
    core = state(POD)
    for second in (0, 100, 200):
        core.absorb(reading(POD, busy(progress=None), at(second)))
    assert state_at(core, 200) is State.FRESH


# ---- warming


def test_a_young_process_warms_until_it_moves() -> None:
    """A31."""
    core = state(POD)
    core.absorb(reading(POD, idle(progress=0.0), at(0)))
    assert state_at(core, 0) is State.WARMING
    core.absorb(reading(POD, idle(progress=1.0), at(1)))
    assert state_at(core, 1) is State.FRESH


def test_warming_ends_by_time() -> None:
    core = state(POD)
    for second in range(61):
        core.absorb(reading(POD, idle(progress=0.0), at(second)))
        assert state_at(core, second) is (State.WARMING if second < 60 else State.FRESH)


def test_warming_counts_from_the_start_of_the_process_where_it_is_told() -> None:
    core = state(POD)
    core.absorb(reading(POD, replace(idle(progress=0.0), started_at=WALL - 55), at(0)))
    assert state_at(core, 0) is State.WARMING
    core.absorb(reading(POD, replace(idle(progress=0.0), started_at=WALL - 55), at(5)))
    assert state_at(core, 5) is State.FRESH


def test_our_own_restart_makes_no_busy_pod_warming() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(progress=1234.0), at(0)))
    assert state_at(core, 0) is State.FRESH


def test_a_restarted_engine_warms_again() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(progress=1234.0, tokens=500), at(0)))
    core.absorb(reading(POD, replace(busy(progress=0.0, tokens=0), started_at=WALL + 90), at(100)))
    assert state_at(core, 100) is State.WARMING


def test_warming_counts_in_sums_and_not_in_means() -> None:
    young, old = target("young"), target("old")
    core = state(young, old)
    core.absorb(reading(young, replace(busy(progress=0.0), gauges=BUSY | {"kv_cache_usage_ratio": 0.0}), at(0)))
    core.absorb(reading(old, busy(kv_cache_usage_ratio=0.8), at(0)))
    pool = pool_row(core.snapshot(at(0)))
    assert pool.gauges["requests_running", ""] == 8.0
    assert pool.gauges["kv_cache_usage_ratio", ""] == 0.8
    assert pool.gauges["saturation_ratio", ""] == pytest.approx(1.0)
    assert pool.gauges["pods", "warming"] == 1.0
    assert pool.gauges["reporting_ratio", ""] == 1.0
    assert pod_row(core.snapshot(at(0)), "young").gauges["kv_cache_usage_ratio", ""] == 0.0


# ---- lanes


def test_a_fast_page_leaves_what_it_does_not_cover() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(kv_cache_capacity_tokens=1000.0), at(0)))
    core.absorb(reading(POD, values(requests_running=9.0, requests_waiting=0.0), at(1), lane=Lane.FAST))
    gauges = pod_row(core.snapshot(at(1))).gauges
    assert gauges["requests_running", ""] == 9.0
    assert gauges["kv_cache_capacity_tokens", ""] == 1000.0


def test_missing_inside_what_a_page_covers_is_absent() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    core.absorb(reading(POD, values(requests_running=9.0), at(1), lane=Lane.FAST))
    gauges = pod_row(core.snapshot(at(1))).gauges
    assert ("requests_waiting", "") not in gauges
    assert ("kv_cache_usage_ratio", "") not in gauges
    assert ("adapters_running", "") not in gauges
    (endpoint,) = core.endpoints(at(1))
    assert entry("test", endpoint)["requests_waiting"] is None
    assert entry("test", endpoint)["adapters"] is None


def test_a_full_page_replaces_the_fast_one() -> None:
    core = state(POD)
    core.absorb(reading(POD, values(requests_running=9.0, requests_waiting=1.0), at(0), lane=Lane.FAST))
    core.absorb(reading(POD, values(requests_running=3.0), at(1)))
    gauges = pod_row(core.snapshot(at(1))).gauges
    assert gauges["requests_running", ""] == 3.0
    assert ("requests_waiting", "") not in gauges


def test_ages_per_lane() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    core.absorb(reading(POD, busy(), at(2), lane=Lane.FAST))
    gauges = pod_row(core.snapshot(at(3))).gauges
    assert gauges["signal_age_seconds", "full"] == 3.0
    assert gauges["signal_age_seconds", "fast"] == 1.0
    core.absorb(reading(POD, busy(), at(5)))
    gauges = pod_row(core.snapshot(at(5))).gauges
    assert gauges["signal_age_seconds", "full"] == gauges["signal_age_seconds", "fast"] == 0.0


def test_what_only_the_full_page_tells_ages_out_although_the_fast_lane_lives() -> None:
    """Full pages fail for good: their gauges end after the staleness limit beyond their own interval (3 s + 5 s)."""
    core = state(POD)
    core.absorb(reading(POD, busy(kv_cache_capacity_tokens=1000.0), at(0)))
    for second in range(1, 10):
        core.absorb(reading(POD, busy(), at(second), lane=Lane.FAST))
    assert pod_row(core.snapshot(at(8))).gauges["kv_cache_capacity_tokens", ""] == 1000.0
    assert ("kv_cache_capacity_tokens", "") not in pod_row(core.snapshot(at(8.01))).gauges
    assert pod_row(core.snapshot(at(8.01))).gauges["requests_running", ""] == 4.0


# ---- joining, leaving, relabelling


def test_a_removed_target_is_gone_from_every_output_at_once() -> None:
    """A26: its totals stay above."""
    other = target("p1")
    core = state(POD, other)
    for pod in (POD, other):
        core.absorb(reading(pod, busy(tokens=100), at(0)))
        core.absorb(reading(pod, busy(tokens=110), at(1)))
    core.watch([other], at(2))
    cut = core.snapshot(at(2))
    page, _ = render(cut, Format.TEXT, max_pods=10)
    assert 'pod="p0"' not in page
    assert [one.target.pod for one in core.endpoints(at(2))] == ["p1"]
    assert pool_row(cut).gauges["requests_running", ""] == 4.0
    assert pool_row(cut).counters[TOKENS] == 20


def test_a_late_outcome_of_a_removed_target_is_dropped() -> None:
    core = state(POD)
    core.watch([], at(1))
    core.absorb(reading(POD, busy(), at(2)))
    core.absorb(failure(POD, at(3)))
    assert core.endpoints(at(3)) == ()
    assert not core.tally.failures


def test_a_target_that_comes_back_begins_anew() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.absorb(reading(POD, busy(tokens=110), at(1)))
    core.watch([], at(2))
    core.watch([POD], at(3))
    assert state_at(core, 3) is State.STALE
    core.absorb(reading(POD, busy(tokens=5000), at(4)))
    core.absorb(reading(POD, busy(tokens=5001), at(5)))
    cut = core.snapshot(at(5))
    assert pool_row(cut).counters[TOKENS] == 11
    assert pod_row(cut).counters[TOKENS] == 1


def test_a_relabelled_target_keeps_its_history() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    relabelled = replace(POD, cost_tier="spot")
    core.watch([relabelled], at(1))
    assert state_at(core, 1) is State.FRESH
    core.absorb(reading(relabelled, busy(tokens=130), at(2)))
    cut = core.snapshot(at(2))
    assert pod_row(cut).info["cost_tier"] == "spot"
    assert pool_row(cut).counters[TOKENS] == 30


def test_an_outcome_that_was_under_way_while_labels_changed_is_taken() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.watch([replace(POD, terminating=True)], at(1))
    core.absorb(reading(POD, busy(tokens=130), at(1.5)))
    core.absorb(failure(POD, at(2)))
    assert state_at(core, 2) is State.TERMINATING
    assert pool_row(core.snapshot(at(2))).counters[TOKENS] == 30


def test_a_target_moved_to_another_pool_counts_there_from_now_on() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.absorb(reading(POD, busy(tokens=110), at(1)))
    moved = target(url=POD.url, pool="code")
    core.watch([moved], at(2))
    core.absorb(reading(moved, busy(tokens=113), at(3)))
    cut = core.snapshot(at(3))
    assert pool_row(cut, "chat").counters[TOKENS] == 10
    assert pool_row(cut, "code").counters[TOKENS] == 3
    assert cut.cluster.counters[TOKENS] == 13


# ---- pools


def test_an_empty_pool_is_kept_for_an_hour() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.absorb(reading(POD, busy(tokens=110), at(1)))
    core.watch([], at(10))
    for seconds in (10, 1000, 3610):
        pool = pool_row(core.snapshot(at(seconds)))
        assert pool.counters[TOKENS] == 10
        assert pool.gauges["pods", "fresh"] == 0.0
        assert ("reporting_ratio", "") not in pool.gauges
    core.watch([], at(3610.5))
    assert core.snapshot(at(3610.5)).pools == ()
    assert core.snapshot(at(3610.5)).cluster.counters[TOKENS] == 10


def test_an_empty_pool_goes_by_the_clock_alone() -> None:
    """No change of the targets comes to remind the core."""
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    core.watch([], at(10))
    assert len(core.snapshot(at(3610)).pools) == 1
    assert core.snapshot(at(3610.5)).pools == ()
    core.watch([POD], at(9000))
    core.absorb(reading(POD, busy(tokens=1), at(9001)))
    assert pool_row(core.snapshot(at(9001))).counters[TOKENS] == 0


def test_a_pool_that_is_declared_again_in_time_goes_on() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    core.absorb(reading(POD, busy(tokens=110), at(1)))
    core.watch([], at(10))
    core.watch([POD], at(3000))
    core.watch([], at(4000))
    assert pool_row(core.snapshot(at(7000))).counters[TOKENS] == 10


def test_the_pools_model_is_the_declared_one_else_the_first_seen() -> None:
    second = target("p1")
    core = state(POD, second)
    core.absorb(reading(POD, values(model="llama"), at(0)))
    core.absorb(reading(second, values(model="other"), at(1)))
    assert pool_row(core.snapshot(at(1))).info["model"] == "llama"
    core.watch([replace(POD, model="declared"), second], at(2))
    assert pool_row(core.snapshot(at(2))).info["model"] == "declared"


def test_the_order_of_targets_does_not_choose_between_two_declared_models() -> None:
    one, two = target("p0", model="llama"), target("p1", model="qwen")
    assert state(one, two).snapshot(at(0)) == state(two, one).snapshot(at(0))


def test_a_snapshot_does_not_change_when_the_state_goes_on() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(tokens=100), at(0)))
    cut = core.snapshot(at(0))
    before = render(cut, Format.TEXT, max_pods=10)
    core.absorb(reading(POD, busy(tokens=900, requests_running=1.0), at(1)))
    core.watch([], at(2))
    assert render(cut, Format.TEXT, max_pods=10) == before


def test_to_take_a_snapshot_changes_nothing() -> None:
    core = state(POD)
    core.absorb(reading(POD, busy(), at(0)))
    first = core.snapshot(at(1))
    core.snapshot(at(5000))
    assert core.snapshot(at(1)) == first
