"""Recorded pages in time order through one State, with the clock moved by hand."""

import json
import random
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from collector.clock import Instant
from collector.fixed import from_fixed
from collector.health import Limits
from collector.model import Target
from collector.signals import OUTCOMES, SIGNALS
from collector.signals import State as Health
from collector.snapshot import Row, Snapshot
from collector.state import State

GOLDEN = Path(__file__).parents[1] / "golden"

SERIES = "vllm-0.32.0-series/vllm-0.32.0-series-"
SERIES_AT = {"00": 0.0, "02": 3.5, "03": 6.0, "05": 11.0, "06": 13.5, "16": 38.6, "17": 40.7, "23": 54.2, "26": 61.8, "28": 66.8,
             "35": 84.3, "40": 99.8}  # fmt: skip
SERIES_BEGAN = 1_795_983_721.0
SERIES_PROCESS_BEGAN = 1_795_983_683.62

STALLED = "vllm-0.16.0-stalled-engine/vllm-0.16.0-stalled-engine-"
STALLED_AT = {"00": 0.0, "01": 1.0, "08": 11.5, "15": 22.1, "16": 23.6, "20": 29.6}
STALLED_BEGAN = 1_795_984_746.0


def moment(after: float, wall: float) -> Instant:
    return Instant(mono=5000.0 + after, wall=wall + after)


def begin(target: Target, at: Instant, limits: Limits | None = None) -> State:
    state = State(cluster="c", limits=limits)
    state.watch([target], at)
    return state


def golden(name: str) -> dict[str, Any]:
    data = json.loads((GOLDEN / f"{name}.json").read_text())
    assert isinstance(data, dict)
    return data


def counted(name: str) -> dict[str, int]:
    """The page's counters by signal and child, added over its series."""
    return {signal: sum(sources.values()) for signal, sources in golden(name)["counters"].items()}


def observed(name: str, signal: str) -> tuple[dict[float, int], float]:
    """The page's buckets by bound (inf = all) and the sum, added over its series."""
    buckets: dict[float, int] = {}
    total = 0.0
    for source in golden(name)["histograms"].get(signal, {}).values():
        for item in source["buckets"].split():
            bound, _, count = item.rpartition(":")
            buckets[float(bound)] = buckets.get(float(bound), 0) + int(count)
        total += source["sum"]
    return buckets, total


def published(row: Row) -> dict[str, int]:
    return {f"{signal}/{child}" if child else signal: count for (signal, child), count in row.counters.items()}


def assert_never_falls(snapshots: list[Snapshot]) -> None:
    for before, now in pairwise(snapshots):
        for old, new in zip((*before.pods, *before.pools, before.cluster), (*now.pods, *now.pools, now.cluster), strict=True):
            assert all(new.counters[child] >= count for child, count in old.counters.items())
            for signal, histogram in old.histograms.items():
                later = new.histograms[signal]
                assert all(high >= low for low, high in zip(histogram.cumulative, later.cumulative, strict=True)), signal
                assert later.sum_fixed >= histogram.sum_fixed


def assert_total_is(row: Row, last: str, first: str | None) -> None:
    """What the row publishes is the last page less the first one (or the last one whole)."""
    start = counted(first) if first else {}
    outcomes_told = dict.fromkeys((f"requests/{outcome}" for outcome in OUTCOMES), 0)
    assert published(row) == outcomes_told | {signal: count - start.get(signal, 0) for signal, count in counted(last).items()}
    for signal, histogram in row.histograms.items():
        ladder = (*SIGNALS[signal].ladder, float("inf"))
        buckets, total = observed(last, signal)
        before, earlier = observed(first, signal) if first else ({}, 0.0)
        assert buckets, signal
        for bound, count in buckets.items():
            assert histogram.cumulative[ladder.index(bound)] == count - before.get(bound, 0), (signal, bound)
        assert from_fixed(histogram.sum_fixed) == pytest.approx(total - earlier, rel=1e-9, abs=1e-12), signal


def test_the_series_adds_up(understand_page: Any, target: Target) -> None:
    state = begin(target, moment(-1.0, SERIES_BEGAN))
    snapshots, running, states = [], [], []
    for number, after in SERIES_AT.items():
        at = moment(after, SERIES_BEGAN)
        state.absorb(understand_page(SERIES + number, at=at))
        snapshots.append(state.snapshot(at))
        running.append(
            (snapshots[-1].cluster.gauges["requests_running", ""], snapshots[-1].cluster.gauges["requests_waiting", ""])
        )
        states.append(snapshots[-1].endpoints[0].state)
    assert_never_falls(snapshots)
    last = snapshots[-1]
    assert published(last.cluster) == {
        "requests/stop": 0, "requests/length": 80, "requests/abort": 0, "requests/error": 0, "requests/other": 0,
        "prompt_tokens": 10745, "generation_tokens": 12011, "prefix_cache_query_tokens": 10745, "prefix_cache_hit_tokens": 5120,
        "cached_prompt_tokens": 5120, "external_prefix_cache_query_tokens": 0, "external_prefix_cache_hit_tokens": 0,
        "preemptions": 0, "rejected_requests": 0,
    }  # fmt: skip
    for row in (*last.pools, last.cluster):
        assert_total_is(row, SERIES + "40", SERIES + "00")
        assert len(row.histograms) == 10
    assert published(last.pods[0]) == published(last.cluster)
    assert running == [(0, 0), (2, 18), (2, 18), (2, 6), (2, 2), (0, 0), (0, 0), (2, 18), (2, 14), (2, 6), (2, 4), (0, 0)]
    assert states == [Health.WARMING, *[Health.FRESH] * 11]
    assert last.pools[0].info == {"model": "tiny-llama", "engine": "vllm"}


@pytest.mark.parametrize("first", ["03", "17", "35"])
def test_a_series_met_half_way_counts_from_there(understand_page: Any, target: Target, first: str) -> None:
    state = begin(target, moment(SERIES_AT[first] - 0.5, SERIES_BEGAN))
    for number, after in SERIES_AT.items():
        if number >= first:
            state.absorb(understand_page(SERIES + number, at=moment(after, SERIES_BEGAN)))
    assert_total_is(state.snapshot(moment(100.0, SERIES_BEGAN)).cluster, SERIES + "40", SERIES + first)
    lost = {signal: count for (signal, _), count in state.tally.discarded.items()}
    assert lost["prompt_tokens"] == counted(SERIES + first)["prompt_tokens"]


def test_a_process_that_began_under_our_eyes_counts_whole(understand_page: Any, target: Target) -> None:
    """The first page came late, but the process is younger than our watch: it all came about since."""
    state = begin(target, Instant(5000.0 - 60.0, SERIES_PROCESS_BEGAN - 10.0))
    for number in ("06", "16", "40"):
        state.absorb(understand_page(SERIES + number, at=moment(SERIES_AT[number], SERIES_BEGAN)))
    assert_total_is(state.snapshot(moment(100.0, SERIES_BEGAN)).cluster, SERIES + "40", None)
    assert not state.tally.discarded


@pytest.mark.parametrize("skew", [-7200.0, -30.0, 30.0, 7200.0])
def test_clocks_that_differ_count_nothing_twice(understand_page: Any, target: Target, skew: float) -> None:
    """Ours is `skew` seconds ahead of the engine's."""
    state = begin(target, moment(-1.0, SERIES_BEGAN + skew))
    for number, after in SERIES_AT.items():
        for again in (0.0, 0.1):
            state.absorb(understand_page(SERIES + number, at=moment(after + again, SERIES_BEGAN + skew)))
    assert_total_is(state.snapshot(moment(100.0, SERIES_BEGAN + skew)).cluster, SERIES + "40", SERIES + "00")


def test_a_start_that_our_clock_reaches_later_is_no_birth(understand_page: Any, target: Target) -> None:
    """Our clock is 44 s behind: the process seems to begin between the first page and the second."""
    wall = SERIES_BEGAN - 44.0
    assert wall + SERIES_AT["03"] < SERIES_PROCESS_BEGAN < wall + SERIES_AT["05"]
    state = begin(target, moment(SERIES_AT["03"] - 0.5, wall))
    for number, after in SERIES_AT.items():
        if number >= "03":
            state.absorb(understand_page(SERIES + number, at=moment(after, wall)))
    assert_total_is(state.snapshot(moment(100.0, wall)).cluster, SERIES + "40", SERIES + "03")


def test_the_same_page_again_adds_nothing(understand_page: Any, target: Target) -> None:
    state = begin(target, moment(0.0, SERIES_BEGAN))
    for n in range(1, 6):
        state.absorb(understand_page(SERIES + "26", at=moment(float(n), SERIES_BEGAN)))
    snapshot = state.snapshot(moment(6.0, SERIES_BEGAN))
    assert set(snapshot.cluster.counters.values()) == {0}
    assert all(not any(histogram.cumulative) for histogram in snapshot.cluster.histograms.values())


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_the_pages_never_falls_nor_runs_away(understand_page: Any, target: Target, seed: int) -> None:
    """A page out of order is a counter that fell: it can count at most what the page itself says."""
    numbers = list(SERIES_AT)
    random.Random(seed).shuffle(numbers)
    state = begin(target, moment(0.0, SERIES_BEGAN + 1000.0))
    snapshots = []
    for step, number in enumerate(numbers):
        at = moment(2.0 * step, SERIES_BEGAN + 1000.0)
        state.absorb(understand_page(SERIES + number, at=at))
        snapshots.append(state.snapshot(at))
        before = published(snapshots[-2].cluster) if step else {}
        page = counted(SERIES + number)
        for signal, count in published(snapshots[-1].cluster).items():
            assert 0 <= count - before.get(signal, 0) <= page.get(signal, 0), (signal, number)
    assert_never_falls(snapshots)


def stalled_states(understand_page: Any, target: Target, limits: Limits) -> list[Health]:
    state = begin(target, moment(-1.0, STALLED_BEGAN), limits)
    states = []
    for number, after in STALLED_AT.items():
        at = moment(after, STALLED_BEGAN)
        state.absorb(understand_page(STALLED + number, at=at))
        [endpoint] = state.snapshot(at).endpoints
        assert endpoint.gauges["requests_running"] == {"00": 0, "01": 1, "08": 1, "15": 1, "16": 2, "20": 2}[number]
        states.append(endpoint.state)
    return states


def test_a_stalled_engine_makes_no_progress_until_it_moves(understand_page: Any, target: Target) -> None:
    states = stalled_states(understand_page, target, Limits(no_progress_after=10.0))
    assert states == [Health.WARMING, Health.FRESH, Health.NO_PROGRESS, Health.NO_PROGRESS, Health.FRESH, Health.FRESH]


def test_a_stall_shorter_than_the_limit_is_none(understand_page: Any, target: Target) -> None:
    states = stalled_states(understand_page, target, Limits())
    assert states == [Health.WARMING, *[Health.FRESH] * 5]


def test_the_stalled_engine_adds_up(understand_page: Any, target: Target) -> None:
    state = begin(target, moment(-1.0, STALLED_BEGAN), Limits(no_progress_after=10.0))
    snapshots = []
    for number, after in STALLED_AT.items():
        at = moment(after, STALLED_BEGAN)
        state.absorb(understand_page(STALLED + number, at=at))
        snapshots.append(state.snapshot(at))
    assert_never_falls(snapshots)
    assert_total_is(snapshots[-1].cluster, STALLED + "20", STALLED + "00")


# Pages of different engines and versions on one URL

STRANGERS = (
    "vllm-0.32.0-idle", "vllm-0.32.0-behind-envoy", "vllm-0.32.0-dp2-load", "vllm-0.32.0-name-filter", "vllm-0.10.2-load-queued",
    "vllm-0.8.5.post2-load-queued", "sglang-0.5.23-after-load-errors-aborts", "sglang-0.5.23-dp2-load",
    "sglang-0.4.9.post6-collector-only", "tgi-3.3.7-from-source-load", "tgi-3.3.7-from-source-idle",
)  # fmt: skip


def outcomes(name: str) -> int:
    """Finished requests of the page, whatever way it tells them."""
    counts = {signal: count for signal, count in counted(name).items() if signal.startswith("requests/")}
    return counts.get("requests/*", sum(counts.values()))


def assert_gained_at_most(before: Row, now: Row, name: str) -> None:
    page = counted(name)
    gained = {signal: count - published(before).get(signal, 0) for signal, count in published(now).items()}
    assert all(gain >= 0 for gain in gained.values())
    assert sum(gain for signal, gain in gained.items() if signal.startswith("requests/")) <= outcomes(name)
    for signal, gain in gained.items():
        assert signal.startswith("requests/") or gain <= page.get(signal, 0), signal
    for signal, histogram in now.histograms.items():
        buckets, total = observed(name, signal)
        earlier = before.histograms.get(signal)
        assert 0 <= histogram.cumulative[-1] - (earlier.cumulative[-1] if earlier else 0) <= buckets.get(float("inf"), 0), signal
        assert 0 <= from_fixed(histogram.sum_fixed - (earlier.sum_fixed if earlier else 0)) <= total * (1 + 1e-12), signal


@pytest.mark.parametrize(("first", "second"), list(permutations(STRANGERS, 2)))
def test_a_stranger_on_the_same_url(first: str, second: str, understand_page: Any, target: Target) -> None:
    """There and back again: no increase is negative, or more than the page that brought it says in all."""
    wall = 1_800_000_000.0
    state = begin(target, moment(0.0, wall))
    snapshots = [state.snapshot(moment(0.0, wall))]
    for step, name in enumerate((first, second, second, first, second), start=1):
        at = moment(2.0 * step, wall)
        state.absorb(understand_page(name, at=at))
        snapshots.append(state.snapshot(at))
        assert_gained_at_most(snapshots[-2].cluster, snapshots[-1].cluster, name)
        assert snapshots[-1].endpoints[0].engine == name.partition("-")[0]
    assert_never_falls(snapshots)
    assert published(snapshots[3].cluster) == published(snapshots[2].cluster)
    if series_of(first) and not series_of(first) & series_of(second):
        assert set(published(snapshots[2].cluster).values()) == {0}


def series_of(name: str) -> set[tuple[str, str]]:
    return {(signal, source) for signal, sources in golden(name)["counters"].items() for source in sources}


NAMED_STARTS = {"vllm-0.32.0-behind-envoy": 1.79598392102e9, "vllm-0.10.2-load-queued": 1.79598497576e9}


@pytest.mark.parametrize("second", NAMED_STARTS)
@pytest.mark.parametrize("first", [name for name in STRANGERS if name not in NAMED_STARTS and golden(name)["started_at"] is None])
def test_a_stranger_born_between_two_looks_counts_whole(first: str, second: str, understand_page: Any, target: Target) -> None:
    born = NAMED_STARTS[second]
    state = begin(target, moment(-4.0, born))
    state.absorb(understand_page(first, at=moment(-2.0, born)))
    before = published(state.snapshot(moment(-2.0, born)).cluster)
    state.absorb(understand_page(second, at=moment(3.0, born)))
    now = published(state.snapshot(moment(3.0, born)).cluster)
    assert {signal: now[signal] - before.get(signal, 0) for signal in counted(second)} == counted(second)
