"""From an objective to its rules: good and all events, the share that missed, what is left of the budget, and the burn alerts."""

from collections.abc import Iterator

from alerts.durations import seconds_of
from alerts.model import AlertRule, Burn, Group, RecordingRule, recorded
from alerts.promql import braces, increase_of, increases_of, on, within_of
from alerts.slo import BurnWindow, LatencyObjective, Objective, Settings
from collector.signals import Level

_INTERVAL_SECONDS = 30
_BASE = "5m"
_TOPIC = "objectives"
_LONGEST_RAW_SECONDS = 12 * 3600

# An abort is the client's choice and neither good nor bad. What the engine refused for want of room never became a request.
GOOD_OUTCOMES = ("stop", "length", "other")
BAD_OUTCOME = "error"
_GOOD = f"=~{'|'.join(GOOD_OUTCOMES)}"
_JUDGED = "!=abort"


def error_ratio(objective: Objective, window: str, **matchers: str) -> str:
    """Selector of the recorded share of events that missed the objective over a window."""
    return _series(objective, "error", f"ratio{window}", matchers)


def budget_left(objective: Objective, **matchers: str) -> str:
    """Selector of the recorded share of the budget that is left; below 0 the objective is missed."""
    return _series(objective, "budget", "left", matchers)


def burn_groups(objective: Objective, settings: Settings) -> tuple[Group, Group]:
    """The burn windows with their alerts, and apart and less often, because costly, the whole budget."""
    windows = dict.fromkeys((_BASE, *(window for pair in settings.windows for window in (pair.short, pair.long))))
    records = tuple(rule for window in windows for rule in _records(objective, window, settings))
    name = f"llm_pool_slo_{objective.slug}"
    burn = Group(
        name=name,
        level=Level.POOL,
        interval_seconds=_INTERVAL_SECONDS,
        rules=(*records, *_stated(objective, settings), *(_alert(objective, pair, settings) for pair in settings.windows)),
        topic=_TOPIC,
    )
    whole = () if settings.budget_window in windows else _records(objective, settings.budget_window, settings)
    budget = (*whole, _left(objective, settings))
    return burn, Group(name=f"{name}_budget", level=Level.POOL, interval_seconds=300, rules=budget, topic=_TOPIC)


def unrecorded(told: Burn, settings: Settings) -> str:
    """The expression of a burn alert from raw series alone, for what has no recording rules."""
    objective, pair, chosen = told.objective, told.window, settings.chosen(Level.POOL)
    limit = f"{pair.factor:g} * {objective.budget:g}"
    missed = (
        f"1 - {_good(objective, window, chosen)} / ({_total(objective, window, chosen)} > 0) > {limit}"
        for window in (pair.long, pair.short)
    )
    enough = f"{_total(objective, pair.long, chosen)} >= {objective.minimum_events}"
    return f"\nand {on(Level.POOL)}\n".join((*missed, enough))


def _records(objective: Objective, window: str, settings: Settings) -> Iterator[RecordingRule]:
    """Good and all events apart, so that pools may be added, then the share; absent without events."""
    chosen = settings.chosen(Level.POOL)
    if seconds_of(window) > _LONGEST_RAW_SECONDS:
        good, total = (_summed(objective, part, window, chosen) for part in ("good", "total"))
    else:
        good, total = _good(objective, window, chosen), _total(objective, window, chosen)
    increase = f"increase{window}"
    whole = f"({_series(objective, 'total', increase, chosen)} > 0)"
    yield _record(objective, "good", increase, good)
    yield _record(objective, "total", increase, total)
    yield _record(objective, "error", f"ratio{window}", f"1 - {_series(objective, 'good', increase, chosen)} / {whole}")


def _good(objective: Objective, window: str, chosen: dict[str, str]) -> str:
    if isinstance(objective, LatencyObjective):
        return within_of(objective.signal, Level.POOL, objective.bound_seconds, window=window, **chosen)
    return increase_of("requests", Level.POOL, window=window, **chosen, outcome=_GOOD)


def _total(objective: Objective, window: str, chosen: dict[str, str]) -> str:
    if isinstance(objective, LatencyObjective):
        return increase_of(objective.signal, Level.POOL, window=window, **chosen)
    finished, refused = ("requests", {**chosen, "outcome": _JUDGED}), ("rejected_requests", chosen)
    return increases_of(finished, refused, level=Level.POOL, window=window)


def _summed(objective: Objective, part: str, window: str, chosen: dict[str, str]) -> str:
    # Days of raw samples cost too much every 30 s. The 5-minute increases overlap: an event is in several.
    overlap = seconds_of(_BASE) // _INTERVAL_SECONDS
    return f"sum_over_time({_series(objective, part, f'increase{_BASE}', chosen)}[{window}]) / {overlap}"


def _left(objective: Objective, settings: Settings) -> RecordingRule:
    spent = error_ratio(objective, settings.budget_window, **settings.chosen(Level.POOL))
    return _record(objective, "budget", "left", f"1 - {spent} / {objective.budget:g}")


def _stated(objective: Objective, settings: Settings) -> Iterator[RecordingRule]:
    """What was asked for, as series, so that boards draw the line that the rules judge by."""
    present = f"0 * {_series(objective, 'total', f'increase{_BASE}', settings.chosen(Level.POOL))}"
    yield _record(objective, "objective", "ratio", f"{present} + {objective.objective:.9g}")
    if isinstance(objective, LatencyObjective):
        yield _record(objective, "bound", "seconds", f"{present} + {objective.bound_seconds:g}")


def _alert(objective: Objective, pair: BurnWindow, settings: Settings) -> AlertRule:
    chosen = settings.chosen(Level.POOL)
    limit = f"{pair.factor:g} * {objective.budget:g}"
    conditions = (
        f"{error_ratio(objective, pair.long, **chosen)} > {limit}",
        f"{error_ratio(objective, pair.short, **chosen)} > {limit}",
        f"{_series(objective, 'total', f'increase{pair.long}', chosen)} >= {objective.minimum_events}",
    )
    return AlertRule(
        name=f"LLMPool{objective.word}BudgetBurn",
        level=Level.POOL,
        expression=f"\nand {on(Level.POOL)}\n".join(conditions),
        severity=pair.severity,
        pending_seconds=pair.pending_seconds,
        labels=(("slo", objective.slug), ("long_window", pair.long), ("short_window", pair.short)),
        summary=f"A pool spends its error budget for {objective.title} too fast.",
        description=(
            "Pool {{ $labels.namespace }}/{{ $labels.pool }} in {{ $labels.cluster }}: "
            f"{{{{ $value | humanizePercentage }}}} of the {objective.events} of the last {pair.long} {objective.missed} "
            f"({objective.title}); {objective.budget * 100:g}% may, on average over {settings.budget_window}. "
            f"The limit of this alert is {pair.factor:g} times that."
        ),
        board_uid="llm-slo",
        told=Burn(objective=objective, window=pair),
    )


def _series(objective: Objective, part: str, operation: str, matchers: dict[str, str]) -> str:
    return recorded(Level.POOL, f"llm_slo_{part}", operation) + braces({"slo": objective.slug, **matchers})


def _record(objective: Objective, part: str, operation: str, expression: str) -> RecordingRule:
    name = recorded(Level.POOL, f"llm_slo_{part}", operation)
    return RecordingRule(name=name, expression=expression, labels=(("slo", objective.slug),))
