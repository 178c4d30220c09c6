"""CloudFormation templates: filled in, they are the very alarms that the command puts."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import Kind, Placing, Subject
from alerts.cloudwatch.promql import promql_alarms
from alerts.cloudwatch.render import write
from alerts.cloudwatch.stack import as_text
from alerts.cloudwatch.template import LONGEST_TEMPLATE, templates
from alerts.slo import DEFAULTS, BurnWindow, Severity
from collector.signals import Level

ROOT = Path(__file__).parents[2]
VALUES = {"Prefix": "team-a", "MetricNamespace": "Team A", "Cluster": "prod-east", "Namespace": "serving", "Pool": "llama-70b",
          "CriticalTopic": "arn:aws:sns:us-east-1:123456789012:page", "WarningTopic": ""}  # fmt: skip
MADE = templates()
KINDS = {"AWS::CloudWatch::Alarm": Kind.METRIC, "AWS::CloudWatch::CompositeAlarm": Kind.COMPOSITE}
NOTHING = object()

each = pytest.mark.parametrize("template", MADE.values(), ids=MADE.keys())


def filled(value, values):
    """What CloudFormation makes of a property; NOTHING for one that is left out."""
    if isinstance(value, list):
        return [filled(item, values) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Ref": "AWS::NoValue"}:
            return NOTHING
        case {"Ref": name}:
            return values[name]
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text)
        case {"Fn::If": [condition, then, otherwise]}:
            return filled(then if values[condition.removeprefix("Has")] else otherwise, values)
    made = {key: filled(item, values) for key, item in value.items()}
    return {key: item for key, item in made.items() if item is not NOTHING}


def requests(template):
    return {filled(one["Properties"], VALUES)["AlarmName"]: (KINDS[one["Type"]], filled(one["Properties"], VALUES))
            for one in template["Resources"].values()}  # fmt: skip


def test_filled_in_they_are_the_alarms_that_the_command_puts():
    placing = Placing(prefix="team-a", namespace="Team A", actions={Severity.PAGE: (VALUES["CriticalTopic"],)})
    wanted = alarms([Subject(Level.POOL, ("prod-east", "serving", "llama-70b"))], placing) + promql_alarms(placing)[0]
    stacks = {name: told for template in MADE.values() for name, told in requests(template).items()}
    assert len(stacks) == sum(len(template["Resources"]) for template in MADE.values())
    empty = ("AlarmActions", "OKActions")
    for alarm in wanted:
        kind, request = stacks.pop(alarm.name)
        assert kind is alarm.kind
        assert request == {key: value for key, value in alarm.request.items() if value or key not in empty}
    assert not stacks


@each
def test_everything_named_is_there(template):
    text = str(template["Resources"])
    used = set(re.findall(r"\$\{(\w+)\}", text)) | set(re.findall(r"\{'Ref': '(\w+)'\}", text)) - {"AWS"}
    assert used == set(template["Parameters"])
    assert set(re.findall(r"'(Has\w+)'", text)) <= set(template["Conditions"])
    for name, resource in template["Resources"].items():
        assert re.fullmatch("[A-Za-z0-9]{1,255}", name)
        assert set(resource.get("DependsOn", ())) <= set(template["Resources"])


@each
def test_alarms_come_after_those_that_they_name(template):
    names = {filled(one["Properties"]["AlarmName"], VALUES): logical for logical, one in template["Resources"].items()}
    for resource in template["Resources"].values():
        request = filled(resource["Properties"], VALUES)
        named = [*re.findall(r'ALARM\("([^"]+)"\)', request.get("AlarmRule", "")), request.get("ActionsSuppressor", "")]
        assert {names[name] for name in named if name in names} == set(resource.get("DependsOn", ()))


class Loader(yaml.SafeLoader):
    """Reads the short form of CloudFormation's functions."""


for function in ("Ref", "Sub"):
    name = function if function == "Ref" else f"Fn::{function}"
    Loader.add_constructor(f"!{function}", lambda loader, node, name=name: {name: loader.construct_scalar(node)})


def test_committed_templates_are_what_the_rules_say_and_short_enough(tmp_path):
    there = ROOT / "alerts/generated/cloudwatch"
    fresh = {path.name: path.read_text() for path in write(tmp_path)}
    assert fresh == {path.name: path.read_text() for path in there.iterdir()}
    for path in there.iterdir():
        assert path.stat().st_size <= LONGEST_TEMPLATE
        read = yaml.load(path.read_text(), Loader=Loader)
        assert read == MADE[path.name.removesuffix(".template.yaml")]
        assert len(read["Resources"]) <= 500
        assert len(read["Parameters"]) <= 200
        assert len(read["Description"]) <= 1024


def test_what_no_alert_is_in_has_no_template():
    made = templates(replace(DEFAULTS, windows=(BurnWindow("1h", "5m", 14.4, Severity.PAGE, 120),)))
    assert "pool-budgets-critical" in made
    assert "pool-budgets-warning" not in made
    assert all(template["Resources"] for template in made.values())


CROWDED = replace(DEFAULTS, windows=tuple(BurnWindow(f"{hours}h", "5m", 5, Severity.PAGE, 120) for hours in range(1, 7)))


@pytest.fixture(scope="module")
def crowded():
    return templates(CROWDED)


def test_however_many_windows_there_are_each_template_fits_and_none_is_lost(crowded):
    made = crowded
    assert {"pool-budgets-critical", "pool-budgets-critical-2", "pool-budgets-critical-3"} <= set(made)
    assert all(len(as_text(template).encode()) <= LONGEST_TEMPLATE for template in made.values())
    pool = Subject(Level.POOL, ("prod-east", "serving", "llama-70b"))
    placing = Placing(prefix="team-a", namespace="Team A", settings=CROWDED)
    there = [name for template in made.values() for name in requests(template)]
    assert sorted(there) == sorted(alarm.name for alarm in alarms([pool], placing) + promql_alarms(placing)[0])


def test_an_alert_and_its_conditions_are_in_one_template(crowded):
    for template in crowded.values():
        there = requests(template)
        for name, (kind, request) in there.items():
            if kind is Kind.COMPOSITE and "BudgetBurn" in name:
                assert set(re.findall(r'ALARM\("([^"]+)"\)', request["AlarmRule"])) <= set(there)
