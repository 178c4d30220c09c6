"""The queries of PromQL alarms as rules of Prometheus 3: they pass the tests of the rules that they are made from.

CloudWatch's own evaluation cannot be had here; what a query says can. Recording rules are not loaded, and expectations of
recorded series and of alerts without an alarm are left out.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from alerts.cloudwatch.model import Placing, words
from alerts.cloudwatch.promql import promql_alarms
from alerts.durations import show
from alerts.model import alerts_of
from alerts.rules import GROUPS
from tests.real.running import output_of, program

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
LONG = ("cluster.yaml", "pool_other_budget_burn.yaml", "pool_slow.yaml")
"""Hours and days of raw samples, evaluated every few seconds."""

NAMED = re.compile(r'ALERTS\{.*alertname="(\w+)"')
ALARMS = {alarm.name: alarm.request for alarm in promql_alarms(Placing())[0]}


def as_rules():
    """Groups as the shipped ones, with the query of each alarm in the place of the expression."""
    for group in GROUPS:
        rules = []
        for rule in alerts_of([group]):
            if request := ALARMS.get("/".join(("llm-fleet/promql", *words(rule)))):
                criteria = request["EvaluationCriteria"]["PromQLCriteria"]
                waits = {"for": criteria["PendingPeriod"], "keep_firing_for": criteria["RecoveryPeriod"]}
                labels = {**dict(rule.labels), "level": str(rule.level), "severity": str(rule.severity)}
                rules.append({"alert": rule.name, "expr": criteria["Query"], "labels": labels,
                              **{key: show(wait) for key, wait in waits.items() if wait}})  # fmt: skip
        if rules:
            yield {"name": group.name, "interval": f"{group.interval_seconds}s", "rules": rules}


def told_of(tests, kept):
    """Expectations of the alerts that have an alarm; an alarm has none of the rules' texts."""
    for test in tests:
        alerts = [one for one in test.get("alert_rule_test", ()) if one["alertname"] in kept]
        for one in alerts:
            for alert in one.get("exp_alerts", ()):
                alert.pop("exp_annotations", None)
        counts = [one for one in test.get("promql_expr_test", ()) if (found := NAMED.search(one["expr"])) and found[1] in kept]
        if alerts or counts:
            yield test | {"alert_rule_test": alerts, "promql_expr_test": counts}


GROUPS_OF_QUERIES = list(as_rules())
KEPT = {rule["alert"] for group in GROUPS_OF_QUERIES for rule in group["rules"]}


def expected_in(path):
    return list(told_of(yaml.safe_load(path.read_text())["tests"], KEPT))


TESTS = [pytest.param(path, marks=pytest.mark.real_heavy if path.name in LONG else (), id=path.name)
         for path in sorted((ROOT / "tests/rules").glob("*.yaml")) if expected_in(path)]  # fmt: skip


@pytest.mark.parametrize("path", TESTS)
def test_the_queries_pass_the_tests_of_the_rules(path: Path, tmp_path: Path) -> None:
    told, tests = yaml.safe_load(path.read_text()), expected_in(path)
    text = json.dumps(tests)
    # Windows of days over raw samples cost much: only what the file speaks of.
    spoken = [
        group | {"rules": [rule for rule in group["rules"] if f'{rule["alert"]}"' in text.replace("\\", "")]}
        for group in GROUPS_OF_QUERIES
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [group for group in spoken if group["rules"]]}))
    (tmp_path / "tests.json").write_text(json.dumps({**told, "rule_files": ["rules.json"], "tests": tests}))
    assert "SUCCESS" in output_of([program("promtool"), "test", "rules", str(tmp_path / "tests.json")])
