"""A17: several servers behind one address take turns in answering. Told from restarts, which do look alike for one page."""

from collections.abc import Sequence
from itertools import accumulate

import pytest

from collector.reasons import DiscardReason
from collector.state import State
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.prometheus import Format
from tests.make import WALL, HandClock, at, counts, reading, state, target, values

POD = target()


def follow(tokens: Sequence[int], starts: Sequence[float | None] | None = None, every: float = 2.0) -> State:
    core = state(POD, when=at(-1))
    for step, now in enumerate(tokens):
        started = None if starts is None or starts[step] is None else WALL + starts[step]  # type: ignore[operator]
        page = values(counts(generation_tokens=now, prompt_tokens=5 * now, requests={"stop": now // 10}), started_at=started,
                      progress=float(now), requests_running=1.0)  # fmt: skip
        core.absorb(reading(POD, page, at(step * every)))
    return core


def published(core: State) -> int:
    return core.totals.counters.get(("generation_tokens", ""), 0)


def flagged(core: State, now: float) -> bool:
    [track] = core.tracks.values()
    return track.unstable_until > at(now).mono


TURNS = [value for low, high in zip(range(100, 250, 5), range(900, 1050, 5), strict=True) for value in (low, high)]


def test_a17_servers_that_take_turns_are_flagged_and_not_counted() -> None:
    """100, 900, 105, 905, ...: the first rise and the first fall could be a busy server and a restart; from then on nothing."""
    core = follow(TURNS)
    assert flagged(core, 2.0 * len(TURNS) - 2)
    assert published(core) == (900 - 100) + 105
    assert core.tally.discarded["generation_tokens", DiscardReason.UNSTABLE] > 0
    shorter = follow(TURNS[:6])
    assert published(shorter) == published(core)


def test_a17_the_order_of_the_servers_does_not_matter() -> None:
    core = follow(TURNS[1:])
    assert flagged(core, 2.0 * len(TURNS) - 4)
    assert published(core) == 105


def test_a17_start_times_tell_at_once() -> None:
    core = follow(TURNS, [(-500.0, -400.0)[step % 2] for step in range(len(TURNS))])
    assert flagged(core, 2.0 * len(TURNS) - 2)
    assert published(core) == 0


def test_a17_three_servers_of_which_any_may_answer() -> None:
    turns = [value for step in range(20) for value in (100 + step, 400 + step, 900 + step)]
    core = follow(turns)
    assert flagged(core, 2.0 * len(turns) - 2)
    assert published(core) <= 900 + 900  # the first round; no round after it
    assert published(follow(turns[:9])) == published(core)


def test_a17_servers_of_like_size_are_told_at_the_second_turn() -> None:
    """600 and 900: a server that grew from 605 to 905 within one look is thinkable once, not twice within a minute."""
    turns = [value for step in range(0, 100, 5) for value in (600 + step, 900 + step)]
    core = follow(turns)
    assert flagged(core, 2.0 * len(turns) - 2)
    assert published(follow(turns[:8])) == published(core)


def test_a17_counters_that_fall_by_turns_are_told_too() -> None:
    """One server has more prompts, the other more output: no page falls as a whole."""
    core = state(POD, when=at(-1))
    for step in range(30):
        high, low = 9000 + step, 1000 + step
        tokens = {
            "prompt_tokens": high,
            "generation_tokens": low,
            "preemptions": 7 + step,
            "prefix_cache_query_tokens": 50 + step,
        }
        if step % 2:
            tokens |= {"prompt_tokens": low, "generation_tokens": high}
        core.absorb(reading(POD, values(counts(**tokens), progress=1.0), at(2.0 * step)))
    assert flagged(core, 58.0)
    assert core.totals.counters["prompt_tokens", ""] <= 1000 + 9000


def test_a17_a_minute_after_the_last_turn_counting_goes_on() -> None:
    turns = TURNS[:6]
    core = follow(turns)
    before = published(core)
    for step in range(40):
        now = 905 + 10 * step
        core.absorb(reading(POD, values(counts(generation_tokens=now, prompt_tokens=5 * now), progress=1.0), at(12 + 2.0 * step)))
    assert not flagged(core, 90)
    assert before < published(core) < before + 10 * 40


@pytest.mark.parametrize("tell", [True, False])
def test_a_restart_is_no_turn(tell: bool) -> None:
    """A server that dies at 5,000 and serves as fast again: through its old height within the minute, and on."""
    life = list(accumulate([700] * 30))
    starts = None if not tell else [-900.0] * 8 + [14.5] * 30
    core = follow([*accumulate([700] * 8), *life], starts)
    assert not flagged(core, 0.0)
    assert published(core) == 7 * 700 + 30 * 700
    assert not any(reason is DiscardReason.UNSTABLE for _, reason in core.tally.discarded)


def test_two_restarts_minutes_apart_are_none_either() -> None:
    life = [*accumulate([40] * 45)]
    core = follow(life * 3)
    assert published(core) == 44 * 40 + 2 * 45 * 40
    assert not flagged(core, 0.0)


def test_a_restart_of_an_engine_with_a_late_clock_is_no_turn() -> None:
    """Its clock is a minute behind ours: the new start seems older than our last look, but its counters began anew."""
    core = follow([1000, 1100, 50, 90, 130], [-900.0, -900.0, -57.0, -57.0, -57.0])
    assert published(core) == 100 + 50 + 80
    assert not flagged(core, 8.0)


def test_small_counts_prove_nothing() -> None:
    """A server that had served a handful, restarted and served a handful more."""
    core = state(POD, when=at(-1))
    for step, now in enumerate((3, 0, 8, 9)):
        core.absorb(reading(POD, values(counts(preemptions=now), progress=1.0), at(2.0 * step)))
    assert not flagged(core, 6.0)
    assert core.totals.counters["preemptions", ""] == 9


def test_the_exporter_tells_how_many_targets_are_unstable() -> None:
    clock = HandClock()
    hub = Hub(parse_config("cluster: c\nstatic_targets: [{pool: p, urls: ['http://h:1', 'http://h:2']}]"), clock)
    first = next(iter(hub.state.tracks.values())).target
    for tokens in TURNS[:6]:
        hub.take(reading(first, values(counts(generation_tokens=tokens), progress=1.0), clock.move(2)))
    page = hub.own.render(Format.TEXT)
    assert "\nllm_exporter_unstable_targets 1.0\n" in page
    assert 'llm_exporter_increase_discarded_total{reason="unstable",signal="generation_tokens"}' in page
    clock.move(61)
    assert "\nllm_exporter_unstable_targets 0.0\n" in hub.own.render(Format.TEXT)
