"""What an engine does not tell: known from the engines themselves, said where nothing else is to be seen."""

import runpy
from pathlib import Path

import pytest

from collector.engines import ENGINES
from collector.engines.telling import tells
from collector.signals import SIGNALS, Fold
from dashboards.boards import BOARDS
from dashboards.draw import drawn
from dashboards.lacks import TITLES, lacking
from dashboards.model import Panel, Query

DOCS = runpy.run_path(str(Path(__file__).parents[2] / "docs/generate.py"))


def panel(*expressions: str) -> Panel:
    return Panel("t", "d", "a", queries=tuple(Query(one) for one in expressions))


def test_every_engine_has_a_name_for_people():
    assert TITLES.keys() == ENGINES.keys()


@pytest.mark.parametrize("name", [row.name for row in SIGNALS.values() if row.fold not in (Fold.RATIO, Fold.DERIVED)])
def test_boards_and_the_list_of_metrics_agree_on_who_tells_what(name):
    for engine in ENGINES.values():
        assert tells(engine, name) == (DOCS["source"](engine, name) != DOCS["_NO_SOURCE"]), (engine.name, name)


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (["llm_pool_kv_cache_usage_ratio"], ("tgi",)),
        (["llm_pool_kv_cache_usage_max_ratio{pool='a'}"], ("tgi",)),
        (["llm_pool_kv_cache_usage_ratio", "llm_pool_requests_running"], ()),
        (["rate(llm_pool_time_to_first_token_seconds_bucket[5m])"], ("tgi",)),
        (["llm_pool_kv_cache_reserved_ratio"], ("vllm", "sglang")),
        (['rate(llm_pool_requests_total{outcome="error"}[5m]) / rate(llm_pool_requests_total[5m])'], ()),
        (['rate(llm_pod_requests_total{outcome="error"}[5m])'], ("sglang",)),
        (["llm_pool_requests_max"], ("vllm",)),
        (["llm_pod_process_start_timestamp_seconds"], ("sglang", "tgi")),
        (["llm_exporter_targets"], ()),
        (["up"], ()),
        ([], ()),
    ],
)
def test_an_engine_lacks_a_panel_when_it_tells_nothing_of_it(expressions, expected):
    assert lacking(panel(*expressions)) == expected


def drawn_panels():
    for board in BOARDS:
        for one in drawn(board)["panels"]:
            yield from ((board.uid, inner) for inner in (one, *one.get("panels", ())))


def test_such_a_panel_says_so_in_words_and_on_lines_in_the_legend():
    seen = 0
    for uid, one in drawn_panels():
        marked = [target for target in one.get("targets", ()) if "not available from" in target["legendFormat"]]
        assert len(marked) <= 1
        if marked:
            seen += 1
            assert "Not available from" in one["description"], (uid, one["title"])
            assert one["type"] == "timeseries"
            assert marked[0]["expr"].endswith("* NaN")  # a name in the legend, no point in the graph
    assert seen > 10


def test_a_number_without_data_says_whose_it_is_not():
    found = {
        (uid, one["title"]): one["fieldConfig"]["defaults"]["noValue"] for uid, one in drawn_panels() if one["type"] == "stat"
    }
    assert found["llm-pod", "KV cache"] == "no data (not available from TGI)"
    assert found["llm-pod", "Errors"] == "no data (not available from SGLang)"
    assert found["llm-pool", "Requests"] == "no data"
