"""What `once` prints: a table for people, JSON for programs."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.model import Failure, Reading
from collector.snapshot import Row, Snapshot
from exporter.publish.picker import entry

_COLUMNS = ("namespace", "pool", "pod", "engine", "state", "running", "waiting", "kv cache", "adapters", "model or reason")


def as_data(snapshot: Snapshot, outcomes: Sequence[Reading | Failure]) -> dict[str, Any]:
    """JSON-ready: the feed's entries with the failure beside them, and the levels above."""
    failures = {one.target.key: {"reason": one.reason, "detail": one.detail} for one in outcomes if isinstance(one, Failure)}
    cluster = snapshot.cluster.labels[0]
    targets = [
        entry(cluster, one) | {"url": one.target.url, "failure": failures.get(one.target.key)} for one in snapshot.endpoints
    ]
    pools = [dict(zip(("cluster", "namespace", "pool"), row.labels, strict=True)) | _gauges(row) for row in snapshot.pools]
    return {"targets": targets, "pools": pools, "cluster": {"cluster": cluster} | _gauges(snapshot.cluster)}


def _gauges(row: Row) -> dict[str, Any]:
    plain: dict[str, Any] = {name: value for (name, child), value in row.gauges.items() if not child}
    return plain | {"pods": {child: int(value) for (name, child), value in row.gauges.items() if name == "pods"}}


def print_table(snapshot: Snapshot, outcomes: Sequence[Reading | Failure], console: Console) -> None:
    """One line a target."""
    console.print(make_table(snapshot, [one for one in outcomes if isinstance(one, Failure)]))


def make_table(snapshot: Snapshot, failed: Sequence[Failure]) -> Table:
    """One line a target, with what went wrong at the end."""
    failures = {one.target.key: one for one in failed}
    table = Table(box=None, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in ("running", "waiting", "kv cache") else "left", overflow="fold")
    for one in sorted(snapshot.endpoints, key=lambda one: (one.target.pool_key, one.target.pod, one.target.key)):
        seen = entry("", one)
        failure = failures.get(one.target.key)
        usage = seen["kv_cache_usage_ratio"]
        cells = (
            one.target.namespace, one.target.pool, one.target.pod, one.engine or "-", one.state, _text(seen["requests_running"]),
            _text(seen["requests_waiting"]), "-" if usage is None else f"{usage:.1%}", _names(seen["adapters"]),
            f"{failure.reason}: {failure.detail}" if failure else one.model or "-",
        )  # fmt: skip
        table.add_row(*map(plain, cells))
    return table


def open_console() -> Console:
    """stdout, wide enough for whole lines where nobody looks at it."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def plain(text: str, style: str = "") -> Text:
    """Text as it stands: names come from the engines, and must not be markup or move a terminal's cursor."""
    return Text("".join(char if char.isprintable() else "?" for char in text), style=style)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _names(adapters: dict[str, Any] | None) -> str:
    if adapters is None or adapters["running"] is None:
        return "-"
    return ",".join(adapters["running"]) or "none"
