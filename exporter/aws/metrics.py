"""Which metrics the pools of an account send."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collector.naming import CLOUDWATCH_SIGNALS, LEVEL_LABELS, cloudwatch_name
from collector.signals import SIGNALS, Fold, Level
from exporter.aws.client import plain_failures

_LABELS = LEVEL_LABELS[Level.POOL]
_RECENT = "PT3H"
"""The one span that ListMetrics takes; without it a metric is listed for two weeks after its last value."""

Pool = tuple[str, ...]
Sent = Mapping[Pool, frozenset[tuple[str, str]]]
"""By pool: name of a metric, and the value of the signal's own label or nothing."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What pools sent within three hours, and within two weeks."""

    recent: Sent
    listed: Sent

    def pools(self) -> list[Pool]:
        """Pools that an exporter speaks of now, sorted."""
        reporting = (cloudwatch_name("reporting_ratio", Level.POOL), "")
        return sorted(pool for pool, metrics in self.recent.items() if reporting in metrics)

    def knows(self, pool: Pool) -> bool:
        """Whether anything is listed that an engine of the pool told."""
        metrics = self.listed.get(pool, frozenset())
        return any(name in _TOLD for name, _ in metrics)

    def tells(self, pool: Pool, signal: str, child: str = "") -> bool:
        """Whether the pool sends it.

        Latencies and ratios are silent while nothing happens, as at night, counters while all pods are: what is listed counts.
        But counters of one signal come together, so a child that is silent beside another is of an engine that is gone.
        """
        name = cloudwatch_name(signal, Level.POOL)
        recent = {own for known, own in self.recent.get(pool, ()) if known == name}
        return child in recent if recent else (name, child) in self.listed.get(pool, ())


_TOLD = {cloudwatch_name(name, Level.POOL) for name in CLOUDWATCH_SIGNALS if SIGNALS[name].fold is not Fold.DERIVED}


def sending(client: Any, namespace: str) -> Sending:
    """What the pools of an account send into a namespace."""
    return Sending(_sent(client, Namespace=namespace, RecentlyActive=_RECENT), _sent(client, Namespace=namespace))


def _sent(client: Any, **asked: str) -> Sent:
    found: dict[Pool, set[tuple[str, str]]] = {}
    for name, dimensions in _listed(client, asked):
        own = dimensions.keys() - set(_LABELS)
        if len(dimensions) == len(_LABELS) + len(own) and own.isdisjoint(LEVEL_LABELS[Level.POD]) and len(own) <= 1:
            pool = tuple(dimensions[label] for label in _LABELS)
            found.setdefault(pool, set()).add((name, "".join(dimensions[label] for label in own)))
    return {pool: frozenset(metrics) for pool, metrics in found.items()}


def _listed(client: Any, asked: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    with plain_failures():
        for page in client.get_paginator("list_metrics").paginate(**asked):
            for one in page["Metrics"]:
                yield one["MetricName"], {dimension["Name"]: dimension["Value"] for dimension in one["Dimensions"]}
