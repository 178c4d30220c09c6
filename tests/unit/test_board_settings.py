"""Boards follow what users set for the rules: the same file, the same bounds, shares and limits."""

import json
import re

import pytest
from click.testing import CliRunner

from alerts.model import records_of
from alerts.rules import groups
from alerts.settings import parse_settings
from dashboards.boards import boards
from dashboards.draw import drawn
from exporter.cli import main
from tests.promql import parsed, selectors

WHOLE = """
objectives:
  ttft: {bound: 250ms, objective: 0.95}
  itl: off
  e2e: {bound: 30s}
engines: [vllm]
budget_window: 7d
windows:
  - {long: 2h, short: 10m, factor: 9, severity: critical, for: 1m}
  - {long: 1d, short: 2h, factor: 2}
thresholds: {stale_seconds: 60, saturation_ratio: 1.5, reporting_ratio: 1, kv_cache_ratio: 0.99, pod_kv_cache_ratio: 0.9}
"""


def made(text):
    return {board.uid: drawn(board) for board in boards(parse_settings(text))}


def panels(board):
    return {one["title"]: one for outer in board["panels"] for one in (outer, *outer.get("panels", ()))}


def steps(panel):
    return [(step["value"], step["color"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]


def test_bounds_shares_and_thresholds_are_those_of_the_file():
    pool, cluster, pod = (panels(made(WHOLE)[uid]) for uid in ("llm-pool", "llm-cluster", "llm-pod"))
    assert steps(pool["Time to first token"]) == [(0.25, "red")]
    assert steps(cluster["TTFT"]) == [(0.25, "red")]
    assert steps(pool["Inter-token latency"]) == []
    assert steps(pool["End-to-end latency"]) == [(30.0, "red")]
    assert [value for value, _ in steps(pool["Goodput"])] == [0.95, 0.99]
    assert steps(pool["Saturation"])[-1] == (1.5, "red")
    assert steps(pod["Age of its numbers"]) == [(60, "red")]
    assert 'le="0.25"' in pool["Goodput"]["targets"][0]["expr"]
    assert len(pool["Goodput"]["targets"]) == 2
    assert "95%" in pool["Time to first token"]["description"]


def test_limits_set_the_wrong_way_round_still_rise():
    pod, adapters = (panels(made(WHOLE)[uid]) for uid in ("llm-pod", "llm-adapters"))
    assert steps(pod["KV cache"]) == [(0.9, "red")]
    assert steps(adapters["Reporting"]) == [(1, "green")]


def test_the_board_of_objectives_asks_for_what_the_same_file_records():
    settings = parse_settings(WHOLE)
    recorded = {rule.name for rule in records_of(groups(settings))}
    board = made(WHOLE)["llm-slo"]
    asked = {selector.name for one in panels(board).values() for target in one.get("targets", ())
             for selector, _ in selectors(parsed(target["expr"]))}  # fmt: skip
    assert asked
    assert asked <= recorded
    assert "Bad events, itl" not in panels(board)
    assert steps(panels(board)["Burn rate, ttft"]) == [(2.0, "orange"), (9.0, "red")]
    assert "over 7d" in panels(board)["Time to first token"]["description"]
    names = re.findall(r"Burn \w+", json.dumps(panels(board)["Objectives now"]["transformations"]))
    assert names == ["Burn 10m", "Burn 2h", "Burn 1d"]


@pytest.mark.parametrize("objective", ["ttft", "itl", "e2e", "availability"])
def test_any_objective_may_be_left_out(objective):
    found = made(f"objectives: {{{objective}: off}}")
    assert not any(objective in json.dumps(one["targets"]) for one in panels(found["llm-slo"]).values() if "targets" in one)


def test_all_objectives_may_be_left_out():
    found = made("objectives: {ttft: off, itl: off, e2e: off, availability: off}")
    assert "Goodput" not in panels(found["llm-pool"])
    assert "TTFT budget" not in panels(found["llm-pool"])
    assert steps(panels(found["llm-pool"])["Time to first token"]) == []


def test_the_command_takes_the_file_of_the_rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(WHOLE, encoding="utf-8")
    done = CliRunner().invoke(main, ["render", "dashboards", "--out", str(tmp_path / "out"), "--config", str(path)])
    assert done.exit_code == 0, done.output
    board = json.loads((tmp_path / "out/llm-pool.json").read_text(encoding="utf-8"))
    assert board == made(WHOLE)["llm-pool"]


def test_a_mistake_in_it_is_named_with_two(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("thresholds: {stale: 60}", encoding="utf-8")
    done = CliRunner().invoke(main, ["render", "dashboards", "--out", str(tmp_path / "out"), "--config", str(path)])
    assert done.exit_code == 2
    assert "rules.yaml" in done.output
    assert "stale_seconds" in done.output
    assert not (tmp_path / "out").exists()
