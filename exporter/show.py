"""What `top` puts on the screen: a table that renews itself on a terminal, one after another in a pipe."""

import time
from collections.abc import Callable

import click
import msgspec
from rich.console import Group
from rich.live import Live

from collector.model import Failure
from collector.snapshot import Snapshot
from exporter.config import Config
from exporter.hub import Hub
from exporter.table import as_data, make_table, open_console, plain
from exporter.top import watch


async def show_live(config: Config, *, every_seconds: float, times: int | None, as_json: bool) -> None:
    """Show the targets until told to stop."""
    console = open_console()
    if as_json or not console.is_terminal:

        def show(hub: Hub) -> None:
            if as_json:
                click.echo(msgspec.json.encode(data(hub)))
            else:
                console.print(screen(hub))

        return await watch(config, show, every_seconds=every_seconds, times=times)
    with Live(console=console, screen=times is None, auto_refresh=False) as live:
        await watch(config, lambda hub: live.update(screen(hub), refresh=True), every_seconds=every_seconds, times=times)
    return None


def data(hub: Hub) -> dict[str, object]:
    """JSON-ready, on one line a look."""
    snapshot = hub.snapshot()
    return {"at": snapshot.at.wall, **as_data(snapshot, _failures(snapshot))}


def _failures(snapshot: Snapshot) -> list[Failure]:
    return [one.failure for one in snapshot.endpoints if one.failure is not None]


def screen(hub: Hub, now: Callable[[], time.struct_time] = time.localtime) -> Group:
    """A line on the whole, then the targets."""
    snapshot = hub.snapshot()
    gauges = {name: value for (name, child), value in snapshot.cluster.gauges.items() if not child}
    parts = [f"{snapshot.cluster.labels[0]} {time.strftime('%H:%M:%S', now())}"]
    parts += [f"{int(count)} {state}" for (name, state), count in snapshot.cluster.gauges.items() if name == "pods" and count]
    parts += [f"{text} {gauges[name]:{form}}" for name, text, form in (
        ("requests_running", "running", "g"), ("requests_waiting", "waiting", "g"), ("kv_cache_usage_ratio", "kv cache", ".1%"),
        ("saturation_ratio", "saturation", ".2f"), ("imbalance_ratio", "imbalance", ".2f")) if name in gauges]  # fmt: skip
    head = plain(" · ".join(parts), "bold")
    return Group(head, make_table(snapshot, _failures(snapshot)))
