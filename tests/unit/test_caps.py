"""What clients can make grow is bounded, and the exporter says when the bound bit."""

from collector.caps import OTHER, FirstOnes
from collector.model import Adapters
from collector.reasons import DiscardReason
from collector.state import MOST_ADAPTER_NAMES
from collector.totals import _MOST_LADDERS
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.prometheus import Format, render
from tests.make import HandClock, at, observe, pool_row, reading, state, target, values

TTFT = "time_to_first_token_seconds"
POD = target()


def test_the_first_ones_keep_their_names_for_ever() -> None:
    names = FirstOnes(2)
    names.admit(["a", "b", "c"])
    names.admit(["c", "d", "a"])
    assert [names.shown(name) for name in "abcd"] == ["a", "b", OTHER, OTHER]
    assert names.refused == 3
    assert FirstOnes(0).shown("a") == OTHER


def page(*names: str):  # type: ignore[no-untyped-def]
    return values(adapters=Adapters(frozenset(names), None, 4), progress=1.0, requests_running=1.0)


def pods_by_adapter(core, seconds: float) -> dict[str, float]:  # type: ignore[no-untyped-def]
    gauges = pool_row(core.snapshot(at(seconds))).gauges
    return {child: value for (signal, child), value in gauges.items() if signal == "adapter_pods"}


def test_adapter_names_beyond_the_cap_are_shown_as_other() -> None:
    core = state(POD, target("p1"))
    core.absorb(reading(POD, page("first"), at(0)))
    for number in range(0, 400, 4):
        core.absorb(reading(POD, page(*(f"a{number + step:03d}" for step in range(4))), at(number / 100)))
    core.absorb(reading(POD, page("first", "x", "y"), at(5)))
    core.absorb(reading(target("p1"), page("first"), at(5)))
    assert core.adapter_names.refused > 0
    assert pods_by_adapter(core, 5) == {"first": 2, OTHER: 2}
    assert len({core.adapter_names.shown(f"a{number:03d}") for number in range(400)}) == MOST_ADAPTER_NAMES


def test_an_adapter_without_work_has_no_series() -> None:
    core = state(POD)
    core.absorb(reading(POD, page("a"), at(0)))
    assert pods_by_adapter(core, 0) == {"a": 1}
    core.absorb(reading(POD, page(), at(1)))
    assert pods_by_adapter(core, 1) == {}
    core.absorb(reading(POD, page("a"), at(2)))
    assert pods_by_adapter(core, 60) == {}  # silent by now


def test_a_hostile_name_is_one_label() -> None:
    core = state(POD)
    core.absorb(reading(POD, page('a|b"\n'), at(0)))
    text, _ = render(core.snapshot(at(0)), Format.TEXT, max_pods=9)
    assert 'llm_pool_adapter_pods{cluster="test",namespace="serving",pool="chat",adapter="a|b\\"\\n"} 1\n' in text


def test_the_self_metric_says_when_it_bit() -> None:
    clock = HandClock()
    hub = Hub(parse_config("cluster: c\nstatic_targets: [{pool: p, urls: ['http://h:1']}]"), clock)
    [track] = hub.state.tracks.values()
    hub.take(reading(track.target, page(*(f"a{number}" for number in range(MOST_ADAPTER_NAMES))), clock.now()))
    assert '\nllm_exporter_label_values_capped_total{label="adapter"} 0.0\n' in hub.own.render(Format.TEXT)
    hub.take(reading(track.target, page("one", "two"), clock.move(1)))
    assert '\nllm_exporter_label_values_capped_total{label="adapter"} 2.0\n' in hub.own.render(Format.TEXT)


def test_ladders_beyond_the_cap_are_left_out_and_told() -> None:
    """Each ladder costs memory for ever: an engine that invents bounds cannot fill it."""
    pods = [target(f"p{number}") for number in range(_MOST_LADDERS + 4)]
    core = state(*pods)
    for step in (0, 1):
        for number, pod in enumerate(pods):
            told = values(None, {TTFT: observe((0.5, 2.0 + number), [1.0] * 3 * step)}, progress=1.0)
            core.absorb(reading(pod, told, at(step)))
    assert len(core.totals.ladders[TTFT]) == _MOST_LADDERS
    assert pool_row(core.snapshot(at(1))).histograms[TTFT].cumulative[-1] == 3 * _MOST_LADDERS
    assert core.tally.discarded[TTFT, DiscardReason.LADDER_CAP] == 3 * 4
