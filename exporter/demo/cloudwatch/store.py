"""What was taken: data by metric and moment, and the statistics that the service makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Dimensions = tuple[tuple[str, str], ...]
Key = tuple[str, str, Dimensions]
"""Namespace, metric name, dimensions in the order of their names."""


@dataclass(slots=True)
class Bin:
    """All that was written of a metric for one moment. Percentiles need single values: a statistic set of several has none."""

    count: float = 0.0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    values: dict[float, float] | None = field(default_factory=dict)

    def add(self, datum: Mapping[str, Any]) -> None:
        if "StatisticValues" in datum:
            seen = datum["StatisticValues"]
            single = seen["Minimum"] == seen["Maximum"] or seen["SampleCount"] == 1
            self._grow(seen["SampleCount"], seen["Sum"], seen["Minimum"], seen["Maximum"])
            pairs = [(seen["Minimum"], seen["SampleCount"])] if single else None
        else:
            values = datum.get("Values", [datum.get("Value")])
            pairs = list(zip(values, datum.get("Counts", [1.0] * len(values)), strict=True))
            total = sum(value * count for value, count in pairs)
            self._grow(sum(count for _, count in pairs), total, min(values), max(values))
        self._keep(pairs)

    def merge(self, other: Bin) -> None:
        self._grow(other.count, other.total, other.low, other.high)
        self._keep(None if other.values is None else other.values.items())

    def _grow(self, count: float, total: float, low: float, high: float) -> None:
        self.count, self.total = self.count + count, self.total + total
        self.low, self.high = min(self.low, low), max(self.high, high)

    def _keep(self, pairs: Iterable[tuple[float, float]] | None) -> None:
        if pairs is None or self.values is None:
            self.values = None
            return
        for value, count in pairs:
            self.values[value] = self.values.get(value, 0.0) + count

    def statistic(self, name: str) -> float | None:
        """Sum, SampleCount, Average, Minimum, Maximum, or a percentile such as p99.9; None where there is none."""
        plain = {"Sum": self.total, "SampleCount": self.count, "Average": self.total / self.count, "Minimum": self.low,
                 "Maximum": self.high}  # fmt: skip
        if name in plain:
            return plain[name]
        return None if self.values is None else percentile(self.values, float(name.removeprefix("p")) / 100)


def percentile(values: Mapping[float, float], point: float) -> float:
    """The smallest value that so much of all lies at or below."""
    total = sum(values.values())
    below = 0.0
    for value in sorted(values):
        below += values[value]
        if below >= point * total:
            break
    return value


@dataclass(slots=True)
class Store:
    """Every metric ever written."""

    bins: dict[Key, dict[float, Bin]] = field(default_factory=lambda: defaultdict(dict))
    units: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))

    def put(self, namespace: str, data: Iterable[Mapping[str, Any]], now: float) -> None:
        for datum in data:
            key = key_of(namespace, datum)
            self.units[key].add(datum.get("Unit", "None"))
            self.bins[key].setdefault(float(datum.get("Timestamp", now)), Bin()).add(datum)

    def periods(self, key: Key, *, start: float, end: float, period: float) -> Iterator[tuple[float, Bin]]:
        """Bins from `start` up to `end`, merged by period, oldest first."""
        merged: dict[float, Bin] = {}
        for at, one in self.bins.get(key, {}).items():
            if start <= at < end:
                merged.setdefault(at // period * period, Bin()).merge(one)
        yield from sorted(merged.items())


def key_of(namespace: str, metric: Mapping[str, Any]) -> Key:
    dimensions = sorted((one["Name"], one["Value"]) for one in metric.get("Dimensions") or [])
    return namespace, metric["MetricName"], tuple(dimensions)
