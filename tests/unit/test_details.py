"""What servers say of themselves beside their metrics pages: asked politely, believed with care."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from collector.details import Details, ask, understand_details
from collector.model import Adapters, Target
from collector.read import Body
from collector.reasons import FailureReason, ReadError
from tests.make import at, pod_row, pool_row, reading, state, target, values

VLLM = {
    "/version": {"version": "0.32.0"},
    "/v1/models": {"object": "list", "data": [{"id": "base", "root": "/models/base", "parent": None},
                                              {"id": "a", "parent": "base"}, {"id": "b", "parent": "base"}]},
}  # fmt: skip
SGLANG = {
    "/v1/loads": {"version": "0.5.23", "loads": [{"dp_rank": 0, "num_running_reqs": 1, "max_running_requests": 48},
                                                 {"dp_rank": 1, "max_running_requests": 16}]},
    "/v1/models": {"data": [{"id": "base", "parent": None}]},
}  # fmt: skip
TGI = {"/info": {"version": "3.3.7", "max_concurrent_requests": 128, "model_id": "m"}}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (VLLM, Details("0.32.0", None, frozenset("ab"))), (SGLANG, Details("0.5.23", 64.0, frozenset())),
        (TGI, Details("3.3.7", 128.0, None, "m")), ({}, Details()),
    ],
)  # fmt: skip
def test_facts(answers: Mapping[str, Any], expected: Details) -> None:
    assert understand_details(answers) == expected


@pytest.mark.parametrize("odd", [
    None, [], "x", 7, {"version": 3}, {"loads": "x"}, {"loads": []}, {"loads": [1]}, {"max_concurrent_requests": "128"},
    {"max_concurrent_requests": True}, {"max_concurrent_requests": -1}, {"max_concurrent_requests": 1 << 40},
    {"loads": [{"max_running_requests": 1}, {}]},
    {"model_id": 7}, {"model_id": ["m"]}, {"data": {}}, {"data": [1, {"parent": "p"}, {"id": 3, "parent": "p"}]},
])  # fmt: skip
@pytest.mark.parametrize("path", ["/version", "/v1/loads", "/info", "/v1/models"])
def test_answers_of_another_shape_say_nothing(path: str, odd: Any) -> None:
    told = understand_details({path: odd})
    assert (told.version, told.requests_max) == ("", None)
    assert not told.adapters_loaded


class Server:
    """Answers by path; what it does not have it refuses."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        self.pages = pages
        self.asked: list[str] = []

    async def __call__(self, where: Target, path: str = "") -> Body:
        self.asked.append(path)
        if path not in self.pages:
            raise ReadError(FailureReason.UNAUTHORIZED, "HTTP status 401")
        page = self.pages[path]
        return Body(page if isinstance(page, bytes) else json.dumps(page).encode(), "application/json")


@pytest.mark.parametrize(
    ("engine", "paths"), [("vllm", ["/version", "/v1/models"]), ("sglang", ["/v1/loads", "/v1/models"]), ("tgi", ["/info"])]
)
async def test_each_engine_is_asked_its_own_paths(engine: str, paths: list[str]) -> None:
    server = Server({**VLLM, **SGLANG, **TGI})
    told = await ask(target(), engine, server)
    assert server.asked == paths
    assert told is not None
    assert told.version


async def test_an_unknown_engine_is_asked_nothing() -> None:
    server = Server(VLLM)
    assert await ask(target(), "other", server) is None
    assert server.asked == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000, b"\xff\xfe", b'{"version": "' + b"x" * (1 << 18) + b'"}'])
async def test_a_bad_answer_costs_only_itself(body: bytes) -> None:
    told = await ask(target(), "vllm", Server({"/version": body, "/v1/models": VLLM["/v1/models"]}))
    assert told == Details("", None, frozenset("ab"))


async def test_a_guarded_path_leaves_the_rest() -> None:
    assert await ask(target(), "vllm", Server({"/version": VLLM["/version"]})) == Details("0.32.0", None, None)
    assert await ask(target(), "vllm", Server({})) is None


def test_details_show_in_info_limits_and_adapters() -> None:
    one, other = target("a"), target("b")
    core = state(one, other)
    for pod in (one, other):
        page = values(adapters=Adapters(frozenset({"a"}), None, 2), progress=1.0, requests_running=1.0)
        core.absorb(reading(pod, page, at(0)))
    core.note_details(one.key, Details("0.32.0", 48.0, frozenset("ab")))
    core.note_details(other.key, Details("0.32.0", 16.0, frozenset("bc")))
    core.note_details("gone", Details("1", 1.0, None))
    cut = core.snapshot(at(0))
    assert pod_row(cut, "a").info["version"] == "0.32.0"
    assert (pod_row(cut, "a").gauges["requests_max", ""], pool_row(cut).gauges["requests_max", ""]) == (48, 64)
    assert (pod_row(cut, "a").gauges["adapters_loaded", ""], pool_row(cut).gauges["adapters_loaded", ""]) == (2, 3)
    assert cut.cluster.gauges["requests_max", ""] == 64


def test_what_was_not_asked_is_absent() -> None:
    core = state(target("a"))
    core.absorb(reading(target("a"), values(progress=1.0, requests_running=1.0), at(0)))
    cut = core.snapshot(at(0))
    assert {("requests_max", ""), ("adapters_loaded", "")}.isdisjoint(pod_row(cut, "a").gauges)
    assert pod_row(cut, "a").info["version"] == ""
