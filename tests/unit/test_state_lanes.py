"""Lanes fail one by one, and some sources know only a part: gaps, births and progress are judged by what was really seen."""

from dataclasses import replace

from collector.model import Adapters, Reading, Target
from collector.reasons import DiscardReason
from collector.signals import Lane, State
from tests.make import at, counts, pool_row, reading, state, target, values

HITS = ("prefix_cache_hit_tokens", "prefix_cache_query_tokens")
LOADS = frozenset({"requests_running", "requests_waiting", "kv_cache_usage_ratio", "kv_cache_usage_max_ratio"})


def full(of: Target, seconds: float, tokens: int, hits: int = 0, **more: float | None) -> Reading:
    return reading(of, values(counts(generation_tokens=tokens, prefix_cache_hit_tokens=hits, prefix_cache_query_tokens=hits),
                              **more), at(seconds))  # type: ignore[arg-type]  # fmt: skip


def fast(of: Target, seconds: float, hits: int = 0, **more: float | None) -> Reading:
    counted = counts(prefix_cache_hit_tokens=hits, prefix_cache_query_tokens=hits)
    return reading(of, values(counted, **more), at(seconds), lane=Lane.FAST)  # type: ignore[arg-type]


def loads(of: Target, seconds: float, **gauges: float) -> Reading:
    return replace(reading(of, values(**gauges), at(seconds), lane=Lane.FAST, engine="sglang"), only=LOADS)


def test_a_lane_that_fails_has_a_gap_of_its_own() -> None:
    """The fast lane worked all the while: that says nothing of what only whole pages tell."""
    of = target()
    seen = state(of, gap_limit=60.0)
    seen.absorb(full(of, 1, tokens=1000, hits=10))
    for second in range(2, 200):
        seen.absorb(fast(of, second, hits=10 + second))
    seen.absorb(full(of, 200, tokens=5000, hits=210))
    counters = pool_row(seen.snapshot(at(200))).counters
    assert counters["prefix_cache_hit_tokens", ""] == 200
    assert counters["generation_tokens", ""] == 0
    assert seen.tally.discarded["generation_tokens", DiscardReason.GAP] == 4000
    seen.absorb(full(of, 205, tokens=5100, hits=210))
    assert pool_row(seen.snapshot(at(205))).counters["generation_tokens", ""] == 100


def test_a_birth_that_the_fast_lane_saw_counts_from_zero_in_the_other() -> None:
    of = target()
    seen = state(of, gap_limit=60.0)
    began = at(0).wall
    seen.absorb(full(of, 1, tokens=1000, started_at=began - 100))
    seen.absorb(fast(of, 100, started_at=began + 90))
    seen.absorb(full(of, 104, tokens=50, started_at=began + 90))
    assert pool_row(seen.snapshot(at(104))).counters["generation_tokens", ""] == 50
    assert not seen.tally.discarded.get(("generation_tokens", DiscardReason.GAP))


def test_a_partial_source_leaves_the_rest_as_it_was() -> None:
    of = target()
    seen = state(of, stale_after=10.0)
    whole = values(counts(prefix_cache_hit_tokens=5, prefix_cache_query_tokens=9), requests_running=1.0, adapters_max=4.0,
                   adapters=Adapters(max=4), progress=7.0, model="m")  # fmt: skip
    seen.absorb(reading(of, whole, at(1), engine="sglang"))
    seen.absorb(loads(of, 2, requests_running=3.0, requests_waiting=2.0))
    (endpoint,) = seen.endpoints(at(2))
    assert (endpoint.gauges["requests_running"], endpoint.gauges["adapters_max"]) == (3.0, 4.0)
    assert endpoint.adapters == Adapters(max=4)
    assert "kv_cache_usage_ratio" not in endpoint.gauges
    track = seen.tracks[of.key]
    assert track.counters["prefix_cache_hit_tokens", "", ""] == 5
    assert track.vitals.progress == 7.0


def test_a_source_without_progress_never_makes_a_pod_stuck() -> None:
    of = target()
    seen = state(of, no_progress_after=3.0, full_interval=20.0)

    def whole(seconds: float, progress: float) -> Reading:
        return reading(of, values(requests_running=1.0, progress=progress), at(seconds), engine="sglang")

    seen.absorb(whole(1, 10.0))
    for second in range(2, 12):
        seen.absorb(loads(of, second, requests_running=1.0, requests_waiting=0.0))
        assert seen.tracks[of.key].state(at(second).mono, seen.limits) is State.FRESH, second
    seen.absorb(whole(12, 10.0))
    assert seen.tracks[of.key].state(at(12).mono, seen.limits) is State.NO_PROGRESS
    seen.absorb(loads(of, 13, requests_running=1.0, requests_waiting=0.0))
    assert seen.tracks[of.key].state(at(13).mono, seen.limits) is State.NO_PROGRESS
    seen.absorb(loads(of, 14, requests_running=0.0, requests_waiting=0.0))
    assert seen.tracks[of.key].state(at(14).mono, seen.limits) is State.FRESH, "without work nothing is stuck"


def test_age_is_told_lane_by_lane() -> None:
    of = target()
    seen = state(of)
    seen.absorb(full(of, 1, tokens=1))
    for second in (2, 3, 4):
        seen.absorb(fast(of, second))
    track = seen.tracks[of.key]
    assert (track.age(Lane.FAST, at(5).mono), track.age(Lane.FULL, at(5).mono)) == (1.0, 4.0)
