"""One reader over long stretches: any recorded page after any other, and both lanes in any order."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.clock import Instant
from collector.model import Reading, Target, Values
from collector.read import Body, understand
from collector.signals import COVERS, Lane
from collector.snapshot import Snapshot
from collector.state import State

PAGES = Path(__file__).parents[1] / "pages"
NAMES = sorted(str(path.relative_to(PAGES).with_suffix("")) for path in PAGES.rglob("*.prom")
               if path.name.startswith(("vllm-0", "sglang-0", "tgi")) and "disable-log-stats" not in path.name)  # fmt: skip
SERIES = [name for name in NAMES if "0.32.0-series" in name]
TARGET = Target(url="http://10.0.0.1:8000/metrics", namespace="serving", pool="tiny", pod="tiny-0")
WALL = 1_800_000_000.0


@cache
def values_of(name: str, lane: Lane) -> Values:
    content_type = "application/openmetrics-text; version=1.0.0" if "openmetrics" in name else "text/plain"
    reading = understand(TARGET, lane, Body((PAGES / f"{name}.prom").read_bytes(), content_type), at=Instant(0, 0))
    return reading.rows[TARGET]


@cache
def engine_of(name: str) -> str:
    return name.partition("-")[0]


def page(name: str, seconds: float, lane: Lane = Lane.FULL) -> Reading:
    return Reading(target=TARGET, lane=lane, at=Instant(1000.0 + seconds, WALL + seconds), engine=engine_of(name),
                   rows={TARGET: values_of(name, lane)})  # fmt: skip


def reader() -> State:
    core = State(cluster="c")
    core.watch([TARGET], Instant(999.0, WALL - 1))
    return core


def now(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, WALL + seconds)


def rising(core: State) -> dict[object, int]:
    """Everything that may never fall, of pool and cluster."""
    found: dict[object, int] = {}
    for level, totals in (("cluster", core.totals), *((key, pool.totals) for key, pool in core.pools.items())):
        found |= {(level, child): count for child, count in totals.counters.items()}
        for signal, histogram in totals.histograms().items():
            found |= {(level, signal, index): count for index, count in enumerate(histogram.cumulative)}
            found[level, signal, "sum"] = histogram.sum_fixed
    return found


def gained_at_most_the_page(before: dict[object, int], after: dict[object, int], name: str) -> None:
    told: dict[str, int] = {}
    for (signal, child, _), count in values_of(name, Lane.FULL).counters.items():
        if (signal, child) != ("requests", "abort") or engine_of(name) != "sglang":
            told[signal] = told.get(signal, 0) + count
    gained: dict[str, int] = {}
    for key, count in after.items():
        assert count >= before.get(key, 0), (name, key)
        if key[0] == "cluster" and isinstance(key[1], tuple):  # type: ignore[index]
            signal = key[1][0]  # type: ignore[index]
            gained[signal] = gained.get(signal, 0) + count - before.get(key, 0)
    for signal, gain in gained.items():
        assert gain <= told.get(signal, 0), (name, signal)


@pytest.mark.parametrize("first", NAMES)
def test_every_page_after_this_one(first: str) -> None:
    """All ordered pairs: what the second page adds is never negative, nor more than the page says."""
    for second in NAMES:
        core = reader()
        core.absorb(page(first, 0))
        before = rising(core)
        for step, name in ((2, second), (4, first), (6, second)):
            core.absorb(page(name, step))
            after = rising(core)
            gained_at_most_the_page(before, after, name)
            before = after
        [shown] = core.endpoints(now(6))
        assert shown.engine == engine_of(second)
        fresh = reader()
        fresh.absorb(page(second, 6))
        assert shown.gauges == fresh.endpoints(now(6))[0].gauges
        assert shown.adapters == fresh.endpoints(now(6))[0].adapters


@pytest.mark.parametrize("seed", range(30))
def test_any_sequence_of_pages(seed: int) -> None:
    """A reader that saw all sorts of pages shows the last one as a new reader would, and its totals never fell."""
    rng = random.Random(seed)
    core = reader()
    before: dict[object, int] = {}
    for step in range(60):
        name = rng.choice(NAMES)
        lane = Lane.FULL if rng.random() < 0.7 else Lane.FAST
        core.absorb(page(name, 2.0 * step, lane))
        after = rising(core)
        assert all(after[key] >= count for key, count in before.items())
        before = after
    core.absorb(page(name, 120))
    fresh = reader()
    fresh.absorb(page(name, 120))
    assert core.endpoints(now(120))[0].gauges == fresh.endpoints(now(120))[0].gauges
    cut = core.snapshot(now(120))
    assert cut.pods[0].counters.keys() <= cut.cluster.counters.keys()


# Both lanes in any order against the whole page alone


def replay(schedule: Sequence[tuple[str, Lane]], lanes: frozenset[Lane]) -> list[tuple[Snapshot, dict[object, int]]]:
    """Cuts at the moments of whole pages."""
    core = reader()
    cuts = []
    for step, (name, lane) in enumerate(schedule):
        if lane in lanes:
            core.absorb(page(name, 1.5 * step, lane))
        if lane is Lane.FULL:
            cuts.append((core.snapshot(now(1.5 * step)), rising(core)))
    return cuts


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(st.sampled_from([Lane.FAST, Lane.FULL]), min_size=1, max_size=3), min_size=1, max_size=len(SERIES)))
def test_lanes_in_any_order_equal_the_whole_page_alone(lanes: list[list[Lane]]) -> None:
    """At the moments of whole pages everything published is the same, whether fast ones came between or not."""
    schedule = [(name, lane) for name, some in zip(SERIES, [[Lane.FULL], *lanes], strict=False) for lane in some]
    both, alone = replay(schedule, frozenset(Lane)), replay(schedule, frozenset({Lane.FULL}))
    windowed = ("prefix_cache_hit_ratio", "external_prefix_cache_hit_ratio")
    for (cut, counts), (expected, expected_counts) in zip(both, alone, strict=True):
        assert counts == expected_counts
        for row, wanted in zip(cut.rows, expected.rows, strict=True):
            assert row.info == wanted.info
            same = {key for key in row.gauges | wanted.gauges if key[0] not in windowed and "window" not in key[0]}
            told = {key: row.gauges.get(key) for key in same}
            assert told == {key: wanted.gauges.get(key) for key in same}


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([Lane.FAST, Lane.FULL]), min_size=2, max_size=len(SERIES)))
def test_between_whole_pages_the_fast_lane_moves_its_own_signals_only(lanes: list[Lane]) -> None:
    core = reader()
    core.absorb(page(SERIES[0], 0))
    whole = SERIES[0]
    for step, (name, lane) in enumerate(zip(SERIES, lanes, strict=False), start=1):
        core.absorb(page(name, 1.0 * step, lane))
        whole = name if lane is Lane.FULL else whole
        [shown] = core.endpoints(now(1.0 * step))
        fast, full = values_of(name, Lane.FAST).gauges, values_of(whole, Lane.FULL).gauges
        expected = {key: value for key, value in full.items() if key.partition("/")[0] not in COVERS[Lane.FAST]} | dict(fast)
        if step <= 8:  # beyond that the whole page could be too old to be shown
            assert shown.gauges == expected


def test_the_series_is_long_enough_to_mean_something() -> None:
    assert len(SERIES) >= 12
    tokens = [sum(count for key, count in values_of(name, Lane.FULL).counters.items() if key[0] == "generation_tokens")
              for name in SERIES]  # fmt: skip
    assert all(low <= high for low, high in pairwise(tokens))
    assert tokens[0] < tokens[-1]
