"""The endpoint picker's own formulas, so that its choices can be told before and explained after. Pure.

Source: gateway-api-inference-extension 1.5 and llm-d-router 0.10. A picker takes what it has not read for 0: an empty queue, an
empty cache. Here such a score is absent; `saturation` counts like the picker.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from collector.scoring import Full
from collector.signals import PICKER_WEIGHTS, SCORERS

QUEUE, KV_CACHE, RUNNING, LOAD_AWARE = SCORERS
PREFIX = "prefix-cache-scorer"
LORA = "lora-affinity-scorer"


_LONG_QUEUE = 128.0
Gauges = Mapping[str, float]


def kv_score(usage: float) -> float:
    """1 for an empty KV cache, 0 for a full one."""
    return 1.0 - min(max(usage, 0.0), 1.0)


def spread_scores(sizes: Sequence[float]) -> list[float]:
    """1 for the least, 0 for the most, in between by distance, so that one request can be the whole range; all 1 when equal."""
    least, most = min(sizes, default=0.0), max(sizes, default=0.0)
    return [1.0 if most == least else (most - size) / (most - least) for size in sizes]


def load_aware_score(waiting: float, threshold: float = _LONG_QUEUE) -> float:
    """One half without a queue, 0 from the threshold on."""
    return 0.5 * (1.0 - min(waiting, threshold) / threshold)


def adapter_score(adapter: str, *, running: Collection[str], waiting: Collection[str], most: int) -> float:
    """1 where the adapter is active, 0.8 where there is room for another, 0.6 where it waits already, else 0."""
    if adapter in running:
        return 1.0
    if len(running) + len(waiting) < most:
        return 0.8
    return 0.6 if adapter in waiting else 0.0


def scores(pods: Mapping[str, Gauges]) -> dict[str, dict[str, float]]:
    """Scores of a pool's pods by scorer; of pods that tell what the scorer needs. KV-cache use is the highest over the ranks."""
    found: dict[str, dict[str, float]] = {name: {} for name in pods}
    for scorer, gauge in ((QUEUE, "requests_waiting"), (RUNNING, "requests_running")):
        sizes = {name: gauges[gauge] for name, gauges in pods.items() if gauge in gauges}
        for name, score in zip(sizes, spread_scores([*sizes.values()]), strict=True):
            found[name][scorer] = score
    for name, gauges in pods.items():
        if (usage := gauges.get("kv_cache_usage_max_ratio")) is not None:
            found[name][KV_CACHE] = kv_score(usage)
        if (waiting := gauges.get("requests_waiting")) is not None:
            found[name][LOAD_AWARE] = load_aware_score(waiting)
    return found


def total(by_scorer: Mapping[str, float], weights: Mapping[str, float] = PICKER_WEIGHTS) -> float:
    """What the picker compares: the sum of weight times score; a scorer without a score adds nothing."""
    return sum(weight * min(max(by_scorer.get(scorer, 0.0), 0.0), 1.0) for scorer, weight in weights.items())


def saturation(pods: Iterable[Gauges | None], full: Full) -> float:
    """Mean over a pool's pods of the worse of queue and KV-cache use; None is a pod without current values, and full.

    What a pod does not tell is 0 in the picker's eyes. A pool without pods is full.
    """
    loads = [1.0 if gauges is None else max(gauges.get("requests_waiting", 0.0) / full.requests_waiting,
                                            gauges.get("kv_cache_usage_max_ratio", 0.0) / full.kv_cache_usage)
             for gauges in pods]  # fmt: skip
    return sum(loads) / len(loads) if loads else 1.0
