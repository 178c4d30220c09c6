"""A held state is one moment for ever, whatever the loop takes in meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from collector.cut import cut
from collector.model import Adapters, Reading
from collector.state import State
from tests.make import at, counts, failure, raw, reading, state, target, values

POD, OTHER = target("p0"), target("p1")
TTFT = "time_to_first_token_seconds"


def look(seconds: float, n: int) -> Reading:
    seen = values(
        counts(prefix_cache_hit_tokens=n, prefix_cache_query_tokens=2 * n, requests={"stop": n}),
        {TTFT: raw((0.1, 1.0), (n, n, 0))},
        progress=float(n), adapters=Adapters(running=frozenset({f"a{n}"})), requests_running=float(n),
    )  # fmt: skip
    return reading(POD, seen, at(seconds))


CHANGES: list[Callable[[State], object]] = [
    lambda core: core.absorb(look(3, 50)),
    lambda core: core.absorb(failure(POD, at(3))),
    lambda core: core.watch([OTHER], at(3)),
    lambda core: core.watch([replace(POD, model="other", terminating=True)], at(3)),
    lambda core: setattr(core, "cluster", "renamed"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_comes_later_does_not_change_it(change: Callable[[State], object]) -> None:
    core = state(POD)
    core.absorb(look(0, 10))
    core.absorb(look(2, 30))
    held = core.held(at(2.5))
    before = cut(held)
    change(core)
    assert cut(held) == before
    assert core.snapshot(at(3)) != before
