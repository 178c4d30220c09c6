"""The endpoint picker's feed: one entry a target, unknown is null, load only while it is current."""

from collections.abc import Sequence
from typing import Any

from collector.model import Adapters
from collector.signals import State
from collector.snapshot import Endpoint

LOAD = ("requests_running", "requests_waiting", "kv_cache_usage_ratio", "prefix_cache_hit_ratio")
FILTERS = ("namespace", "pool", "state")


class UnknownFilter(ValueError):
    """A query parameter or value that the feed does not know."""


def entry(cluster: str, endpoint: Endpoint) -> dict[str, Any]:
    """One target as JSON-ready data. KV use is the highest over the ranks: a request lands on one of them."""
    gauges = endpoint.gauges
    return {
        "cluster": cluster,
        "namespace": endpoint.target.namespace,
        "pool": endpoint.target.pool,
        "pod": endpoint.target.pod,
        "address": endpoint.target.address,
        "engine": endpoint.engine or None,
        "model": endpoint.model or None,
        "state": endpoint.state.value,
        "sampled_at": endpoint.sampled_at,
        "age_seconds": endpoint.age_seconds,
        "requests_running": _whole(gauges.get("requests_running")),
        "requests_waiting": _whole(gauges.get("requests_waiting")),
        "kv_cache_usage_ratio": gauges.get("kv_cache_usage_max_ratio"),
        "prefix_cache_hit_ratio": endpoint.prefix_cache_hit_ratio,
        "adapters": _adapters(endpoint.adapters),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _adapters(adapters: Adapters | None) -> dict[str, Any] | None:
    if adapters is None or (adapters.running is None and adapters.waiting is None):
        return None
    lists = {what: None if names is None else sorted(names)
             for what, names in (("running", adapters.running), ("waiting", adapters.waiting))}  # fmt: skip
    return {**lists, "max": adapters.max}


def select(entries: Sequence[dict[str, Any]], query: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Entries that fit the query: repeated parameters mean or. UnknownFilter for what cannot be meant."""
    wanted: dict[str, set[str]] = {}
    for name, value in query:
        if name not in FILTERS:
            raise UnknownFilter(f"unknown parameter {name!r}; known: {', '.join(FILTERS)}")
        wanted.setdefault(name, set()).add(value)
    known = {name: {entry[name] for entry in entries} for name in ("namespace", "pool")} | {"state": {*map(str, State)}}
    for name, values in wanted.items():
        if unknown := sorted(values - known[name]):
            raise UnknownFilter(f"unknown {name} {unknown[0]!r}; known: {', '.join(sorted(known[name])) or 'none'}")
    return [entry for entry in entries if all(entry[name] in values for name, values in wanted.items())]


class Edition:
    """Numbers the feed: the number changes whenever a value or a state changes.

    `first` must lie beyond the numbers of the process before, or a picker that holds its tag is told that nothing changed.
    """

    TIMES = ("sampled_at", "age_seconds")

    def __init__(self, first: int = 0) -> None:
        self.number = first
        self._last: list[dict[str, Any]] | None = None

    def of(self, entries: Sequence[dict[str, Any]]) -> int:
        timeless = [{name: value for name, value in one.items() if name not in self.TIMES} for one in entries]
        if timeless != self._last:
            self._last = timeless
            self.number += 1
        return self.number
