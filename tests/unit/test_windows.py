"""Quantiles over the window, against Prometheus' own rule worked out step by step on the raw buckets."""

import math

import pytest

from collector.ladders import Ladder, quantile
from collector.signals import SIGNALS, WINDOWED
from collector.totals import QUANTILES
from exporter.publish.prometheus import Format, render
from tests.make import at, observe, pool_row, reading, state, target, values

TTFT = "time_to_first_token_seconds"
SHOWN = "time_to_first_token_window_seconds"
VLLM: Ladder = (0.1, 0.25, 0.5, 1.0, 2.5)
SGLANG: Ladder = (0.1, 0.2, 0.4, 1.0, 2.0)
POD = target()


def by_hand(point: float, ladder: Ladder, observations: list[float]) -> float:
    """histogram_quantile as its documentation says it, from the observations themselves."""
    counts = [sum(1 for one in observations if one <= bound) for bound in ladder]
    rank = point * len(observations)
    for index, (bound, count) in enumerate(zip(ladder, counts, strict=True)):
        if count >= rank:
            low, below = (ladder[index - 1], counts[index - 1]) if index else (0.0, 0)
            return low + (bound - low) * (rank - below) / (count - below)
    return ladder[-1]


def look(core, seconds: float, seen: list[float], ladder: Ladder = VLLM, pod=POD) -> None:  # type: ignore[no-untyped-def]
    page = values(None, {TTFT: observe(ladder, seen)}, progress=1.0, requests_running=1.0)
    core.absorb(reading(pod, page, at(seconds)))


def shown(core, seconds: float) -> dict[str, float]:  # type: ignore[no-untyped-def]
    gauges = pool_row(core.snapshot(at(seconds))).gauges
    return {child: value for (signal, child), value in gauges.items() if signal == SHOWN}


def test_what_came_in_the_window_counts_and_nothing_else() -> None:
    core = state(POD)
    old, new = [5.0] * 50, [0.05, 0.12, 0.3, 0.3, 0.45, 0.7, 0.8, 0.9, 1.7, 2.2]
    look(core, 0, [])
    look(core, 5, old)
    look(core, 60, old)
    look(core, 70, old + new)
    expected = {f"{point:g}|60s": by_hand(point, VLLM, new) for point in QUANTILES}
    assert shown(core, 70) == pytest.approx(expected)
    assert expected["0.5|60s"] == pytest.approx(0.25 + 0.25 * 3 / 3)  # the fifth of ten: three of (0.25, 0.5] above two


def test_without_an_observation_there_is_no_quantile() -> None:
    core = state(POD)
    look(core, 0, [1.0] * 9)
    assert shown(core, 0) == {}
    look(core, 5, [1.0] * 9)
    assert shown(core, 5) == {}


def test_a_window_that_has_passed_is_empty() -> None:
    core = state(POD)
    look(core, 0, [])
    look(core, 5, [0.3] * 9)
    for second in range(10, 80, 5):
        look(core, second, [0.3] * 9)
    assert shown(core, 75) == {}


def test_beyond_the_last_bound_the_last_bound_is_said() -> None:
    core = state(POD)
    look(core, 0, [])
    look(core, 5, [99.0] * 9)
    assert shown(core, 5) == {f"{point:g}|60s": 2.5 for point in QUANTILES}


def test_the_engines_own_buckets_are_used_and_not_the_published_ones() -> None:
    """All in one bucket (0.5, 2] that no published bound divides as the engine does."""
    core = state(POD)
    look(core, 0, [], (0.5, 2.0))
    look(core, 5, [1.9] * 8, (0.5, 2.0))
    assert shown(core, 5)["0.5|60s"] == pytest.approx(0.5 + 1.5 * 4 / 8)


def test_two_engines_combine_on_the_bounds_of_both() -> None:
    one, other = target("v"), target("s")
    core = state(one, other)
    first, second = [0.05, 0.3, 0.3, 0.7], [0.15, 0.3, 0.3, 1.5]
    for step, (a, b) in enumerate((([], []), (first, second))):
        look(core, step, a, VLLM, one)
        look(core, step, b, SGLANG, other)
    # Whole counts of both on bounds they share: up to 0.1: 1 + 0; up to 1.0: 4 + 3 of 8; up to 0.4 the one spreads its two.
    # Up to 0.25: 1 of the one; of the other 1 and a quarter of two: 2.5. Up to 0.4: 1 + 2 * 0.6 and 3, that is 5.2. The half, the
    # fourth of eight, lies between.
    assert shown(core, 1)["0.5|60s"] == pytest.approx(0.25 + 0.15 * (4 - 2.5) / (5.2 - 2.5))


@pytest.mark.parametrize("point", [0.0, 0.01, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("seen", [[0.05], [0.3, 0.4, 3.0], [0.05, 0.05, 0.9, 1.2, 2.4, 7.0, 9.0]])
def test_a_quantile_is_prometheus_own(point: float, seen: list[float]) -> None:
    cumulative = [sum(1 for one in seen if one <= bound) for bound in (*VLLM, math.inf)]
    found = quantile(point, VLLM, cumulative)
    if point == 0:
        first = next(index for index, count in enumerate(cumulative) if count)
        assert found == (VLLM[first - 1] if first else 0.0)
    else:
        assert found == pytest.approx(by_hand(point, VLLM, seen))


def test_a_first_bound_of_zero_is_the_quantile_of_what_lies_in_it() -> None:
    assert quantile(0.5, (0.0, 1.0), (4, 6, 6)) == 0.0
    assert quantile(0.9, (0.0, 1.0), (4, 6, 6)) == pytest.approx(0.0 + 1.0 * (5.4 - 4) / 2)


@pytest.mark.parametrize("bounds", [(-1.0,), (-1.0, 1.0), (-0.5, 1.0), (-3.0, 1.0)])
def test_a_first_bound_below_zero_is_the_quantile_of_what_lies_under_it(bounds: Ladder) -> None:
    """Prometheus cannot know how far down that bucket goes."""
    assert quantile(0.5, bounds, (4,) * (len(bounds) + 1)) == bounds[0]


def test_nothing_has_no_quantile() -> None:
    assert quantile(0.5, (1.0,), (0, 0)) is None
    assert quantile(0.5, (1.0,), (-1, -1)) is None
    assert quantile(0.5, (), (3,)) is None


def test_they_are_on_the_page_of_pool_and_cluster_with_quantile_and_window() -> None:
    core = state(POD, window=30.0)
    look(core, 0, [])
    look(core, 5, [0.2] * 4)
    page, _ = render(core.snapshot(at(5)), Format.TEXT, max_pods=9)
    label = 'quantile="0.99",window="30s"'
    assert f'llm_pool_{SHOWN}{{cluster="test",namespace="serving",pool="chat",{label}}} ' in page
    assert f'llm_cluster_{SHOWN}{{cluster="test",{label}}} ' in page
    assert all(f"llm_pod_{name.replace('_seconds', '_window')}" not in page for name in WINDOWED)


def test_the_projected_share_is_of_observations_on_foreign_buckets() -> None:
    core = state(POD, target("p1"))
    ladder = SIGNALS[TTFT].ladder
    for step, count in enumerate((0, 3)):
        look(core, step, [0.3] * count, ladder[:20])
        look(core, step, [0.3] * 3 * count, (0.111, 0.222), target("p1"))
    gauges = pool_row(core.snapshot(at(1))).gauges
    assert gauges["projected_ratio", TTFT] == 9 / 12
    empty = state(POD)
    look(empty, 0, [])
    assert ("projected_ratio", TTFT) not in pool_row(empty.snapshot(at(0))).gauges
