"""From an objective to its rules: good and all requests, the share that missed, and the burn alerts."""

from collections.abc import Iterator

from alerts.model import AlertRule, Group, RecordingRule, recorded
from alerts.promql import braces, increase_of, on, within_of
from alerts.slo import BUDGET_WINDOW, BURN_WINDOWS, BurnWindow, LatencyObjective, Severity
from collector.signals import Level

_INTERVAL_SECONDS = 30


def error_ratio(objective: LatencyObjective, window: str, **matchers: str) -> str:
    """Selector of the recorded share of requests that missed the objective over a window."""
    return _series(objective, "error", f"ratio{window}", **matchers)


def burn_groups(objective: LatencyObjective) -> tuple[Group, Group]:
    """The burn windows with their alerts, and apart and less often, because costly, the whole budget."""
    windows = dict.fromkeys(window for pair in BURN_WINDOWS for window in (pair.short, pair.long))
    records = tuple(rule for window in windows for rule in _records(objective, window))
    name = f"llm_pool_slo_{objective.slug}"
    burn = Group(
        name=name,
        level=Level.POOL,
        interval_seconds=_INTERVAL_SECONDS,
        rules=(*records, *(_alert(objective, pair) for pair in BURN_WINDOWS)),
    )
    budget = tuple(_records(objective, BUDGET_WINDOW))
    return burn, Group(name=f"{name}_budget", level=Level.POOL, interval_seconds=300, rules=budget)


def _records(objective: LatencyObjective, window: str) -> Iterator[RecordingRule]:
    """Good and all requests apart, so that pools may be added, then the share; absent without requests."""
    if window.endswith("d"):
        good, total = (_summed(objective, part, window) for part in ("good", "total"))
    else:
        good = within_of(objective.signal, Level.POOL, objective.bound_seconds, window=window)
        total = increase_of(objective.signal, Level.POOL, window=window)
    increase = f"increase{window}"
    share = f"1 - {_series(objective, 'good', increase)} / ({_series(objective, 'total', increase)} > 0)"
    yield _record(objective, "good", increase, good)
    yield _record(objective, "total", increase, total)
    yield _record(objective, "error", f"ratio{window}", share)


def _summed(objective: LatencyObjective, part: str, window: str) -> str:
    # Days of raw samples cost too much every 30 s. The 5-minute increases overlap: a request is in several.
    overlap = 5 * 60 // _INTERVAL_SECONDS
    return f"sum_over_time({_series(objective, part, 'increase5m')}[{window}]) / {overlap}"


def _alert(objective: LatencyObjective, pair: BurnWindow) -> AlertRule:
    limit = f"{pair.factor:g} * {objective.budget:g}"
    conditions = (
        f"{error_ratio(objective, pair.long)} > {limit}",
        f"{error_ratio(objective, pair.short)} > {limit}",
        f"{_series(objective, 'total', f'increase{pair.long}')} >= {objective.minimum_requests}",
    )
    return AlertRule(
        name=f"LLMPool{objective.slug.upper()}BudgetBurn",
        level=Level.POOL,
        expression=f"\nand {on(Level.POOL)}\n".join(conditions),
        severity=pair.severity,
        pending="2m" if pair.severity is Severity.PAGE else "15m",
        labels=(("slo", objective.slug), ("long_window", pair.long), ("short_window", pair.short)),
        summary=f"A pool spends its error budget for {objective.title} too fast.",
        description=(
            "Pool {{ $labels.namespace }}/{{ $labels.pool }} in {{ $labels.cluster }}: "
            f"{{{{ $value | humanizePercentage }}}} of the requests of the last {pair.long} missed "
            f"{objective.bound_seconds:g} s ({objective.title}); {objective.budget * 100:g}% may, on average "
            f"over {BUDGET_WINDOW}. The limit of this alert is {pair.factor:g} times that."
        ),
    )


def _series(objective: LatencyObjective, part: str, operation: str, **matchers: str) -> str:
    return recorded(Level.POOL, f"llm_slo_{part}", operation) + braces({"slo": objective.slug, **matchers})


def _record(objective: LatencyObjective, part: str, operation: str, expression: str) -> RecordingRule:
    name = recorded(Level.POOL, f"llm_slo_{part}", operation)
    return RecordingRule(name=name, expression=expression, labels=(("slo", objective.slug),))
