"""Boards over two shards of one pool and over one exporter, judged by promtool: worked out by hand."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.signals import Level
from dashboards.boards import BOARDS
from dashboards.draw import drawn
from tests.promql import parsed, selectors

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not in PATH (package prometheus)")

# Of llama shard 0 has 3 settled pods, 1 warming, 1 down, 2 told to go; shard 1 has 1 settled and 2 down. One exporter has qwen.
PODS = {
    ("llama", "0"): {"fresh": 3, "warming": 1, "down": 1, "terminating": 2},
    ("llama", "1"): {"no_progress": 1, "down": 2},
    ("qwen", ""): {"fresh": 3, "stale": 1},
}
RATIOS = {("llama", "0"): 0.25, ("llama", "1"): 0.75, ("qwen", ""): 0.3}
WEIGHTED = {"llama": 0.375, "qwen": 0.3}
REPORTING = {"llama": 0.625, "qwen": 0.75}
MEANS = ("saturation_ratio", "kv_cache_usage_ratio", "kv_cache_reserved_ratio")
LABELS = {Level.POOL: {"cluster": "{0}", "namespace": "serving", "pool": "{0}"}, Level.CLUSTER: {"cluster": "{0}"}}


def labels(level: Level, who: str, **more: str) -> str:
    pairs = {**{name: text.format(who) for name, text in LABELS[level].items()}, **more}
    return "{" + ", ".join(f'{name}="{text}"' for name, text in pairs.items() if text) + "}"


def fed() -> Iterator[dict[str, str]]:
    for level in LABELS:
        for (who, shard), states in PODS.items():
            for state, count in states.items():
                yield {"series": f"llm_{level}_pods" + labels(level, who, shard=shard, state=state), "values": f"{count}+0x4"}
            for name in MEANS:
                value = RATIOS[who, shard]
                yield {"series": f"llm_{level}_{name}" + labels(level, who, shard=shard), "values": f"{value}+0x4"}


def asked() -> Iterator[tuple[str, str, Level, bool]]:
    """Board and panel, query, level, and whether it is about means: of every query that reads a mean, or is titled Reporting."""
    for board in BOARDS:
        panels = (inner for one in drawn(board)["panels"] for inner in (one, *one.get("panels", ())))
        for panel in panels:
            for target in panel.get("targets", ()):
                names = {one.name for one, _ in selectors(parsed(target["expr"]))}
                for level in LABELS:
                    means = bool(names & {f"llm_{level}_{name}" for name in MEANS})
                    reporting = "eporting" in panel["title"] + target["legendFormat"] and f"llm_{level}_pods" in names
                    if means or reporting:
                        yield f"{board.uid} {panel['title']}", target["expr"], level, means


def test_a_ratio_of_two_shards_is_weighted_by_pods_and_of_one_exporter_itself(tmp_path: Path) -> None:
    cases = list(asked())
    assert len({where for where, *_ in cases}) >= 14
    tests = []
    for where, expression, level, means in cases:
        values = WEIGHTED if means else REPORTING
        text = expression.replace("\n", " ")
        for variable in ("cluster", "namespace", "pool"):
            text = text.replace(f"=~${variable}", "=~.+").replace(f'"${variable}"', '".+"')
        assert "$" not in text, where
        if text.startswith(("max(", "min(")):
            worst = max(values.values()) if text.startswith("max(") else min(values.values())
            samples = [{"labels": "{}", "value": worst}]
        else:
            samples = [{"labels": labels(level, who), "value": value} for who, value in values.items()]
        rounded = [{**one, "value": round(1e6 * one["value"])} for one in samples]
        tests.append({"expr": f"round(1e6 * ({text}))", "eval_time": "1m", "exp_samples": rounded})
    file = tmp_path / "boards.json"
    file.write_text(json.dumps({"tests": [{"interval": "30s", "input_series": list(fed()), "promql_expr_test": tests}]}))
    assert PROMTOOL
    result = subprocess.run([PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
