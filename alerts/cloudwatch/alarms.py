"""The alarms of clusters and pools: their conditions, each alert as one composite of them, and what keeps alerts quiet.

Only composites tell somebody: they carry the alert's name and actions, and one alarm that speaks for a whole that is away
suppresses the alerts of what is in it, as inhibition does in Alertmanager.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alerts.cloudwatch.model import LONGEST_DESCRIPTION, Alarm, Kind, LeftOut, Placing, Subject, everything, words
from alerts.cloudwatch.sheet import PERIOD_SECONDS, CannotTell, NotSent, Sheet
from alerts.cloudwatch.told import Condition, burn, check
from alerts.model import AlertRule, Burn, alerts_of
from alerts.rules import groups
from collector.signals import Level

HEARTBEAT_ALERT = "LLMClusterSilent"
"""The alert that, without PromQL, is the absence of a metric that is always sent."""

_HEARTBEAT_SIGNAL = "cloudwatch_writers"
HEARTBEAT_PERIODS = 3
"""Periods without any data before a cluster counts as silent: one is late now and then."""

# A whole that is away and its parts come up within one evaluation of each other, and go so.
_SUPPRESSOR_WAIT_SECONDS = 120
_SUPPRESSOR_EXTENSION_SECONDS = 120

_LONGEST_SECONDS = 86_400
"""All periods that an alarm looks at, by AWS's documentation; of periods of an hour and more, a week."""

_LEVELS = (Level.CLUSTER, Level.POOL)
_NO_METRIC = {
    Level.POD: "pods come and go, and an alarm watches metrics that it names",
    Level.EXPORTER: "it speaks of the exporter itself, of which CloudWatch has no metrics",
}


@dataclass(frozen=True, slots=True)
class _Alert:
    """One alert of one subject: its conditions."""

    rule: AlertRule
    subject: Subject
    conditions: tuple[Condition, ...]


def alarms(subjects: Iterable[Subject], placing: Placing) -> list[Alarm]:
    """Alarms of clusters and pools, clusters of pools included, in an order in which each finds those that it names."""
    given = dict.fromkeys(subjects)
    clusters = dict.fromkeys(subject.cluster for subject in given)
    pools = [subject for subject in given if subject.level is Level.POOL]
    made: list[Alarm] = []
    for cluster in clusters:
        made += _of(cluster, placing, above="")
    for pool in pools:
        made += _of(pool, placing, above=_away_name(pool.cluster, placing))
    return made


def left_out(placing: Placing, subjects: Iterable[Subject] = ()) -> list[LeftOut]:
    """Alerts that have no alarm on classic metrics, each with its reason; of the subjects also what they do not send."""
    never = [
        LeftOut(alert="/".join(words(rule, placing.settings)), reason=reason)
        for rule in _rules(placing)
        if (reason := _missing(rule, placing))
    ]
    return never + [one for subject in dict.fromkeys(subjects) for one in _not_sent(subject, placing)]


def _not_sent(subject: Subject, placing: Placing) -> Iterator[LeftOut]:
    who = "/".join(subject.values)
    for rule in _rules(placing):
        if rule.level is not subject.level or _missing(rule, placing):
            continue
        alert = "/".join(words(rule, placing.settings))
        try:
            without = dict.fromkeys(text for condition in _told(rule, subject, placing) for text in condition.without)
        except NotSent as error:
            yield LeftOut(alert=alert, reason=f"{who} does not send {error}")
            continue
        if without:
            yield LeftOut(alert=alert, reason=f"{who} does not send {'; '.join(without)}", partly=True)


def _of(subject: Subject, placing: Placing, above: str) -> Iterator[Alarm]:
    alerts = list(_alerts(subject, placing))
    for alert in alerts:
        yield from _conditions(alert, placing)
    away = _away_name(subject, placing)
    hiding = [_quoted(_name(alert, placing)) for alert in alerts if alert.rule.hides]
    for alert in alerts:
        if alert.rule.hides:
            yield _composite(alert, placing, above)
    yield _away(subject, [*hiding, *([_quoted(above)] if above else [])], placing)
    for alert in alerts:
        if not alert.rule.hides:
            yield _composite(alert, placing, away)


def _alerts(subject: Subject, placing: Placing) -> Iterator[_Alert]:
    for rule in _rules(placing):
        if rule.level is not subject.level or _missing(rule, placing):
            continue
        try:
            yield _Alert(rule, subject, _told(rule, subject, placing))
        except NotSent:
            continue


def _rules(placing: Placing) -> tuple[AlertRule, ...]:
    return alerts_of(groups(placing.settings))


def _told(rule: AlertRule, subject: Subject, placing: Placing) -> tuple[Condition, ...]:
    conditions: tuple[Condition, ...]
    if rule.name == HEARTBEAT_ALERT:
        conditions = (_heartbeat(subject, placing.namespace),)
    elif rule.told is None:
        raise CannotTell("it needs PromQL")
    elif isinstance(rule.told, Burn):
        conditions = burn(rule.told, subject, placing)
    else:
        conditions = (check(rule.told, subject, placing),)
    for condition in conditions:
        seconds = _periods(rule, condition)[1] * condition.period_seconds
        if seconds > _LONGEST_SECONDS * (7 if condition.period_seconds >= 3600 else 1):
            raise CannotTell(f"it waits for {seconds // 3600} h; an alarm looks back a day at most")
    return conditions


def _heartbeat(cluster: Subject, namespace: str) -> Condition:
    """What every exporter that writes for the cluster sends once a period, whatever its pods do."""
    sheet = Sheet(cluster, namespace, PERIOD_SECONDS)
    writers = sheet.ask(_HEARTBEAT_SIGNAL, "Sum", level=Level.EXPORTER)
    return Condition(
        part="",
        metrics=sheet.metrics(writers, "exporters that write"),
        comparison="LessThanThreshold",
        limit=1,
        period_seconds=PERIOD_SECONDS,
        missing="breaching",
    )


def _missing(rule: AlertRule, placing: Placing) -> str:
    """Why an alert has no alarm; empty when it has one."""
    if rule.level not in _LEVELS:
        return _NO_METRIC[rule.level]
    whole = replace(placing, tells=everything)
    try:
        _told(rule, Subject(rule.level, ("cluster", "namespace", "pool")[: 1 if rule.level is Level.CLUSTER else 3]), whole)
    except CannotTell as error:
        return str(error)
    return ""


def _conditions(alert: _Alert, placing: Placing) -> Iterator[Alarm]:
    for condition in alert.conditions:
        breaching, looked_at = _periods(alert.rule, condition)
        request: dict[str, Any] = {
            "AlarmName": _condition_name(alert, condition, placing),
            "AlarmDescription": f"Part of {_name(alert, placing)}, which tells of it."[:LONGEST_DESCRIPTION],
            "ActionsEnabled": False,
            "Metrics": condition.metrics,
            "ComparisonOperator": condition.comparison,
            "Threshold": float(condition.limit),
            "EvaluationPeriods": looked_at,
            "DatapointsToAlarm": breaching,
            "TreatMissingData": condition.missing,
            "Tags": placing.tags(alert.rule.severity),
        }
        yield Alarm(kind=Kind.METRIC, request=request)


def _periods(rule: AlertRule, condition: Condition) -> tuple[int, int]:
    """Breaching periods and periods looked at: `for` as the one, `keep_firing_for` as what the other has beyond it."""
    least = HEARTBEAT_PERIODS if condition.missing == "breaching" else 1
    breaching = max(least, -(-rule.pending_seconds // condition.period_seconds))
    return breaching, breaching + rule.keep_firing_seconds // condition.period_seconds


def _composite(alert: _Alert, placing: Placing, suppressor: str) -> Alarm:
    rule = alert.rule
    conditions = [_quoted(_condition_name(alert, condition, placing)) for condition in alert.conditions]
    request: dict[str, Any] = {
        "AlarmName": _name(alert, placing),
        "AlarmDescription": f"{rule.summary} {placing.runbook}#{rule.anchor}"[:LONGEST_DESCRIPTION],
        "ActionsEnabled": True,
        "AlarmActions": list(placing.actions.get(rule.severity, ())),
        "OKActions": list(placing.actions.get(rule.severity, ())),
        "AlarmRule": " AND ".join(conditions),
        "Tags": placing.tags(rule.severity),
    }
    if suppressor:
        request |= {
            "ActionsSuppressor": suppressor,
            "ActionsSuppressorWaitPeriod": _SUPPRESSOR_WAIT_SECONDS,
            "ActionsSuppressorExtensionPeriod": _SUPPRESSOR_EXTENSION_SECONDS,
        }
    return Alarm(kind=Kind.COMPOSITE, request=request)


def _away(subject: Subject, hiding: Sequence[str], placing: Placing) -> Alarm:
    """The whole is away, whatever says so: it tells nobody, it keeps the alerts of its parts quiet."""
    request: dict[str, Any] = {
        "AlarmName": _away_name(subject, placing),
        "AlarmDescription": f"{'/'.join(subject.values)} is away as a whole. Tells nobody; keeps alerts of its parts quiet.",
        "ActionsEnabled": False,
        "AlarmRule": " OR ".join(hiding) or "FALSE",
        "Tags": placing.tags(),
    }
    return Alarm(kind=Kind.COMPOSITE, request=request)


def _name(alert: _Alert, placing: Placing) -> str:
    return placing.name(*words(alert.rule, placing.settings), *alert.subject.values)


def _condition_name(alert: _Alert, condition: Condition, placing: Placing) -> str:
    return placing.name(*words(alert.rule, placing.settings), *alert.subject.values, f"if {condition.part}".strip())


def _away_name(subject: Subject, placing: Placing) -> str:
    return placing.name("away", *subject.values)


def _quoted(name: str) -> str:
    return f'ALARM("{name}")'
