"""Rules as data and as files: unique, documented, current, and proven by promtool."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from alerts.model import alerts_of, records_of
from alerts.render import Links, write
from alerts.rules import GROUPS
from alerts.slo import BURN_WINDOWS, OBJECTIVES, LatencyObjective, Severity
from dashboards.boards import BOARDS

ROOT = Path(__file__).parents[2]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not in PATH (package prometheus)")


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=300, check=False)


def test_no_two_rules_have_one_name_and_labels():
    rules = [(rule.name, rule.labels) for rule in (*alerts_of(GROUPS), *records_of(GROUPS))]
    assert len(set(rules)) == len(rules)
    names = [group.name for group in GROUPS]
    assert len(set(names)) == len(names)


def test_every_alert_has_a_section_in_the_runbook_and_every_section_an_alert():
    headings = re.findall(r"^## (\w+)$", (ROOT / "alerts/runbook.md").read_text(), re.MULTILINE)
    assert [heading.lower() for heading in headings] == list(dict.fromkeys(rule.anchor for rule in alerts_of(GROUPS)))


def test_every_section_of_the_runbook_says_what_it_must():
    text = (ROOT / "alerts/runbook.md").read_text()
    for section in text.split("\n## ")[1:]:
        for part in ("What users feel", "Make sure", "Causes", "What to do", "Silence"):
            assert f"**{part}" in section, section.splitlines()[0]


def test_every_alert_is_in_the_docs_and_points_to_a_board_there_is():
    docs = (ROOT / "docs/alerts.md").read_text()
    for rule in alerts_of(GROUPS):
        assert f"`{rule.name}`" in docs
        assert rule.board in {board.uid for board in BOARDS}


def test_committed_rule_files_are_what_the_rules_say(tmp_path):
    fresh = {path.name: path.read_text() for path in write(tmp_path)}
    assert fresh == {path.name: path.read_text() for path in (ROOT / "alerts/generated").iterdir()}


def test_links_take_the_roots_they_are_given(tmp_path):
    links = Links(grafana="https://grafana.example/", runbook="https://wiki.example/runbook")
    files = [yaml.safe_load(path.read_text()) for path in write(tmp_path, links)]
    alerts = [rule for file in files for group in file["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(alerts) == len(alerts_of(GROUPS))
    for rule in alerts:
        notes = rule["annotations"]
        assert notes["runbook_url"] == f"https://wiki.example/runbook#{rule['alert'].lower()}"
        assert notes["dashboard_url"].startswith("https://grafana.example/d/llm-pool?var-cluster={{ $labels.cluster |")


def test_an_objective_is_refused_off_the_ladder_and_for_what_is_no_histogram():
    def objective(signal="time_to_first_token_seconds", bound_seconds=1.0, share=0.99):
        return LatencyObjective(
            slug="x",
            word="X",
            title="x",
            signal=signal,
            bound_seconds=bound_seconds,
            objective=share,
            minimum_events=1,
        )

    assert objective().budget == 0.01
    with pytest.raises(ValueError, match="no bucket bound"):
        objective(bound_seconds=3.0)
    with pytest.raises(ValueError, match="no bucket bound"):
        objective(signal="saturation_ratio")
    with pytest.raises(ValueError, match="between 0 and 1"):
        objective(share=99)


def test_shipped_bounds_are_exact_on_every_engine():
    shared = {  # of vLLM's and SGLang's defaults
        "time_to_first_token_seconds": {0.1, 1.0, 10.0, 20.0, 40.0, 80.0},
        "inter_token_latency_seconds": {0.01, 0.025, 0.1, 0.2, 0.4, 1.0},
        "end_to_end_latency_seconds": {0.8, 1.0, 2.0, 10.0, 20.0, 40.0, 60.0},
    }
    latencies = [objective for objective in OBJECTIVES if isinstance(objective, LatencyObjective)]
    assert len(latencies) == 3
    for objective in latencies:
        assert objective.bound_seconds in shared[objective.signal]


def test_burn_windows_spend_what_the_workbook_says():
    hours = {"1h": 1, "6h": 6, "1d": 24, "3d": 72}
    spent = [round(pair.factor * hours[pair.long] / (30 * 24), 4) for pair in BURN_WINDOWS]
    assert spent == [0.02, 0.05, 0.1, 0.1]
    page, ticket = Severity.PAGE, Severity.TICKET
    assert [pair.severity for pair in BURN_WINDOWS] == [page, page, ticket, ticket]


@needs_promtool
@pytest.mark.parametrize("path", sorted((ROOT / "alerts/generated").glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_accepts_the_rules_without_remarks(path):
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
    assert result.returncode == 0, result.stdout + result.stderr


@needs_promtool
@pytest.mark.parametrize("path", sorted((ROOT / "tests/rules").glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_sees_the_alerts_fire_when_they_should(path):
    result = promtool("test", "rules", str(path))
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_rule_tests_that_fire_and_that_do_not():
    texts = [path.read_text() for path in (ROOT / "tests/rules").glob("*.yaml")]
    for rule in alerts_of(GROUPS):
        own = [text for text in texts if f"alertname: {rule.name}" in text]
        assert any("exp_alerts:" in text for text in own), rule.name
        assert any(re.search(rf"eval_time: \w+, alertname: {rule.name}}}", text) for text in own), rule.name
