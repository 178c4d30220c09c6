"""The endpoint picker's feed, field by field, and its editions."""

import json
from dataclasses import replace
from typing import Any

import pytest

from collector.model import Adapters, Values
from collector.signals import Lane
from collector.state import State
from exporter.publish.picker import FILTERS, LOAD, Edition, UnknownFilter, entry, select
from tests.make import WALL, at, counts, failure, reading, state, target, values

POD = target("p0", url="http://10.0.0.1:8000/metrics")
FIELDS = ["cluster", "namespace", "pool", "pod", "address", "engine", "model", "state", "sampled_at", "age_seconds",
          "requests_running", "requests_waiting", "kv_cache_usage_ratio", "prefix_cache_hit_ratio", "adapters"]  # fmt: skip


def page(tokens: int = 0, **more: Any) -> Values:
    given: dict[str, Any] = {
        "adapters": Adapters(frozenset({"b", "a"}), frozenset({"c"}), 4), "progress": 5.0, "model": "llama",
        "requests_running": 3.0, "requests_waiting": 1.0, "kv_cache_usage_ratio": 0.5, "kv_cache_usage_max_ratio": 0.75,
    }  # fmt: skip
    return values(counts(prefix_cache_query_tokens=4 * tokens, prefix_cache_hit_tokens=tokens), **{**given, **more})


def feed(core: State, seconds: float) -> list[dict[str, Any]]:
    return [entry(core.cluster, one) for one in core.endpoints(at(seconds))]


def only(core: State, seconds: float) -> dict[str, Any]:
    (one,) = feed(core, seconds)
    return one


def test_every_field_by_hand() -> None:
    core = state(POD)
    core.absorb(reading(POD, page(0), at(0)))
    core.absorb(reading(POD, page(10), at(1)))
    one = only(core, 1.5)
    assert list(one) == FIELDS
    assert one == {
        "cluster": "test", "namespace": "serving", "pool": "chat", "pod": "p0", "address": "10.0.0.1:8000", "engine": "vllm",
        "model": "llama", "state": "fresh", "sampled_at": WALL + 1, "age_seconds": 0.5, "requests_running": 3,
        "requests_waiting": 1, "kv_cache_usage_ratio": 0.75, "prefix_cache_hit_ratio": 0.25,
        "adapters": {"running": ["a", "b"], "waiting": ["c"], "max": 4},
    }  # fmt: skip
    assert type(one["requests_running"]) is type(one["requests_waiting"]) is int
    assert json.loads(json.dumps(one)) == one


def test_a_target_never_read_is_all_unknown() -> None:
    core = state(POD)
    one = only(core, 5)
    assert one["state"] == "stale"
    assert {name for name, value in one.items() if value is None} == {
        "engine", "model", "sampled_at", "age_seconds", "adapters", *LOAD,
    }  # fmt: skip


def test_what_an_engine_does_not_tell_is_null_never_zero() -> None:
    core = state(POD)
    core.absorb(reading(POD, values(progress=1.0, requests_running=0.0), at(0), engine="tgi"))
    one = only(core, 0)
    assert one["state"] == "fresh"
    assert one["requests_running"] == 0
    for name in ("requests_waiting", "kv_cache_usage_ratio", "prefix_cache_hit_ratio", "adapters", "model"):
        assert one[name] is None


def test_a_declared_model_and_engine_are_known_before_the_first_page() -> None:
    core = state(replace(POD, model="declared", engine="tgi"))
    one = only(core, 0)
    assert (one["model"], one["engine"]) == ("declared", "tgi")


@pytest.mark.parametrize(
    ("adapters", "expected"),
    [
        (None, None),
        (Adapters(), None),
        (Adapters(max=8), None),
        (Adapters(frozenset(), frozenset()), {"running": [], "waiting": [], "max": None}),
        (Adapters(frozenset({"z", "m"}), None, 2), {"running": ["m", "z"], "waiting": None, "max": 2}),
    ],
)
def test_adapters(adapters: Adapters | None, expected: dict[str, Any] | None) -> None:
    core = state(POD)
    core.absorb(reading(POD, page(adapters=adapters), at(0)))
    assert only(core, 0)["adapters"] == expected


def carries(one: dict[str, Any]) -> bool:
    return one["requests_running"] is not None


def test_states_that_carry_values_and_states_that_do_not() -> None:
    """A29, A31: suspect pods are shown with their values, silent ones without."""
    core = state(POD)
    core.absorb(reading(POD, page(progress=0.0), at(0)))
    assert (only(core, 0)["state"], carries(only(core, 0))) == ("warming", True)
    for second in (1, 31):
        core.absorb(reading(POD, page(), at(second)))
    assert (only(core, 31)["state"], carries(only(core, 31))) == ("no_progress", True)
    core.absorb(failure(POD, at(32)))
    assert (only(core, 34)["state"], carries(only(core, 34))) == ("no_progress", True)
    for seconds, name in ((34.5, "stale"), (46.5, "down")):
        one = only(core, seconds)
        assert one["state"] == name
        assert [one[field] for field in (*LOAD, "adapters")] == [None] * 5
        assert (one["engine"], one["model"], one["sampled_at"]) == ("vllm", "llama", WALL + 31)
    core.absorb(reading(POD, page(), at(47)))
    core.watch([replace(POD, terminating=True)], at(47))
    one = only(core, 47)
    assert (one["state"], carries(one)) == ("terminating", False)


def test_the_feed_lists_targets_not_pods() -> None:
    ports = [target("p0", uid="u", url=f"http://10.0.0.1:{port}/metrics") for port in (8000, 8001)]
    core = state(*ports)
    core.absorb(reading(ports[1], page(), at(0)))
    assert [(one["address"], one["state"]) for one in feed(core, 0)] == [("10.0.0.1:8000", "stale"), ("10.0.0.1:8001", "fresh")]


def test_the_feed_is_as_fresh_as_the_fast_lane() -> None:
    core = state(POD)
    core.absorb(reading(POD, page(), at(0)))
    core.absorb(reading(POD, page(requests_running=9.0), at(1), lane=Lane.FAST))
    assert only(core, 1)["requests_running"] == 9
    assert only(core, 1)["age_seconds"] == 0.0


def test_the_feed_and_the_snapshot_agree() -> None:
    core = state(POD, target("p1"))
    core.absorb(reading(POD, page(), at(0)))
    assert [entry("test", one) for one in core.snapshot(at(1)).endpoints] == feed(core, 1)


# ---- filters


def fleet() -> list[dict[str, Any]]:
    pods = [target("a", "chat"), target("b", "chat"), target("c", "code"), target("d", "chat", namespace="lab")]
    core = state(*pods)
    core.absorb(reading(pods[0], page(), at(0)))
    core.absorb(failure(pods[2], at(0)))
    return feed(core, 0)


@pytest.mark.parametrize(
    ("query", "pods"),
    [
        ([], "abcd"),
        ([("pool", "chat")], "abd"),
        ([("pool", "chat"), ("pool", "code")], "abcd"),
        ([("pool", "chat"), ("namespace", "serving")], "ab"),
        ([("state", "fresh")], "a"),
        ([("state", "fresh"), ("state", "down")], "ac"),
        ([("state", "no_progress")], ""),
        ([("namespace", "lab"), ("state", "fresh")], ""),
    ],
)
def test_filters(query: list[tuple[str, str]], pods: str) -> None:
    """Values of one parameter mean or, parameters mean and."""
    assert "".join(sorted(one["pod"] for one in select(fleet(), query))) == pods


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([("pod", "a")], "unknown parameter 'pod'; known: namespace, pool, state"),
        ([("pool", "chatt")], "unknown pool 'chatt'; known: chat, code"),
        ([("pool", "chat"), ("pool", "nope")], "unknown pool 'nope'"),
        ([("namespace", "")], "unknown namespace ''"),
        ([("state", "FRESH")], "unknown state 'FRESH'; known: down, fresh, no_progress, stale, terminating, warming"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(query: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(UnknownFilter) as caught:
        select(fleet(), query)
    assert message in str(caught.value)


def test_filters_are_those_of_the_contract() -> None:
    assert FILTERS == ("namespace", "pool", "state")


def test_with_no_target_any_pool_is_unknown() -> None:
    with pytest.raises(UnknownFilter, match="known: none"):
        select([], [("pool", "chat")])
    assert select([], [("state", "fresh")]) == []


# ---- editions


def test_time_alone_makes_no_edition() -> None:
    core = state(POD)
    core.absorb(reading(POD, page(), at(0)))
    edition = Edition()
    first = edition.of(feed(core, 0))
    assert edition.of(feed(core, 2.9)) == first
    core.absorb(reading(POD, page(), at(3)))
    assert edition.of(feed(core, 3)) == first


@pytest.mark.parametrize(
    "changed",
    [
        page(requests_running=4.0), page(requests_waiting=0.0), page(kv_cache_usage_max_ratio=0.76), page(adapters=None),
        page(adapters=Adapters(frozenset({"b"}), frozenset({"c"}), 4)), page(model="other"), page(tokens=4),
    ],
    ids=["running", "waiting", "kv", "no adapters", "adapters", "model", "hits"],
)  # fmt: skip
def test_any_value_makes_an_edition(changed: Values) -> None:
    core = state(POD)
    core.absorb(reading(POD, page(), at(0)))
    edition = Edition()
    first = edition.of(feed(core, 0))
    core.absorb(reading(POD, changed, at(1)))
    assert edition.of(feed(core, 1)) > first


def test_a_state_that_turns_by_itself_makes_an_edition() -> None:
    core = state(POD)
    core.absorb(reading(POD, page(), at(0)))
    edition = Edition()
    first = edition.of(feed(core, 0))
    assert edition.of(feed(core, 3.5)) > first


def test_joining_and_leaving_make_editions() -> None:
    core = state(POD)
    edition = Edition()
    numbers = [edition.of(feed(core, 0))]
    core.watch([POD, target("p1")], at(1))
    numbers.append(edition.of(feed(core, 1)))
    core.watch([], at(2))
    numbers.append(edition.of(feed(core, 2)))
    assert numbers == sorted(set(numbers))


def test_an_edition_is_never_given_twice() -> None:
    """Back to the same values is a new edition: who slept through the change must not take it for the one he knows."""
    core = state(POD)
    edition = Edition()
    numbers = []
    for second, running in enumerate((1.0, 2.0, 1.0, 2.0)):
        core.absorb(reading(POD, page(requests_running=running), at(second)))
        numbers.append(edition.of(feed(core, second)))
    assert numbers == sorted(set(numbers))


def test_editions_of_another_process_begin_elsewhere() -> None:
    """A picker that holds the tag of the process before must not be told that nothing changed."""
    core = state(POD)
    before, after = Edition(first=1_000), Edition(first=2_000)
    assert before.of(feed(core, 0)) != after.of(feed(core, 0))
