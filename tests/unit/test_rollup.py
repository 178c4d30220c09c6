"""Gauges upward, the load formulas, and what takes part in them."""

import pytest

from collector.rollup import Part, combine, finish, part_of, parts_of, without_means
from collector.scoring import Full, imbalance, load, saturation

FULL = Full()
USAGE, TOP, SIZE = "kv_cache_usage_ratio", "kv_cache_usage_max_ratio", "kv_cache_capacity_tokens"


def roll(*pods: dict[str, float]) -> dict[str, float]:
    return finish(combine(map(parts_of, pods)))


def test_counts_add_up() -> None:
    assert roll({"requests_running": 3.0, "requests_waiting": 1.0}, {"requests_running": 4.0}) == {
        "requests_running": 7.0, "requests_waiting": 1.0,
    }  # fmt: skip


def test_nothing_is_nothing() -> None:
    assert roll() == {}
    assert combine([]) == {}


def test_usage_is_weighted_by_capacity() -> None:
    """(0.9 * 1000 + 0.1 * 3000) / 4000 = 0.3; the plain mean would be 0.5."""
    values = roll({USAGE: 0.9, TOP: 0.95, SIZE: 1000.0}, {USAGE: 0.1, TOP: 0.1, SIZE: 3000.0})
    assert values[USAGE] == pytest.approx(0.3, abs=1e-15)
    assert values[TOP] == 0.95
    assert values[SIZE] == 4000.0


@pytest.mark.parametrize("size", [None, 0.0])
def test_usage_is_a_plain_mean_where_one_part_does_not_tell_its_size(size: float | None) -> None:
    other = {USAGE: 0.1} | ({} if size is None else {SIZE: size})
    assert roll({USAGE: 0.9, SIZE: 1000.0}, other)[USAGE] == pytest.approx(0.5, abs=1e-15)


def test_one_value_comes_back_as_it_was() -> None:
    assert roll({USAGE: 0.1, SIZE: 777.0}) == {USAGE: 0.1, SIZE: 777.0}
    assert roll({USAGE: 1e-5, TOP: 1e-5}) == {USAGE: 1e-5, TOP: 1e-5}


def test_absent_values_take_no_part_in_a_mean() -> None:
    assert roll({USAGE: 0.6}, {"requests_running": 1.0})[USAGE] == 0.6


def test_maximum_of_zero_is_zero() -> None:
    assert roll({TOP: 0.0})[TOP] == 0.0


def test_many_parts_are_weighted_as_few_are() -> None:
    """Three hundred pods: (300 * 0.2 * 1 + 300 * 0.8 * 3) / (300 * 4)."""
    pods = [{USAGE: 0.2, SIZE: 1000.0}, {USAGE: 0.8, SIZE: 3000.0}] * 300
    assert roll(*pods)[USAGE] == pytest.approx(0.65, abs=1e-12)


def test_a_part_of_no_known_size_has_no_weight_at_all() -> None:
    """Parts travel between exporters and are added there: each number of them counts."""
    fixed = part_of(0.25).total
    assert part_of(0.25) == part_of(0.25, 0.0) == Part(n=1, total=fixed, weighted=0, weight=0, n_weighted=0, top=fixed)
    assert part_of(0.25, 8.0) == Part(n=1, total=fixed, weighted=8 * fixed, weight=8, n_weighted=1, top=fixed)


def test_only_the_use_of_the_cache_is_weighted_by_its_size() -> None:
    length = "speculative_accept_length_tokens"
    values = roll({length: 2.0, SIZE: 1000.0}, {length: 4.0, SIZE: 3000.0})
    assert values[length] == 3.0


def test_parts_add_up_field_by_field_in_any_grouping() -> None:
    parts = [{USAGE: part_of(value, weight)} for value, weight in ((0.4, 100.0), (0.9, None), (0.0, 7.0))]
    whole = combine(parts)
    assert whole == combine([combine(parts[:2]), parts[2]]) == combine([parts[0], combine(parts[1:])])
    assert whole[USAGE] == Part(
        n=3, total=sum(part[USAGE].total for part in parts), weighted=100 * part_of(0.4).total, weight=107, n_weighted=2,
        top=part_of(0.9).total,
    )  # fmt: skip


def test_means_can_be_left_out_while_sums_and_maxima_stay() -> None:
    parts = parts_of({USAGE: 0.0, TOP: 0.0, "requests_running": 2.0})
    assert finish(without_means(parts)) == {TOP: 0.0, "requests_running": 2.0}


@pytest.mark.parametrize(
    ("gauges", "expected"),
    [
        ({"requests_waiting": 5.0}, 1.0),
        ({USAGE: 0.4}, 0.5),
        ({"requests_waiting": 10.0, USAGE: 0.4}, 2.0),
        ({"requests_waiting": 1.0, USAGE: 0.8}, 1.0),
        ({"requests_waiting": 0.0, USAGE: 0.0}, 0.0),
        ({"requests_running": 9.0}, None),
        ({}, None),
    ],
)
def test_saturation_is_the_worse_signal(gauges: dict[str, float], expected: float | None) -> None:
    assert saturation(gauges, FULL) == (None if expected is None else pytest.approx(expected))


def test_saturation_follows_its_settings() -> None:
    assert saturation({"requests_waiting": 5.0, USAGE: 0.5}, Full(requests_waiting=10.0, kv_cache_usage=0.5)) == 1.0


@pytest.mark.parametrize(
    ("loads", "expected"),
    [([4.0, 4.0], 1.0), ([8.0, 0.0], 2.0), ([6.0, 2.0, 1.0], 2.0), ([0.0, 0.0], None), ([], None), ([3.0], 1.0)],
)
def test_imbalance(loads: list[float], expected: float | None) -> None:
    assert imbalance(loads) == expected


def test_load_needs_both_numbers() -> None:
    assert load({"requests_running": 2.0, "requests_waiting": 3.0}) == 5.0
    assert load({"requests_running": 2.0}) is None
    assert load({"requests_waiting": 2.0}) is None
