"""Rules as files: all forms say the same, and Alertmanager's part follows the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from alerts.alertmanager import example
from alerts.model import alerts_of, records_of
from alerts.render import Form, Links, write
from alerts.rules import GROUPS, groups
from alerts.slo import DEFAULTS, Change, Settings
from dashboards.boards import BOARDS

ROOT = Path(__file__).parents[2]
JSONNET = shutil.which("jsonnet")
TOPICS = ("cluster", "exporter", "objectives", "pod", "pool")


def rules_of(folder: Path) -> list[dict]:
    files = [yaml.safe_load((folder / f"{topic}.yaml").read_text()) for topic in TOPICS]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def test_committed_files_are_what_the_rules_say(tmp_path):
    fresh = {str(path.relative_to(tmp_path)): path.read_text() for path in write(tmp_path)}
    kept = ROOT / "alerts/generated"
    # What CloudWatch gets has a test of its own.
    ours = [path for path in kept.rglob("*") if path.is_file() and "cloudwatch" not in path.parts]
    assert fresh == {str(path.relative_to(kept)): path.read_text() for path in ours}


def test_every_rule_is_in_the_files_once(tmp_path):
    write(tmp_path)
    rules = rules_of(tmp_path)
    assert len(rules) == len(alerts_of(GROUPS)) + len(records_of(GROUPS))
    assert len({json.dumps(rule, sort_keys=True) for rule in rules}) == len(rules)


def test_kubernetes_resources_hold_the_same_groups(tmp_path):
    write(tmp_path)
    for topic in TOPICS:
        resource = yaml.safe_load((tmp_path / f"kubernetes/{topic}.yaml").read_text())
        assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", resource["metadata"]["name"])
        assert resource["spec"] == yaml.safe_load((tmp_path / f"{topic}.yaml").read_text())


@pytest.mark.skipif(JSONNET is None, reason="jsonnet is not in PATH (package jsonnet)")
def test_the_mixin_holds_the_same_rules_alerts_and_records_apart(tmp_path):
    write(tmp_path)
    (tmp_path / "use.jsonnet").write_text(
        "local mixin = (import 'mixin/llm-fleet.libsonnet') + {prometheusAlerts+:: {groups+: [{name: 'mine', rules: []}]}};\n"
        "{alerts: mixin.prometheusAlerts.groups, rules: mixin.prometheusRules.groups}"
    )
    done = subprocess.run([JSONNET, str(tmp_path / "use.jsonnet")], capture_output=True, text=True, timeout=60, check=True)
    mixin = json.loads(done.stdout)
    assert mixin["alerts"][-1] == {"name": "mine", "rules": []}
    apart = [rule for part in ("alerts", "rules") for group in mixin[part] for rule in group["rules"]]
    assert all("alert" in rule for group in mixin["alerts"] for rule in group["rules"])
    assert sorted(json.dumps(rule, sort_keys=True) for rule in apart) == sorted(
        json.dumps(rule, sort_keys=True) for rule in rules_of(tmp_path)
    )


def test_links_take_the_roots_they_are_given_and_lead_to_the_level_s_board(tmp_path):
    links = Links(grafana="https://grafana.example/", runbook="https://wiki.example/runbook")
    write(tmp_path, Form(links=links))
    alerts = [rule for rule in rules_of(tmp_path) if "alert" in rule]
    assert len(alerts) == len(alerts_of(GROUPS))
    for rule in alerts:
        notes, level = rule["annotations"], rule["labels"]["level"]
        board = "slo" if "slo" in rule["labels"] else level
        assert notes["runbook_url"] == f"https://wiki.example/runbook#{rule['alert'].lower()}"
        assert notes["dashboard_url"].startswith(f"https://grafana.example/d/llm-{board}")
        assert notes["dashboard_url"].count("var-") == {"exporter": 0, "cluster": 1, "pool": 3, "pod": 4}[level]


def test_boards_that_alerts_lead_to_exist():
    assert {rule.board for rule in alerts_of(GROUPS)} <= {board.uid for board in BOARDS}


def test_panels_that_the_runbook_names_are_on_the_boards_it_names():
    panels = {board.title: {panel.title for row in board.rows for panel in row.panels} for board in BOARDS}
    named = re.findall(r"Board (LLM \w+)((?:(?!Board LLM).)*)", (ROOT / "alerts/runbook.md").read_text())
    assert len(named) > 30
    for board, text in named:
        for panel in re.findall(r"\*([^*]+)\*", text):
            assert panel in panels[board], (board, panel)


def test_commands_paths_and_series_that_the_runbook_names_exist():
    from collector.naming import families, prometheus_name
    from exporter.cli import main

    text = (ROOT / "alerts/runbook.md").read_text()
    commands = set(re.findall(r"llm-fleet-exporter ([a-z-]+)", text))
    assert commands
    assert commands <= set(main.commands)
    server = "".join((ROOT / "exporter" / name).read_text() for name in ("server.py", "feed.py"))
    for path in set(re.findall(r"EXPORTER(/[a-z/0-9]+)", text)):
        assert f'"{path}"' in server, path
    known = {prometheus_name(signal, level) for signal, level in families()}
    recorded = {rule.name for rule in records_of(GROUPS)}
    assert set(re.findall(r"\bllm_(?:pod|pool|cluster|exporter)_\w+", text)) <= known
    assert set(re.findall(r"`((?:pod|pool|cluster):[\w:]+)`", text)) <= recorded


def test_readers_without_keep_firing_for_get_none_and_nothing_else_changes(tmp_path):
    write(tmp_path / "new")
    write(tmp_path / "old", Form(keep_firing=False))
    new, old = ((tmp_path / name / "pool.yaml").read_text() for name in ("new", "old"))
    assert "keep_firing_for" in new
    assert re.sub(r" *keep_firing_for: .*\n", "", new) == old


def test_changes_of_alerts_apply_to_them_alone_and_disabled_ones_are_gone():
    changes = {"LLMPodStuck": Change(pending_seconds=15), "LLMPoolSaturated": Change(disabled=True)}
    changed = groups(Settings(changes=changes))
    assert {rule.name for rule in alerts_of(GROUPS)} - {rule.name for rule in alerts_of(changed)} == {"LLMPoolSaturated"}
    differing = [rule for rule in alerts_of(changed) if rule not in alerts_of(GROUPS)]
    assert [(rule.name, rule.pending_seconds) for rule in differing] == [("LLMPodStuck", 15)]
    assert records_of(changed) == records_of(GROUPS)


def test_a_selector_reaches_every_rule_of_its_levels():
    chosen = groups(Settings(selector={"cluster": "east", "pool": "=~chat-.*"}))
    for rule in (*alerts_of(chosen), *records_of(chosen)):
        level = rule.name.partition(":")[0] if ":" in rule.name else rule.level
        if level in ("pod", "pool"):
            # Each selector of these levels has it: rules of another class of pools may record the same names.
            assert rule.expression.count("pool=~") >= len(
                re.findall(r"\b(?:llm_)?(?:pod|pool)[:_]llm_|llm_(?:pod|pool)_", rule.expression)
            )
        if level == "cluster" and "slo" not in rule.name and rule.expression.startswith("sum by (cluster) (llm_"):
            assert 'cluster="east"' in rule.expression
            assert "chat" not in rule.expression


def test_alertmanager_sends_every_severity_somewhere_and_names_only_receivers_it_has():
    config = example(alerts_of(GROUPS))
    known = {one["name"] for one in config["receivers"]}
    ours = config["route"]["routes"][0]
    assert {ours["receiver"], config["route"]["receiver"], *(route["receiver"] for route in ours["routes"])} <= known
    for severity in ("critical", "warning", "info"):
        assert any(f'severity="{severity}"' in route["matchers"] for route in ours["routes"])


def test_inhibition_sources_are_the_alerts_that_hide_and_none_are_left_when_those_are_disabled():
    sources = [rule["source_matchers"][0] for rule in example(alerts_of(GROUPS))["inhibit_rules"]]
    assert sources == [
        'alertname=~"LLMClusterSilent|LLMClusterNoReportingPods"',
        'alertname=~"LLMPoolNoReportingPods"',
        'alertname=~"LLM.*"',
    ]
    hiding = {rule.name: Change(disabled=True) for rule in alerts_of(GROUPS) if rule.hides}
    assert len(example(alerts_of(groups(Settings(changes=hiding))))["inhibit_rules"]) == 1


def test_the_defaults_are_what_ships():
    assert groups(DEFAULTS) == GROUPS
