"""What boards ask of CloudWatch, built from the table of signals: what the table does not bear out raises.

A line asks for every metric of one name and one set of dimensions, so that a new pool appears by itself. The statistics that
mean something follow from how signals are sent: a counter as the increase of a period, a gauge as a statistic set, a histogram
as values with counts, its exact sum and what was above its highest bound beside it.
"""

import re
from dataclasses import dataclass

from collector.naming import CLOUDWATCH_NAMESPACE, EXACT, LEVEL_LABELS, OVERFLOW, cloudwatch_name, find, label_names
from collector.signals import Kind, Level
from dashboards.model import Query

PERIOD_SECONDS = 60

_FOLDS = ("", "SUM", "MAX", "MIN", "AVG")
_GAUGE = re.compile("Average|Maximum|Minimum")
_HISTOGRAM = re.compile(r"p\d{1,2}(\.\d+)?|PR\([\d.]*:[\d.]*\)")
_SUFFIXED = {EXACT: re.compile("Average|Sum|SampleCount"), OVERFLOW: re.compile("Sum")}
_STATISTICS = {Kind.COUNTER: re.compile("Sum"), Kind.GAUGE: _GAUGE, Kind.HISTOGRAM: _HISTOGRAM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(Query):
    """Metrics of one name and one set of dimensions: a line each, or one for all where `fold` joins them."""

    expression: str = ""
    namespace: str = CLOUDWATCH_NAMESPACE
    metric: str
    dimensions: tuple[str, ...]
    statistic: str
    only: tuple[tuple[str, str], ...] = ()
    """Dimensions of which one value is shown."""

    per_second: bool = False
    fold: str = ""
    scale: float = 1

    def __post_init__(self) -> None:
        if self.fold not in _FOLDS:
            raise ValueError(f"{self.metric}: no fold {self.fold!r}; it is one of {', '.join(_FOLDS[1:])}")


def line(
    name: str, level: Level, statistic: str, legend: str = "", *,
    child: str = "", suffix: str = "", per_second: bool = False, fold: str = "",
) -> Line:  # fmt: skip
    """A signal of the table; `child` picks one value of its own label, `suffix` is EXACT or OVERFLOW of a histogram."""
    row = find(name, level)
    if suffix and row.kind is not Kind.HISTOGRAM:
        raise TypeError(f"{name} is a {row.kind}: only a histogram has {suffix}")
    fitting = _SUFFIXED[suffix] if suffix else _STATISTICS.get(row.kind)
    if fitting is None or not fitting.fullmatch(statistic):
        raise TypeError(f"{statistic} says nothing of {name}{suffix}, a {row.kind}")
    if per_second and statistic != "Sum":
        raise TypeError(f"{name}: only a Sum has a rate")
    if child and (not row.labels or child not in row.children):
        raise ValueError(f"{name} has no child {child!r}; it has {', '.join(row.children) or 'none'}")
    return Line(
        metric=cloudwatch_name(name, level) + suffix,
        dimensions=label_names(row, level),
        statistic=statistic,
        legend=legend,
        only=((row.labels[0], child),) if child else (),
        per_second=per_second,
        fold=fold,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What may be chosen above a board: the values of a dimension in the metrics of one name."""

    dimension: str
    metric: str
    dimensions: tuple[str, ...]
    namespace: str = CLOUDWATCH_NAMESPACE


def choices(level: Level, signal: str) -> tuple[Choice, ...]:
    """A choice per label of the level, from an ever-present signal."""
    row = find(signal, level)
    metric, dimensions = cloudwatch_name(signal, level), label_names(row, level)
    return tuple(Choice(dimension=label, metric=metric, dimensions=dimensions) for label in LEVEL_LABELS[level])
