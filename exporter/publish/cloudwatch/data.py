"""A window to data points: names, units and dimensions are the contract of docs/cloudwatch.md."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from collector.fixed import from_fixed
from collector.naming import EXACT, LEVEL_LABELS, OVERFLOW, cloudwatch_name, cloudwatch_unit
from collector.signals import SIGNALS, Level
from collector.totals import Child
from exporter.publish.cloudwatch.spread import Spread, merge, spread
from exporter.publish.cloudwatch.window import Gain, Place, Statistics, Subject, Window

Dimensions = tuple[tuple[str, str], ...]
HEARTBEAT = "cloudwatch_writers"


@dataclass(frozen=True, slots=True)
class Datum:
    """One metric in one window: a single value, a statistic set, or values with counts."""

    name: str
    dimensions: Dimensions
    unit: str
    value: float | Statistics | Spread

    @property
    def identity(self) -> tuple[str, Dimensions]:
        """What CloudWatch bills as one metric."""
        return self.name, self.dimensions


def numbers(value: float | Statistics | Spread) -> tuple[float, ...]:
    """All numbers of a value, for checks."""
    match value:
        case Statistics():
            return (value.count, value.total, value.low, value.high)
        case Spread():
            return (*value.values, *value.counts)
    return (value,)


def make_data(window: Window, *, most_values: int) -> Iterator[tuple[Place, Datum]]:
    """Every datum of a window with the place it speaks of, the cluster first: what a cap keeps back is of pods."""
    for place, subject in sorted(window.subjects.items(), key=lambda one: len(one[0][1])):
        for datum in _of_subject(place, subject, most_values):
            yield place, datum


def heartbeat(cluster: str) -> Datum:
    """One for each writer: the Sum over one period is the number of exporters that write for this cluster."""
    name, unit = _named(HEARTBEAT, Level.EXPORTER)
    return Datum(name, (("cluster", cluster),), unit, 1.0)


def _of_subject(place: Place, subject: Subject, most_values: int) -> Iterator[Datum]:
    level, labels = place
    own = tuple(zip(LEVEL_LABELS[level], labels, strict=True))
    counters = [(child, _number(total)) for child, total in subject.counters.items()]
    values: list[tuple[Child, float | Statistics]] = [*subject.gauges.items(), *counters]
    for (signal, child), value in values:
        if level in SIGNALS[signal].levels:
            name, unit = _named(signal, level)
            yield Datum(name, own + _child(signal, child), unit, value)
    for signal, gain in subject.histograms.items():
        if level in SIGNALS[signal].levels:
            yield from _of_histogram(signal, level, own, gain, most_values)


def _of_histogram(signal: str, level: Level, own: Dimensions, gain: Gain, most_values: int) -> Iterator[Datum]:
    """Percentiles, the exact sum, and what lies above the top, all or none: without an observation nothing is known."""
    bounds, cumulative = merge(gain.ladders, SIGNALS[signal].ladder, most_values)
    count = cumulative[-1]
    if count <= 0:
        return
    name, unit = _named(signal, level)
    points = spread(bounds, cumulative, most_values)
    if points.values:
        yield Datum(name, own, unit, points)
    total = from_fixed(gain.sum_fixed)
    mean = total / count
    yield Datum(name + EXACT, own, unit, Statistics(count, total, min(points.low, mean), max(points.high, mean)))
    yield Datum(name + OVERFLOW, own, "Count", float(points.overflow))


def _number(whole: int) -> float:
    """Infinity for what no float can hold: the checks leave it out like any other that is no number."""
    try:
        return float(whole)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=1024)
def _named(signal: str, level: Level) -> tuple[str, str]:
    return cloudwatch_name(signal, level), cloudwatch_unit(signal, level)


def _child(signal: str, child: str) -> Dimensions:
    labels = SIGNALS[signal].labels
    return tuple(zip(labels, str(child).split("|", len(labels) - 1), strict=False)) if labels else ()


def as_parameter(datum: Datum, *, start: float, resolution: int) -> dict[str, Any]:
    """The datum as PutMetricData wants it."""
    made: dict[str, Any] = {
        "MetricName": datum.name, "Dimensions": [{"Name": name, "Value": value} for name, value in datum.dimensions],
        "Timestamp": int(start), "Unit": datum.unit, "StorageResolution": resolution,
    }  # fmt: skip
    match datum.value:
        case Statistics() as seen:
            made["StatisticValues"] = {
                "SampleCount": float(seen.count),
                "Sum": seen.total,
                "Minimum": seen.low,
                "Maximum": seen.high,
            }
        case Spread() as points:
            made["Values"], made["Counts"] = list(points.values), [float(count) for count in points.counts]
        case value:
            made["Value"] = float(value)
    return made
