"""Load of pods as one number: saturation and imbalance. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Full:
    """What counts as a full pod: this many waiting requests, or this share of the KV cache."""

    requests_waiting: float = 5.0
    kv_cache_usage: float = 0.8


def saturation(gauges: Mapping[str, float], full: Full) -> float | None:
    """How full a pod is by the worse of its signals, 1 being full; None when it tells neither."""
    loads = []
    if (waiting := gauges.get("requests_waiting")) is not None:
        loads.append(waiting / full.requests_waiting)
    if (usage := gauges.get("kv_cache_usage_ratio")) is not None:
        loads.append(usage / full.kv_cache_usage)
    return max(loads, default=None)


def load(gauges: Mapping[str, float]) -> float | None:
    """Requests in a pod's hands; None when it does not tell both."""
    running, waiting = gauges.get("requests_running"), gauges.get("requests_waiting")
    return None if running is None or waiting is None else running + waiting


def imbalance(loads: Sequence[float]) -> float | None:
    """Highest load over the mean; None when there is none."""
    total = math.fsum(loads)
    return max(loads) * len(loads) / total if total > 0 else None


def variation(loads: Sequence[float]) -> float | None:
    """Standard deviation of the loads over their mean; None when there is none."""
    total = math.fsum(loads)
    if total <= 0:
        return None
    mean = total / len(loads)
    return math.sqrt(math.fsum((load - mean) ** 2 for load in loads) / len(loads)) / mean
