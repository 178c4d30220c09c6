"""The stream's events: all at first, then only what changed, a sign of life when it is due; and the schema of the data."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.model import Adapters, Target
from collector.state import State
from exporter.publish.picker import entry
from exporter.publish.stream import Story
from tests.make import at, failure, reading, state, target, values

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "picker.schema.json").read_text(encoding="utf-8"))
KINDS: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "object": dict, "array": list, "null": type(None)}


def faults(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    """What a value breaks of a schema, by the keywords that ours uses."""
    if "$ref" in schema:
        return faults(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{where}: {value!r}"]
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(isinstance(value, KINDS[kind]) for kind in kinds):
        return [f"{where}: {type(value).__name__}"]
    found: list[str] = []
    if isinstance(value, int | float):
        found += [where] if value < schema.get("minimum", value) or value > schema.get("maximum", value) else []
    if isinstance(value, dict):
        found += [f"{where}: no {name}" for name in schema["required"] if name not in value]
        found += [f"{where}: {name}" for name in value if name not in schema["properties"]]
        for name in value.keys() & schema["properties"].keys():
            found += faults(value[name], schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        for index, one in enumerate(value):
            found += faults(one, schema["items"], f"{where}[{index}]")
    return found


def entries(core: State, seconds: float) -> list[dict[str, Any]]:
    return [entry("test", one) for one in core.endpoints(at(seconds))]


def told(story: Story, core: State, seconds: float, *, alive: bool = False) -> tuple[str, dict[str, Any]] | None:
    raw = story.next(entries(core, seconds), number=7, now=seconds, alive=alive)
    if not raw:
        return None
    name, number, data, *rest = raw.decode().split("\n")
    assert number == "id: 7"
    assert rest == ["", ""]
    found = json.loads(data.removeprefix("data: "))
    assert faults(found, SCHEMA) == []
    return name.removeprefix("event: "), found


def two() -> tuple[State, Target, Target]:
    a, b = target("a"), target("b")
    core = state(a, b)
    for one in (a, b):
        core.absorb(reading(one, values(requests_running=1, requests_waiting=0), at(0)))
    return core, a, b


def test_first_all_then_changes_then_signs_of_life() -> None:
    core, a, _ = two()
    story = Story()
    first = told(story, core, 0)
    assert first is not None
    assert (first[0], [one["pod"] for one in first[1]["endpoints"]]) == ("endpoints", ["a", "b"])
    assert told(story, core, 1) is None, "time alone is no change"
    assert told(story, core, 1, alive=True) == ("alive", {"snapshot": 7, "now": 1})
    core.absorb(reading(a, values(requests_running=2, requests_waiting=0), at(2)))
    name, data = told(story, core, 2) or ("", {})
    assert (name, [one["pod"] for one in data["endpoints"]], data["removed"]) == ("changes", ["a"], [])
    core.watch([a], at(2))
    name, data = told(story, core, 2) or ("", {})
    assert (name, data["endpoints"]) == ("changes", [])
    assert data["removed"] == [{"namespace": "serving", "pool": "chat", "pod": "b", "address": "b:8000"}]


def test_a_state_that_turns_by_itself_is_a_change() -> None:
    core, *_ = two()
    story = Story()
    told(story, core, 0)
    name, data = told(story, core, 10) or ("", {})
    assert name == "changes"
    assert {one["state"] for one in data["endpoints"]} == {"stale"}


def test_a_reader_that_missed_something_gets_the_last_state_of_it() -> None:
    core, a, _ = two()
    slow = Story()
    told(slow, core, 0)
    for running in (2, 3, 4):
        core.absorb(reading(a, values(requests_running=running, requests_waiting=0), at(running)))
    name, data = told(slow, core, 4) or ("", {})
    assert (name, [one["requests_running"] for one in data["endpoints"] if one["pod"] == "a"]) == ("changes", [4])


def test_a_full_entry_and_an_empty_one_fit_the_schema() -> None:
    a, b = target("a"), target("b")
    core = state(a, b)
    full = values(requests_running=1, requests_waiting=2, kv_cache_usage_max_ratio=0.5, model="m",
                  adapters=Adapters(frozenset({"x"}), None, 4))  # fmt: skip
    core.absorb(reading(a, full, at(0)))
    core.absorb(failure(b, at(0)))
    assert faults({"snapshot": 1, "now": 2.5, "endpoints": entries(core, 1)}, SCHEMA) == []


@pytest.mark.parametrize("change", [{"state": "odd"}, {"requests_running": 1.5}, {"kv_cache_usage_ratio": 2}, {"more": 1}])
def test_the_schema_can_fail(change: dict[str, Any]) -> None:
    core, *_ = two()
    assert faults({"snapshot": 1, "now": 2.5, "endpoints": [{**entries(core, 0)[0], **change}]}, SCHEMA)
