"""Which metrics an account has."""

from collections.abc import Sequence
from typing import Any

from exporter.aws.client import plain_failures


def sent(client: Any, namespace: str, metric: str, dimensions: Sequence[str]) -> list[tuple[str, ...]]:
    """Values of the dimensions, sorted, of metrics of that name with exactly these that were written within three hours."""
    found = set()
    with plain_failures():
        pages = client.get_paginator("list_metrics").paginate(Namespace=namespace, MetricName=metric, RecentlyActive="PT3H")
        for page in pages:
            for one in page["Metrics"]:
                values = {dimension["Name"]: dimension["Value"] for dimension in one["Dimensions"]}
                if set(values) == set(dimensions):
                    found.add(tuple(values[name] for name in dimensions))
    return sorted(found)
