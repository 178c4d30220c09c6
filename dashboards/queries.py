"""What boards of one level share: the choices above them, their matchers, legends and commonest queries."""

from alerts.promql import RATE_INTERVAL, fold_of, quantile_of, selector
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.model import Query, Variable


def chosen(level: Level) -> dict[str, str]:
    """Matchers of what is chosen above a board."""
    return {label: f"=~${label}" for label in LEVEL_LABELS[level]}


def choices(level: Level, name: str) -> tuple[Variable, ...]:
    """A variable per label of the level, each narrowed by those before it, from an ever-present signal."""
    labels = LEVEL_LABELS[level]
    scopes = [{label: f"=~${label}" for label in labels[:at]} for at in range(len(labels))]
    series = [selector(name, level, **scope) for scope in scopes]
    return tuple(Variable(label, f"label_values({one}, {label})") for label, one in zip(labels, series, strict=True))


def who(level: Level) -> str:
    """Legend that tells any two series of a level apart."""
    return "/".join(f"{{{{{label}}}}}" for label in LEVEL_LABELS[level])


def quantiles(name: str, level: Level, *points: float) -> tuple[Query, ...]:
    """Quantiles of a histogram, one query each."""
    query = {q: quantile_of(q, name, level, window=RATE_INTERVAL, **chosen(level)) for q in points}
    return tuple(Query(query[q], f"{who(level)} p{q * 100:g}") for q in points)


def gauge(how: str, name: str, level: Level, legend: str = "") -> Query:
    """A gauge at its level. `how` folds what several exporters may say of the same thing for a moment."""
    return Query(fold_of(how, name, level, **chosen(level)), f"{who(level)} {legend}".strip())
