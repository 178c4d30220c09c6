"""A snapshot as OpenTelemetry's metrics: the names, labels and values of our page, exact buckets, true start times. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from collector.fixed import from_fixed
from collector.naming import GEN_AI, LEVEL_LABELS, families, otlp_name, otlp_unit
from collector.signals import SIGNALS, Kind, Level, Signal
from collector.snapshot import Row, Snapshot
from collector.totals import Child
from collector.totals import Histogram as Counts

CUMULATIVE, DELTA = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA
OPERATION = "inference"
"""What engines measure as one: they do not tell chat from plain completions."""

_LARGEST_INT, _LARGEST_COUNT = 2**63 - 1, 2**64 - 1
Attributes = dict[str, str]
Point = NumberDataPoint | HistogramDataPoint


def nanoseconds(wall_seconds: float) -> int:
    """Unix time as OTLP wants it, to the microsecond: a float knows no more."""
    return round(wall_seconds * 1_000_000) * 1000


def build(snapshot: Snapshot, left_out: Counter[str], *, max_pods: int, gen_ai: bool = False) -> Iterator[Metric]:
    """Every family of the page, cumulative, one at a time: all points at once would be much to clear away.

    Pods beyond `max_pods` are left out; `gen_ai` adds the conventions' names. Points that cannot be sent are counted by reason.
    """
    at = nanoseconds(snapshot.at.wall)
    shown = {Level.POD: snapshot.pods[:max_pods], Level.POOL: snapshot.pools, Level.CLUSTER: (snapshot.cluster,)}
    labelled = {level: [(row, attributes(LEVEL_LABELS[level], row.labels)) for row in rows] for level, rows in shown.items()}
    for signal, level in families():
        points = [point for row, base in labelled.get(level, ()) for point in _points(signal, row, base, at)]
        yield from _metric(otlp_name(signal, level), signal, points, left_out)
    for name, conventional in GEN_AI.items() if gen_ai else ():
        signal = SIGNALS[name]
        points = [_histogram(signal, row.histograms[name], _gen_ai(row, base), row, at)
                  for row, base in labelled[Level.POOL] if name in row.histograms]  # fmt: skip
        yield from _metric(conventional, signal, points, left_out)


def attributes(names: Iterable[str], values: Iterable[str]) -> Attributes:
    """Labels as attributes. An empty one is left out, as it means none to Prometheus; half a character is replaced."""
    return {name: value.encode("utf-8", "replace").decode() for name, value in zip(names, values, strict=True) if value}


def _gen_ai(row: Row, base: Attributes) -> Attributes:
    told = {"gen_ai.operation.name": OPERATION, "gen_ai.provider.name": row.info.get("engine", ""),
            "gen_ai.request.model": row.info.get("model", "")}  # fmt: skip
    return base | attributes(told.keys(), told.values())


def _metric(name: str, signal: Signal, points: list[Point | str], left_out: Counter[str]) -> Iterator[Metric]:
    """The metric, if it has a point."""
    left_out.update(point for point in points if isinstance(point, str))
    sound = [point for point in points if not isinstance(point, str)]
    if sound:
        yield metric_of(name, signal.kind, sound, unit=otlp_unit(signal), help_text=signal.help)


def metric_of(name: str, kind: Kind, points: list[Point], *, unit: str, help_text: str) -> Metric:
    """One metric of cumulative points."""
    data: Gauge | Sum | Histogram
    if kind is Kind.COUNTER:
        data = Sum([point for point in points if isinstance(point, NumberDataPoint)], CUMULATIVE, is_monotonic=True)
    elif kind is Kind.HISTOGRAM:
        data = Histogram([point for point in points if isinstance(point, HistogramDataPoint)], CUMULATIVE)
    else:
        data = Gauge([point for point in points if isinstance(point, NumberDataPoint)])
    return Metric(name, help_text, unit, data)


def _points(signal: Signal, row: Row, base: Attributes, at: int) -> Iterator[Point | str]:
    """Points of a family in one row; a text where a value cannot be sent says why."""
    if signal.kind is Kind.INFO:
        told = attributes(signal.labels, (row.info.get(label, "") for label in signal.labels))
        yield NumberDataPoint(base | told, 0, at, 1)
    elif signal.kind is Kind.HISTOGRAM:
        if (counts := row.histograms.get(signal.name)) is not None:
            yield _histogram(signal, counts, base, row, at)
    else:
        values: Mapping[Child, float] = row.counters if signal.kind is Kind.COUNTER else row.gauges
        start = _start(row, at) if signal.kind is Kind.COUNTER else 0
        for child, own in _children(signal, values):
            if (value := values.get((signal.name, child))) is not None:
                yield number_point(value, base | own, start, at)


def _children(signal: Signal, values: Mapping[Child, float]) -> Iterator[tuple[str, Attributes]]:
    """Children that a family may have here with their own attributes: closed ones in their order, open ones as they are."""
    if not signal.labels:
        yield "", {}
    elif signal.children:
        for child in signal.children:
            yield child, {signal.labels[0]: str(child)}
    else:
        for child in sorted(child for known, child in values if known == signal.name):
            yield child, attributes(signal.labels, child.split("|", len(signal.labels) - 1))


def number_point(value: float, own: Attributes, start: int, at: int) -> Point | str:
    """A gauge's or counter's point; the reason where it cannot be one."""
    if isinstance(value, int) and abs(value) <= _LARGEST_INT:
        return NumberDataPoint(own, start, at, value)
    try:
        value = float(value)
    except OverflowError:
        return "out_of_range"
    return NumberDataPoint(own, start, at, value) if math.isfinite(value) else "not_finite"


def _start(row: Row, at: int) -> int:
    return at if row.began is None else min(nanoseconds(row.began), at)


def _histogram(signal: Signal, counts: Counts, own: Attributes, row: Row, at: int) -> Point | str:
    total = from_fixed(counts.sum_fixed)
    if counts.cumulative[-1] > _LARGEST_COUNT or math.isinf(total):
        return "out_of_range"
    return histogram_point(signal.ladder, counts.cumulative, total, own, _start(row, at), at)


def histogram_point(
    bounds: Iterable[float], cumulative: tuple[int, ...], total: float, own: Attributes, start: int, at: int
) -> HistogramDataPoint:  # fmt: skip
    """Counts of each bucket from cumulative ones. Scraped buckets tell no minimum and no maximum."""
    counts = per_bucket(cumulative)
    return HistogramDataPoint(own, start, at, cumulative[-1], total, counts, list(bounds), None, None)  # type: ignore[arg-type]


def per_bucket(cumulative: tuple[int, ...]) -> list[int]:
    """Counts of each bucket alone."""
    return [high - low for low, high in zip((0, *cumulative), cumulative, strict=False)]
