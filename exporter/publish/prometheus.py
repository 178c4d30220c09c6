"""The /metrics page: text format 0.0.4 or OpenMetrics 1.0, written family by family from the table."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from math import inf

from collector.fixed import from_fixed
from collector.naming import LEVEL_LABELS, bound_label, families, prometheus_name
from collector.signals import Kind, Level, Signal
from collector.snapshot import Row, Snapshot
from collector.totals import Child, Histogram
from exporter.accept import weights


class Format(StrEnum):
    """The two text formats; the value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def choose_format(accept: str) -> Format:
    """OpenMetrics for who asks for it and does not like plain text better, else plain text."""
    wanted = weights(accept)
    openmetrics = wanted.get("application/openmetrics-text", 0.0)
    return Format.OPENMETRICS if openmetrics and openmetrics >= wanted.get("text/plain", 0.0) else Format.TEXT


def render(snapshot: Snapshot, form: Format, *, max_pods: int) -> tuple[str, int]:
    """The page without its end mark, and the number of samples on it. Pods beyond `max_pods` are left out."""
    shown = {Level.POD: snapshot.pods[:max_pods], Level.POOL: snapshot.pools, Level.CLUSTER: (snapshot.cluster,)}
    labelled = {level: [(row, write_labels(LEVEL_LABELS[level], row.labels)) for row in rows] for level, rows in shown.items()}
    lines: list[str] = []
    count = 0
    for signal, level in families():
        name = prometheus_name(signal, level)
        samples = [line for row, labels in labelled.get(level, ()) for line in _samples(signal, name, row, labels)]
        if samples:
            lines += _head(signal, name, form)
            lines += samples
            count += len(samples)
    return "\n".join(lines) + "\n" if lines else "", count


def _head(signal: Signal, name: str, form: Format) -> tuple[str, str]:
    if form is Format.OPENMETRICS:
        name = name.removesuffix("_total")
    return f"# HELP {name} {signal.help}", f"# TYPE {name} {declared_type(signal)}"


def declared_type(signal: Signal) -> str:
    """The kind in the words of the format, which calls quantiles over a sliding window a summary."""
    if "quantile" in signal.labels:
        return "summary"
    return Kind.GAUGE if signal.kind is Kind.INFO else signal.kind


def _samples(signal: Signal, name: str, row: Row, labels: str) -> list[str]:
    if signal.kind is Kind.INFO:
        own = write_labels(signal.labels, (row.info.get(label, "") for label in signal.labels))
        return [f"{name}{{{labels},{own}}} 1"]
    if signal.kind is Kind.HISTOGRAM:
        histogram = row.histograms.get(signal.name)
        return [] if histogram is None else _buckets(name, labels, signal.ladder, histogram)
    values: Mapping[Child, float] = row.counters if signal.kind is Kind.COUNTER else row.gauges
    if not signal.labels:
        value = values.get((signal.name, ""))
        return [] if value is None else [f"{name}{{{labels}}} {write_number(value)}"]
    # Closed children come in their order; open ones (adapters, quantiles) as they are, a child holding a value for each label.
    children = signal.children or sorted(child for known, child in values if known == signal.name)
    return [f"{name}{{{labels},{_own_labels(signal, child)}}} {write_number(value)}"
            for child in children if (value := values.get((signal.name, child))) is not None]  # fmt: skip


def _own_labels(signal: Signal, child: str) -> str:
    if signal.children:
        return f'{signal.labels[0]}="{child}"'
    return write_labels(signal.labels, child.split("|", len(signal.labels) - 1))


@lru_cache(maxsize=64)
def _bound_labels(ladder: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f'le="{bound_label(bound)}"' for bound in (*ladder, float("inf")))


def _buckets(name: str, labels: str, ladder: tuple[float, ...], histogram: Histogram) -> list[str]:
    head = f"{name}_bucket{{{labels},"
    lines = [f"{head}{bound}}} {count}" for bound, count in zip(_bound_labels(ladder), histogram.cumulative, strict=True)]
    lines.append(f"{name}_sum{{{labels}}} {write_number(from_fixed(histogram.sum_fixed))}")
    lines.append(f"{name}_count{{{labels}}} {histogram.cumulative[-1]}")
    return lines


def write_labels(names: Iterable[str], values: Iterable[str]) -> str:
    """`a="x",b="y"`, values escaped as both formats ask."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_number(value: float) -> str:
    """Whole numbers without a point, others with all their digits."""
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15) else repr(value)
