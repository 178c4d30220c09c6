"""The alerts as PromQL alarms, for metrics that CloudWatch takes over OTLP under the same names.

CloudWatch has no recording rules, so each recorded series gives way to what it is recorded from. One alarm speaks of every
pool: the series that its query returns are its contributors.
"""

import re
from collections.abc import Mapping
from typing import Any

from alerts.burn import unrecorded
from alerts.cloudwatch.model import LONGEST_DESCRIPTION, Alarm, Kind, LeftOut, Placing, words
from alerts.cloudwatch.sheet import CannotTell
from alerts.durations import show
from alerts.model import AlertRule, Burn, Group, RecordingRule, alerts_of
from alerts.rules import groups

LONGEST_QUERY = 10_000
LONGEST_PENDING_SECONDS = 86_400

_TEXT = r'"(?:[^"\\]|\\.)*"'
_BRACES = rf'\{{(?:[^{{}}"]|{_TEXT})*\}}'
# Strings are skipped whole: a pattern may have braces of its own.
_RECORDED = re.compile(rf"{_TEXT}|(?<![\w:])([a-z]+:\w+:\w+)({_BRACES})?(\[\w+\])?")
_FIRST = re.compile(rf"(\w+ by \([^()]*\)) \((llm_\w+(?:{_BRACES})?)\)")
_EQUALS = re.compile(r'(\w+)="([^"]*)"')
# What Prometheus says of its own scraping and alerting, and the labels that it gives to what it scrapes.
_OF_PROMETHEUS = re.compile(r"(?<![\w:])(up|ALERTS\w*|scrape_\w+|prometheus_\w+|job|instance)(?![\w:])")
_STRING = re.compile(_TEXT)

Records = Mapping[str, list[tuple[RecordingRule, Group]]]


def promql_alarms(placing: Placing) -> tuple[list[Alarm], list[LeftOut]]:
    """An alarm for every alert that PromQL can tell by itself, and the others with their reasons."""
    every = groups(placing.settings)
    records: dict[str, list[tuple[RecordingRule, Group]]] = {}
    for group in every:
        for rule in group.rules:
            if isinstance(rule, RecordingRule):
                records.setdefault(rule.name, []).append((rule, group))
    made, left = [], []
    for group in every:
        for alert in alerts_of([group]):
            try:
                made.append(_alarm(alert, group, _query(alert, records, placing), placing))
            except CannotTell as error:
                left.append(LeftOut(alert="/".join(words(alert, placing.settings)), reason=str(error)))
    return made, left


def _query(rule: AlertRule, records: Records, placing: Placing) -> str:
    raw = unrecorded(rule.told, placing.settings) if isinstance(rule.told, Burn) else rule.expression
    query = _inlined(raw, records, ())
    found = _OF_PROMETHEUS.search(_STRING.sub('""', query))
    if found:
        raise CannotTell(f"it reads {found[1]}, which is Prometheus' own")
    if "llm_" not in query:
        raise CannotTell("a query has to name a metric")
    if len(query) > LONGEST_QUERY:
        raise CannotTell(f"its query has {len(query)} characters, at most {LONGEST_QUERY}")
    if max(rule.pending_seconds, rule.keep_firing_seconds) > LONGEST_PENDING_SECONDS:
        raise CannotTell("it waits for more than a day")
    return query


def _inlined(expression: str, records: Records, within: tuple[str, ...]) -> str:
    """The expression with what recorded series are recorded from in their place."""

    def instead(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0]
        name, braces, window = found[1], found[2] or "", found[3] or ""
        rule, group = _record(name, dict(_EQUALS.findall(braces)), records)
        if name in within:
            return _carried(rule)
        inner = f"({_inlined(rule.expression, records, (*within, name))})"
        return f"{inner}{window[:-1]}:{show(group.interval_seconds)}]" if window else inner

    return _RECORDED.sub(instead, expression)


def _carried(rule: RecordingRule) -> str:
    """A record that reads its own past: what it is first made of, as it was within the hour that it may carry on."""
    first = _FIRST.search(rule.expression)
    if first is None:
        raise CannotTell(f"{rule.name} carries its own past on, which only a recording rule can")
    return f"{first[1]} (last_over_time({first[2]}[1h]))"


def _record(name: str, matchers: Mapping[str, str], records: Records) -> tuple[RecordingRule, Group]:
    fitting = [
        (rule, group)
        for rule, group in records.get(name, ())
        if all(matchers.get(label, value) == value for label, value in rule.labels)
    ]
    if len(fitting) != 1:
        raise CannotTell(f"{len(fitting)} rules record {name}")
    return fitting[0]


def _alarm(rule: AlertRule, group: Group, query: str, placing: Placing) -> Alarm:
    name = placing.name("promql", *words(rule, placing.settings))
    request: dict[str, Any] = {
        "AlarmName": name,
        "AlarmDescription": f"{rule.summary} {placing.runbook}#{rule.anchor}"[:LONGEST_DESCRIPTION],
        "ActionsEnabled": True,
        "AlarmActions": list(placing.actions.get(rule.severity, ())),
        "OKActions": list(placing.actions.get(rule.severity, ())),
        "EvaluationCriteria": {
            "PromQLCriteria": {
                "Query": query,
                "PendingPeriod": rule.pending_seconds,
                "RecoveryPeriod": rule.keep_firing_seconds,
            }
        },
        "EvaluationInterval": _interval(group.interval_seconds),
        "Tags": placing.tags(rule.severity),
    }
    return Alarm(kind=Kind.METRIC, request=request)


def _interval(seconds: int) -> int:
    """The shortest interval that AWS takes and that is no shorter: 10, 20, 30 or whole minutes."""
    return next((short for short in (10, 20, 30) if seconds <= short), -(-seconds // 60) * 60)
