"""Why a pod would be chosen or passed over."""

import pytest

from collector.state import State
from exporter.picker.standing import Standing, as_text, standing
from tests.make import at, reading, state, target, values

A, B, C = (target(name) for name in "abc")


def fleet() -> State:
    core = state(A, B, C, target("elsewhere", "other"))
    core.absorb(reading(A, values(requests_waiting=0, requests_running=3, kv_cache_usage_max_ratio=0.2), at(0)))
    core.absorb(reading(B, values(requests_waiting=10, requests_running=1, kv_cache_usage_max_ratio=0.9), at(0)))
    return core


def of(core: State, one: object, seconds: float = 0) -> Standing:
    return standing(one, core.endpoints(at(seconds)))  # type: ignore[arg-type]


def test_the_best_is_chosen_and_the_reasons_are_told() -> None:
    core = fleet()
    best, worst = of(core, A), of(core, B)
    assert (best.place, best.of, best.total, best.best) == (1, 3, pytest.approx(2 + 2 * 0.8), 4.0)
    assert (worst.place, worst.total) == (2, pytest.approx(2 * 0.1))
    assert worst.why == ("queue-scorer 0: requests_waiting 10, in the pool 0 to 10",
                         "kv-cache-utilization-scorer 0.1: kv_cache_usage_max_ratio 0.9, in the pool 0.2 to 0.9")  # fmt: skip
    assert as_text(worst)[0][0] == "picker: would be passed over, place 2 of 3, 0.2 of 4 by its default weights"
    assert as_text(best)[0][0].startswith("picker: would be chosen")


def test_what_is_not_told_looks_best() -> None:
    core = fleet()
    core.absorb(reading(C, values(requests_waiting=0, requests_running=9), at(0), engine="tgi"))
    found = of(core, C)
    assert found.place == 1
    assert found.why[1] == "kv-cache-utilization-scorer 1: kv_cache_usage_max_ratio is not told, the picker takes 0"


def test_a_silent_pod_has_no_place() -> None:
    core = fleet()
    found = of(core, C)
    assert (found.place, found.total, found.scores) == (None, None, {})
    assert found.why[0].startswith("stale: no current values")
    assert of(core, target("nobody")).why[0].startswith("unknown: ")
    assert as_text(found)[0][0] == "picker: passed over, or chosen blindly"
    assert found.as_data()["of"] == 3
