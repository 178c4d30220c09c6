"""The picker's formulas, by hand-worked values of its own source; and what is published of them."""

import pytest

from collector import picking
from collector.picking import KV_CACHE, LOAD_AWARE, QUEUE, RUNNING
from collector.scoring import Full
from tests.make import at, pod_row, pool_row, reading, state, target, values


def test_scores_of_single_numbers() -> None:
    assert [picking.kv_score(usage) for usage in (0.0, 0.25, 1.0, 1.5, -1.0)] == [1.0, 0.75, 0.0, 0.0, 1.0]
    assert [picking.load_aware_score(waiting) for waiting in (0, 64, 128, 500)] == [0.5, 0.25, 0.0, 0.0]


@pytest.mark.parametrize(("sizes", "expected"), [
    ([10, 5, 0], [0.0, 0.5, 1.0]), ([5, 5], [1.0, 1.0]), ([0], [1.0]), ([], []), ([3, 4], [1.0, 0.0]),
])  # fmt: skip
def test_queues_are_compared_with_each_other(sizes: list[float], expected: list[float]) -> None:
    assert picking.spread_scores(sizes) == expected


@pytest.mark.parametrize(("running", "waiting", "most", "expected"), [
    ({"a"}, set(), 1, 1.0), ({"b"}, set(), 2, 0.8), ({"b"}, {"a"}, 2, 0.6), ({"b", "c"}, set(), 2, 0.0), (set(), set(), 0, 0.0),
    ({"a"}, {"a"}, 1, 1.0), (set(), {"a"}, 2, 0.8),
])  # fmt: skip
def test_adapters(running: set[str], waiting: set[str], most: int, expected: float) -> None:
    assert picking.adapter_score("a", running=running, waiting=waiting, most=most) == expected


def test_the_total_is_weighted_and_clamped() -> None:
    assert picking.total({QUEUE: 0.5, KV_CACHE: 0.25, RUNNING: 1.0}) == 1.5
    assert picking.total({QUEUE: 7.0, KV_CACHE: -1.0, "prefix-cache-scorer": 0.5}) == 2.0 + 1.5
    assert picking.total({}, {}) == 0


def test_saturation_counts_silent_pods_and_empty_pools_as_full() -> None:
    full = Full(5.0, 0.8)
    assert picking.saturation([{"requests_waiting": 5.0, "kv_cache_usage_max_ratio": 0.4}], full) == 1.0
    assert picking.saturation([{"requests_waiting": 0.0, "kv_cache_usage_max_ratio": 0.4}, None], full) == 0.75
    assert picking.saturation([], full) == 1.0
    assert picking.saturation([{}], full) == 0.0, "what was not read is 0 in its eyes"
    assert picking.saturation([{"requests_waiting": 50.0}], full) == 10.0


def test_the_pods_scores_and_the_pools_saturation_are_published() -> None:
    pods = [target(name) for name in ("a", "b", "c", "silent")]
    core = state(*pods, stale_after=3.0)
    core.absorb(reading(pods[0], values(requests_waiting=0, requests_running=4, kv_cache_usage_ratio=0.1,
                                        kv_cache_usage_max_ratio=0.2), at(0)))  # fmt: skip
    core.absorb(reading(pods[1], values(requests_waiting=10, requests_running=2, kv_cache_usage_ratio=0.8,
                                        kv_cache_usage_max_ratio=0.8), at(0)))  # fmt: skip
    core.absorb(reading(pods[2], values(requests_waiting=5), at(0)))
    cut = core.snapshot(at(1))

    def told(pod: str) -> dict[str, float]:
        return {child: value for (name, child), value in pod_row(cut, pod).gauges.items() if name == "picker_score_ratio"}

    assert told("a") == {QUEUE: 1.0, KV_CACHE: pytest.approx(0.8), RUNNING: 0.0, LOAD_AWARE: 0.5}
    assert told("b") == {QUEUE: 0.0, KV_CACHE: pytest.approx(0.2), RUNNING: 1.0, LOAD_AWARE: pytest.approx(0.5 * 118 / 128)}
    assert told("c") == {QUEUE: 0.5, LOAD_AWARE: pytest.approx(0.5 * 123 / 128)}, "no score from what is not known"
    assert told("silent") == {}
    assert pool_row(cut).gauges["picker_saturation_ratio", ""] == pytest.approx((0.25 + 2.0 + 1.0 + 1.0) / 4)
    later = core.snapshot(at(60))
    assert pool_row(later).gauges["picker_saturation_ratio", ""] == 1.0


def test_a_pod_that_is_about_to_go_has_left_the_pickers_pool() -> None:
    pods = [target("a"), target("b", terminating=True)]
    core = state(*pods)
    core.absorb(reading(pods[0], values(requests_waiting=1, kv_cache_usage_max_ratio=0.0), at(0)))
    assert pool_row(core.snapshot(at(1))).gauges["picker_saturation_ratio", ""] == pytest.approx(0.2)
