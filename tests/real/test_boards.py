"""Every query of every board on real Prometheus, old and new, that reads the demo: no error, no complaint, no empty panel."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.naming import families, prometheus_name
from dashboards.boards import BOARDS
from tests.promql import parsed, selectors
from tests.real.choosing import chosen_all, chosen_one, escaped, listed, written
from tests.real.promapi import query
from tests.real.running import Running

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
Board = Mapping[str, Any]

NOT_IN_THE_DEMO = {
    "speculative_accept_length_tokens": "vLLM counts accepted tokens and states no length",
    "requests_swapped": "the demo's vLLM is one that does not swap any more",
    "external_prefix_cache_query_tokens": "nothing is cached outside the device",
    "kv_offload_load_bytes": "nothing is moved to host memory",
    "kv_offload_store_bytes": "nothing is moved to host memory",
    "adapters_waiting": "vLLM from 0.11.1 does not tell it apart",
    "disaggregation_queue_requests": "prefill and decode are not apart",
    "kv_transfer_seconds": "prefill and decode are not apart",
    "kv_transfer_bytes": "prefill and decode are not apart",
    "kv_transfer_failures": "prefill and decode are not apart",
    **{f"sink_{what}": "the demo pushes nothing" for what in (
        "batches", "failures", "points_sent", "points_rejected", "queued_batches", "last_success_timestamp_seconds")},
}  # fmt: skip
"""Signals that queries of boards may find nothing of, and why."""

LIKED = {"llm-adapters": {"namespace": "assistants"}}
USUAL = {"namespace": "serving", "model": "meta-llama/Llama-3.3-70B-Instruct", "pool": "llama-70b", "pod": "llama-70b-h100-0"}
SIGNAL_OF = {prometheus_name(row, level) + part: row.name for row, level in families() for part in ("", "_bucket", "_count")}
SILENT = {(board.uid, panel.title) for board in BOARDS for row in board.rows for panel in row.panels if panel.silent}


def targets(board: Board) -> Iterator[tuple[str, str]]:
    """Title and query of every target, folded rows included; word of what an engine does not tell is no data."""
    for panel in (inner for one in board["panels"] for inner in (one, *one.get("panels", ()))):
        for target in panel.get("targets", ()):
            if "not available from" not in target["legendFormat"]:
                yield panel["title"], target["expr"]


def words(board: Board) -> Iterator[tuple[str, str]]:
    """Title and query of what says that an engine does not tell."""
    for panel in (inner for one in board["panels"] for inner in (one, *one.get("panels", ()))):
        for target in panel.get("targets", ()):
            if "not available from" in target["legendFormat"]:
                yield panel["title"], target["expr"]


def everything_asked(board: Board) -> Iterator[str]:
    """Queries of panels, of what engines do not tell, and of marks."""
    yield from (expression for _, expression in (*targets(board), *words(board)))
    yield from (one["expr"] for one in board["annotations"]["list"])


class Asked:
    """Answers of one store, each query sent once; whatever is not a plain success fails."""

    def __init__(self, store: Running) -> None:
        self.store = store
        self.answers: dict[str, bool] = {}

    def finds(self, expression: str, chosen: Mapping[str, str]) -> bool:
        text = written(expression, chosen)
        assert "$" not in text, text
        if text not in self.answers:
            answer = query(self.store, text)
            assert answer["status"] == "success", (text, answer)
            assert not answer.get("warnings"), (text, answer["warnings"])
            assert not answer.get("infos"), (text, answer["infos"])
            self.answers[text] = bool(answer["data"]["result"])
        return self.answers[text]


@pytest.fixture(scope="module")
def asked(fed: Running) -> Asked:
    return Asked(fed)


def unfed(expression: str) -> bool:
    """Whether the query is about something that the demo has not."""
    names = {SIGNAL_OF.get(selector.name, "") for selector, _ in selectors(parsed(expression))}
    return bool(names & NOT_IN_THE_DEMO.keys())


def test_with_everything_chosen_every_query_finds_something(asked: Asked, boards: Mapping[str, Board]) -> None:
    empty = []
    for uid, board in boards.items():
        chosen = chosen_all(asked.store, board)
        for title, expression in targets(board):
            found = asked.finds(expression, chosen)
            if not found and not unfed(expression) and (uid, title) not in SILENT:
                empty.append((uid, title, expression))
        for expression in everything_asked(board):
            asked.finds(expression, chosen)
    assert not empty


def test_with_one_of_each_chosen_no_panel_is_empty(asked: Asked, boards: Mapping[str, Board]) -> None:
    empty = set()
    for uid, board in boards.items():
        chosen = chosen_one(asked.store, board, LIKED.get(uid, USUAL))
        full = {title for title, expression in (*targets(board), *words(board)) if asked.finds(expression, chosen)}
        empty |= {(uid, title) for title, expression in targets(board) if title not in full and not unfed(expression)}
    assert not sorted(empty - SILENT)


def test_each_choice_alone_is_understood(asked: Asked, boards: Mapping[str, Board]) -> None:
    """One value of one choice, everything else at All, for every value that is offered."""
    for board in boards.values():
        everything = chosen_all(asked.store, board)
        for variable in board["templating"]["list"]:
            if variable["type"] == "datasource":
                continue
            for value in listed(asked.store, variable, everything)[:3]:
                text = value if variable["type"] == "custom" else escaped(value)
                for _, expression in targets(board):
                    asked.finds(expression, {**everything, variable["name"]: text})


def test_every_name_and_label_that_is_asked_for_is_there(fed: Running, boards: Mapping[str, Board]) -> None:
    """Against what Prometheus really has of the demo, recorded series included."""
    have: dict[str, set[str]] = {}
    for one in fed.get("/api/v1/series", **{"match[]": '{__name__=~".+"}'}).json()["data"]:
        have.setdefault(one["__name__"], set()).update(one)
    have["ALERTS"] = have.get("ALERTS", set()) | {"cluster", "namespace", "pool", "pod", "alertstate"}  # while nothing fires
    for board in boards.values():
        for _, expression in targets(board):
            tree = parsed(expression)
            for selector, _ in selectors(tree):
                if SIGNAL_OF.get(selector.name) not in NOT_IN_THE_DEMO:
                    assert {one.name for one in selector.matchers.matchers} <= have[selector.name], expression


def test_every_family_of_the_demo_is_on_a_board_or_on_the_list(fed: Running, boards: Mapping[str, Board]) -> None:
    unshown = tomllib.loads((ROOT / "dashboards/unshown.toml").read_text(encoding="utf-8"))
    asked = {selector.name for board in boards.values() for expression in everything_asked(board)
             for selector, _ in selectors(parsed(expression))}  # fmt: skip
    spared = {prometheus_name(row, level) for row, level in families() if row.name in unshown.get(level, ())}
    spared |= {f"process_{name}" for name in unshown["process"]}
    names = set(fed.get("/api/v1/label/__name__/values", **{"match[]": '{job="llm-fleet"}'}).json()["data"])
    base = {re.sub("_(bucket|count|sum)$", "", name) for name in names if not name.startswith(("scrape_", "up"))}
    assert len(base) > 100
    assert not sorted(base - {re.sub("_(bucket|count|sum)$", "", name) for name in asked | spared})


def test_the_model_narrows_the_pools(fed: Running, boards: Mapping[str, Board]) -> None:
    board = boards["llm-pool"]
    pool = next(one for one in board["templating"]["list"] if one["name"] == "pool")
    everything = chosen_all(fed, board)
    assert len(listed(fed, pool, everything)) == 4
    assert listed(fed, pool, {**everything, "engine": "tgi"}) == ["mistral-24b"]


def test_an_engine_that_does_not_tell_is_named(fed: Running, boards: Mapping[str, Board]) -> None:
    """TGI says nothing of its KV cache: a line without points says so in the legend, and only for its pool."""
    board = boards["llm-pool"]
    panel = next(one for one in board["panels"] if one["title"] == "KV cache in use")
    marker = panel["targets"][-1]
    assert marker["legendFormat"] == "{{cluster}}/{{namespace}}/{{pool}}: not available from {{engine}}"
    found = query(fed, written(marker["expr"], chosen_all(fed, board)))["data"]["result"]
    assert [(one["metric"]["pool"], one["metric"]["engine"], one["value"][1]) for one in found] == [("mistral-24b", "tgi", "NaN")]


def test_what_the_demo_is_said_to_lack_it_lacks(fed: Running) -> None:
    shown = {SIGNAL_OF[name] for name in fed.get("/api/v1/label/__name__/values").json()["data"] if name in SIGNAL_OF}
    assert not shown & NOT_IN_THE_DEMO.keys() - {"external_prefix_cache_query_tokens"}
