"""What alerts say of themselves, as metric math: one condition is one alarm on one number."""

from dataclasses import dataclass
from typing import Any

from alerts.burn import BAD_OUTCOME, GOOD_OUTCOMES
from alerts.cloudwatch.model import Placing, Subject
from alerts.cloudwatch.sheet import PERIOD_SECONDS, CannotTell, NotSent, Sheet
from alerts.durations import seconds_of
from alerts.model import Burn, Check, How, Value
from alerts.slo import LatencyObjective
from collector.naming import CLOUDWATCH_SIGNALS, EXACT, find
from collector.signals import Kind

_OPERATORS = {
    ">": "GreaterThanThreshold",
    ">=": "GreaterThanOrEqualToThreshold",
    "<": "LessThanThreshold",
    "<=": "LessThanOrEqualToThreshold",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A number that is compared with a limit, as PutMetricAlarm takes it; `part` names it where an alert has several."""

    part: str
    metrics: list[dict[str, Any]]
    comparison: str
    limit: float
    period_seconds: int
    missing: str
    """TreatMissingData: what is thought of a period without data."""

    without: tuple[str, ...] = ()
    """What the sums go without, since the subject does not send it."""


def check(told: Check, subject: Subject, placing: Placing) -> Condition:
    """A check as one condition. CannotTell where metric math cannot say it, NotSent where the subject sends nothing of it."""
    whole = (told, *told.also)
    windows = {value.window_seconds for one in whole for value in (*one.values, *one.over) if value.how is How.INCREASE}
    if len(windows) > 1:
        raise CannotTell("its increases are of different windows")
    sheet = Sheet(subject, placing.namespace, windows.pop() if windows else PERIOD_SECONDS, placing.tells)
    number = _number(told, sheet)
    if told.also:
        only = " AND ".join(f"{_number(one, sheet)} {one.comparison} {one.limit:g}" for one in told.also)
        number = f"IF({only}, {number}, {_harmless(told):g})"
    counted = all(value.how is How.INCREASE for value in told.values)
    return Condition(
        part="",
        metrics=sheet.metrics(number, told.values[0].signal),
        comparison=_operator(told.comparison),
        limit=told.limit,
        period_seconds=sheet.period_seconds,
        # Silence of counters is no event. Silence of gauges says neither good nor bad: overloaded pods fall silent.
        missing="notBreaching" if counted else "ignore",
        without=sheet.without,
    )


def burn(told: Burn, subject: Subject, placing: Placing) -> tuple[Condition, Condition]:
    """The long window, where there must be enough events, and the short one; both have to hold."""
    enough = told.objective.minimum_events
    return (
        _share(told, subject, placing, told.window.long, least=enough),
        _share(told, subject, placing, told.window.short, least=1),
    )


def _share(told: Burn, subject: Subject, placing: Placing, window: str, *, least: int) -> Condition:
    sheet = Sheet(subject, placing.namespace, seconds_of(window), placing.tells)
    objective = told.objective
    if isinstance(objective, LatencyObjective):
        sheet.sent(objective.signal)
        within = sheet.ask(objective.signal, f"PR(0:{objective.bound_seconds:g})")
        events, bad = sheet.ask(objective.signal, "SampleCount", suffix=EXACT), f"1 - {within} / 100"
    else:
        good = [sheet.ask("requests", "Sum", ("outcome", one)) for one in sheet.sent("requests", GOOD_OUTCOMES)]
        events = f"({' + '.join((*good, *_failed(sheet)))})"
        bad = f"1 - ({' + '.join(good)}) / {events}"
    return Condition(
        part=window,
        metrics=sheet.metrics(f"IF({events} >= {least}, {bad}, 0)", f"{objective.title}: share of bad events, {window}"),
        comparison=_operator(">"),
        limit=told.limit,
        period_seconds=sheet.period_seconds,
        missing="notBreaching",
        without=sheet.without,
    )


def _failed(sheet: Sheet) -> list[str]:
    """Requests that failed or were refused. NotSent where neither is told: nothing would ever be bad."""
    asked = []
    if sheet.has("requests", BAD_OUTCOME):
        asked.append(sheet.ask("requests", "Sum", ("outcome", BAD_OUTCOME)))
    if sheet.has("rejected_requests"):
        asked.append(sheet.ask("rejected_requests", "Sum"))
    if not asked:
        raise NotSent("neither failed nor refused requests")
    return asked


def _number(told: Check, sheet: Sheet) -> str:
    statistic = "Minimum" if told.comparison.startswith(">") else "Maximum"  # each sample of the period has to be beyond
    part = " + ".join(_asked(value, sheet, statistic) for value in told.values)
    if not told.over:
        return part
    whole = " + ".join(_asked(value, sheet, statistic) for value in told.over)
    return " / ".join(f"({one})" if " + " in one else one for one in (part, whole))


def _asked(value: Value, sheet: Sheet, statistic: str) -> str:
    row = find(value.signal, sheet.subject.level)
    if value.signal not in CLOUDWATCH_SIGNALS:
        raise CannotTell(f"{value.signal} is not sent to CloudWatch unless configured")
    if row.kind is Kind.HISTOGRAM or not row.labels:
        sheet.sent(value.signal)
    if row.kind is Kind.HISTOGRAM:
        return sheet.ask(value.signal, "SampleCount", suffix=EXACT)
    if not row.labels:
        return sheet.ask(value.signal, "Sum" if value.how is How.INCREASE else statistic)
    children = value.children or row.children
    if len(row.labels) > 1 or not children:
        raise CannotTell(f"{value.signal} has no closed list of children to add up")
    how = "Sum" if value.how is How.INCREASE else statistic
    return " + ".join(sheet.ask(value.signal, how, (row.labels[0], child)) for child in sheet.sent(value.signal, children))


def _operator(comparison: str) -> str:
    if comparison not in _OPERATORS:
        raise CannotTell(f"an alarm has no comparison {comparison}")
    return _OPERATORS[comparison]


def _harmless(told: Check) -> float:
    """A value that does not breach, where the other conditions do not hold."""
    if told.comparison.startswith(">"):
        return 0 if told.limit > 0 else told.limit - 1
    return told.limit + 1
