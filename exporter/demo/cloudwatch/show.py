"""What arrived, in words: one line a request, then a line for each pool that it speaks of."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from collector.naming import EXACT, cloudwatch_name
from collector.signals import Level
from exporter.demo.cloudwatch.server import Received
from exporter.demo.cloudwatch.store import Bin

_SHOWN = (
    ("requests", "requests", "Sum", "{:.0f}"),
    ("tokens", "generation_tokens", "Sum", "{:.0f}"),
    ("waiting up to", "requests_waiting", "Maximum", "{:.0f}"),
    ("KV cache up to", "kv_cache_usage_ratio", "Maximum", "{:.0%}"),
    ("TTFT p50", "time_to_first_token_seconds", "p50", "{:.3f} s"),
    ("p99", "time_to_first_token_seconds", "p99", "{:.3f} s"),
)


def describe(received: Received) -> Iterator[str]:
    """Lines for one request that was taken."""
    stamps = sorted({datum["Timestamp"] for datum in received.data})
    moments = ", ".join(time.strftime("%H:%M:%S", time.gmtime(stamp)) for stamp in stamps)
    packed = "gzip" if received.packed else "plain"
    yield f"CloudWatch took {len(received.data)} data of {moments} UTC ({received.size:,} bytes, {packed})"
    for pool, bins in sorted(_by_pool(received).items()):
        named = (
            (label, form, statistic, bins.get(cloudwatch_name(signal, Level.POOL))) for label, signal, statistic, form in _SHOWN
        )
        told = ((label, form, one.statistic(statistic)) for label, form, statistic, one in named if one is not None)
        cells = [f"{label} {form.format(value)}" for label, form, value in told if value is not None]
        exact = bins.get(cloudwatch_name("time_to_first_token_seconds", Level.POOL) + EXACT)
        mean = [f"mean {exact.statistic('Average'):.3f} s"] if exact else []
        yield f"  {pool:12} {', '.join(cells + mean)}"


def _by_pool(received: Received) -> dict[str, dict[str, Bin]]:
    """Bins by pool and metric; outcomes of a counter together."""
    found: dict[str, dict[str, Bin]] = defaultdict(dict)
    for datum in received.data:
        where: dict[str, Any] = {one["Name"]: one["Value"] for one in datum.get("Dimensions", ())}
        if "pool" in where and "pod" not in where:
            found[where["pool"]].setdefault(datum["MetricName"], Bin()).add(datum)
    return found
