"""Alarms as CloudFormation templates, which a stack fills in: one for a cluster, one for a pool, one for the PromQL alarms."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import Alarm, Kind, Placing, Subject, Tells, everything
from alerts.cloudwatch.promql import promql_alarms
from alerts.cloudwatch.stack import as_text
from alerts.slo import DEFAULTS, Settings, Severity
from collector.naming import CLOUDWATCH_NAMESPACE
from collector.signals import Level

LONGEST_TEMPLATE = 51_200
"""Bytes that CreateStack takes as they are; longer ones have to lie in S3."""

_BUDGET = "BudgetBurn"
_TYPES = {Kind.METRIC: "AWS::CloudWatch::Alarm", Kind.COMPOSITE: "AWS::CloudWatch::CompositeAlarm"}
_TOPICS = {Severity.PAGE: "CriticalTopic", Severity.TICKET: "WarningTopic"}
_SUBJECTS = {
    "cluster": Subject(Level.CLUSTER, ("${Cluster}",)),
    "pool": Subject(Level.POOL, ("${Cluster}", "${Namespace}", "${Pool}")),
}
_NAMES = {
    "Prefix": ("First part of every alarm's name.", "llm-fleet"),
    "MetricNamespace": ("CloudWatch namespace that the exporter sends to.", CLOUDWATCH_NAMESPACE),
    "Cluster": ("Value of the dimension cluster.", None),
    "Namespace": ("Value of the dimension namespace.", None),
    "Pool": ("Value of the dimension pool.", None),
}

Template = dict[str, Any]


def templates(settings: Settings = DEFAULTS, tells: Tells = everything) -> dict[str, Template]:
    """Every template that has an alarm, by name. Those of a pool name alarms of its cluster, which has to be there before."""
    placing = Placing(
        settings=settings,
        prefix="${Prefix}",
        namespace="${MetricNamespace}",
        actions={severity: (topic,) for severity, topic in _TOPICS.items()},
        tells=tells,
    )
    of_subject = {name: alarms([subject], placing) for name, subject in _SUBJECTS.items()}
    clusters = {alarm.name for alarm in of_subject["cluster"]}
    of_pool = [alarm for alarm in of_subject["pool"] if alarm.name not in clusters]
    budgets = [alarm for alarm in of_pool if _BUDGET in alarm.name]
    rest = [alarm for alarm in of_pool if _BUDGET not in alarm.name]
    return {
        **_fitting("cluster", "Alarms of one cluster of LLM pools.", of_subject["cluster"]),
        **_fitting("pool", "Alarms of one LLM pool; first the stack of its cluster.", rest),
        **_by_severity("pool-budgets", "Alarms of one LLM pool's error budgets; first the stack of the pool", budgets),
        **_by_severity("promql", "Alarms of all LLM pools on metrics that came over OTLP", promql_alarms(placing)[0]),
    }


def _by_severity(name: str, description: str, made: Sequence[Alarm]) -> dict[str, Template]:
    """What wakes somebody and what can wait, apart."""
    critical = [alarm for alarm in made if alarm.severity == Severity.PAGE]
    others = [alarm for alarm in made if alarm.severity != Severity.PAGE]
    return {
        **_fitting(f"{name}-critical", f"{description}: what wakes somebody.", critical),
        **_fitting(f"{name}-warning", f"{description}: what can wait.", others),
    }


def _fitting(name: str, description: str, made: Sequence[Alarm]) -> dict[str, Template]:
    """One template, or as many as it takes: `name`, `name-2` and so on, in the order in which their stacks are made.

    None without an alarm, since no stack may be empty.
    """
    parts: list[list[Alarm]] = [list(made)] if made else []
    if made and _too_long(_template(description, made)):
        parts = [[]]
        for alert in _alerts(made):
            if parts[-1] and _too_long(_template(description, [*parts[-1], *alert])):
                parts.append([])
            parts[-1] += alert
    return {name + (f"-{at}" if at > 1 else ""): _template(description, part) for at, part in enumerate(parts, 1)}


def _too_long(template: Template) -> bool:
    return len(as_text(template).encode()) > LONGEST_TEMPLATE


def _alerts(made: Sequence[Alarm]) -> Iterator[list[Alarm]]:
    """Each composite after the conditions that it names, and what no composite names alone; none is cut in two."""
    conditions = {alarm.name: alarm for alarm in made if alarm.kind is Kind.METRIC}
    for alarm in made:
        if alarm.kind is Kind.COMPOSITE:
            yield [*(conditions.pop(name) for name in _named(alarm) if name in conditions), alarm]
    yield from ([alarm] for alarm in conditions.values())


def _named(alarm: Alarm) -> list[str]:
    """Other alarms that a composite speaks of."""
    return re.findall(r'ALARM\("([^"]+)"\)', alarm.request.get("AlarmRule", ""))


def _template(description: str, made: Iterable[Alarm]) -> Template:
    resources = {_logical(alarm.name): alarm for alarm in made}
    names = {alarm.name: logical for logical, alarm in resources.items()}
    body = {logical: _resource(alarm, names) for logical, alarm in resources.items()}
    text = str(body)
    used = {name for name in _NAMES if f"${{{name}}}" in text or f"{{'Ref': '{name}'}}" in text}
    topics = {topic: {"Type": "String", "Default": "", "Description": f"ARN of the SNS topic told of {severity} alerts."}
              for severity, topic in _TOPICS.items() if topic in text}  # fmt: skip
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": description,
        "Parameters": {name: _parameter(*told) for name, told in _NAMES.items() if name in used} | topics,
        "Conditions": {f"Has{topic}": {"Fn::Not": [{"Fn::Equals": [{"Ref": topic}, ""]}]} for topic in topics},
        "Resources": body,
    }


def _parameter(description: str, default: str | None) -> dict[str, str]:
    return {"Type": "String", "Description": description} | ({"Default": default} if default is not None else {})


def _resource(alarm: Alarm, names: Mapping[str, str]) -> Template:
    properties = {key: _filled(key, value) for key, value in alarm.request.items()}
    named = [*_named(alarm), alarm.request.get("ActionsSuppressor", "")]
    after = sorted({names[name] for name in named if name in names})
    return {"Type": _TYPES[alarm.kind], **({"DependsOn": after} if after else {}), "Properties": properties}


def _filled(key: str, value: Any) -> Any:
    """A property with parameters in the place of what a stack fills in."""
    if key in ("AlarmActions", "OKActions"):
        return {"Fn::If": [f"Has{value[0]}", [{"Ref": value[0]}], {"Ref": "AWS::NoValue"}]} if value else {"Ref": "AWS::NoValue"}
    if isinstance(value, dict):
        return {name: _filled(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled("", item) for item in value]
    if isinstance(value, str) and "${" in value:
        alone = re.fullmatch(r"\$\{(\w+)\}", value)
        return {"Ref": alone[1]} if alone else {"Fn::Sub": value}
    return value


def _logical(name: str) -> str:
    """Logical id of an alarm: its name without what the stack fills in, letters and digits alone."""
    words = re.split(r"[^A-Za-z0-9]+", re.sub(r"\$\{\w+\}", "", name))
    return "".join(word[0].upper() + word[1:] for word in words if word)
