"""One server-rendered table of pools and pods; renews itself without losing the reader's place."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from collector.signals import State
from collector.snapshot import Endpoint, Row, Snapshot
from exporter.publish.picker import entry

_STYLE = (files("exporter.web") / "style.css").read_text(encoding="utf-8")
_RENEW = """
let asking = false;
let heard = Date.now();
setInterval(async () => {
  const silent = Math.round((Date.now() - heard) / 1000);
  document.body.classList.toggle("silent", silent > 5);
  document.querySelector("#silence").textContent = `No answer from the exporter for ${silent} s: nothing below is current.`;
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(3000), cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = page.querySelector("main");
    if (answer.ok && main) {
      document.querySelector("main").replaceWith(main);
      heard = Date.now();
    }
  } catch {} finally { asking = false; }
}, 2000);
"""
_POOL_HEAD = ("Pool", "Pods", "Saturation", "Running", "Waiting", "KV cache", "Prefix hits", "Imbalance", "Errors", "Finished",
              "Engine", "Model")  # fmt: skip
_POD_HEAD = ("Pod", "Engine", "Accelerator", "State", "Age", "Running", "Waiting", "KV cache", "Prefix hits", "Adapters")
_MEANING = {
    State.FRESH: "its values are current",
    State.WARMING: "a new process that has done nothing yet",
    State.NO_PROGRESS: "it shows work, and its step counter stands still",
    State.STALE: "no good sample lately: its load is not known",
    State.TERMINATING: "it is being taken away",
    State.DOWN: "attempts fail and there was no good sample for long",
}
_HEAD_MEANING = {
    "Pods": "those with current values, of all that are known",
    "KV cache": "share in use",
    "Prefix hits": "share of looked-up prompt tokens found in the prefix cache, over the window",
    "Saturation": "mean of the pods' fuller one of queue and KV cache over their limits; from 1 on there is no room",
    "Imbalance": "load of the busiest pod over the mean; 1 is even",
    "Errors": "share of finished requests that failed, over the window",
    "Finished": "requests since the exporter began to watch",
    "Age": "time since the last good sample",
    "Adapters": "LoRA adapters with work, of how many fit",
}
_TEXT = frozenset({"Pool", "Pod", "Model", "Engine", "Accelerator", "State", "Adapters"})
_ABSENT = '<span class="absent" title="not known">–</span>'


def render_page(snapshot: Snapshot) -> str:
    """The whole page as HTML."""
    cluster = escape(snapshot.cluster.labels[0])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{cluster} · llm-fleet-exporter</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f'<noscript><meta http-equiv="refresh" content="2"></noscript><style>{_STYLE}</style></head><body>'
        f'<p id="silence" role="alert"></p><main>{_main(snapshot)}</main>'
        f"<script>{_RENEW}</script></body></html>\n"
    )


def _main(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    counts = ", ".join(f"{int(count)} {state}" for state in State if (count := cluster.gauges.get(("pods", state), 0.0)))
    parts = [
        f"<h1>Cluster {escape(cluster.labels[0])}</h1>",
        f'<p class="quiet">{counts or "no pods"} · <a href="/metrics">/metrics</a> · '
        '<a href="/picker/v1/endpoints">/picker/v1/endpoints</a> · renewed every 2 s · – means not known</p>',
        "<h2>Pools</h2>",
        _table(_POOL_HEAD, (_line(_POOL_HEAD, _pool_cells(row)) for row in snapshot.pools)),
        "<h2>Pods</h2>",
        _table(_POD_HEAD, _pod_lines(snapshot)),
    ]
    return "".join(parts)


def _pod_lines(snapshot: Snapshot) -> Iterable[str]:
    for row in snapshot.pools:
        members = (one for one in snapshot.endpoints if one.target.pool_key == row.labels[1:])
        yield f'<tr class="group"><th colspan="{len(_POD_HEAD)}">{escape("/".join(row.labels[1:]))}</th></tr>'
        for one in sorted(members, key=lambda one: (one.target.pod, one.target.key)):
            yield _line(_POD_HEAD, _pod_cells(one))


def _kind(name: str) -> str:
    return ' class="text"' if name in _TEXT else ""


def _title(name: str) -> str:
    return f' title="{escape(_HEAD_MEANING[name])}"' if name in _HEAD_MEANING else ""


def _line(head: tuple[str, ...], cells: list[str]) -> str:
    return "<tr>" + "".join(f"<td{_kind(name)}>{cell}</td>" for name, cell in zip(head, cells, strict=True)) + "</tr>"


def _table(head: tuple[str, ...], lines: Iterable[str]) -> str:
    top = "".join(f"<th{_kind(name)}{_title(name)}>{name}</th>" for name in head)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _pool_cells(row: Row) -> list[str]:
    gauge = {name: value for (name, child), value in row.gauges.items() if not child}
    reporting = sum(int(row.gauges[("pods", state)]) for state in (State.FRESH, State.WARMING, State.NO_PROGRESS))
    known = sum(int(row.gauges[("pods", state)]) for state in State)
    finished = [count for (name, _), count in row.counters.items() if name == "requests"]
    return [
        escape("/".join(row.labels[1:])), f"{reporting} of {known}", _fill(gauge.get("saturation_ratio")),
        _count(gauge.get("requests_running")), _count(gauge.get("requests_waiting")), _share(gauge.get("kv_cache_usage_ratio")),
        _percent(gauge.get("prefix_cache_hit_ratio")), _decimal(gauge.get("imbalance_ratio")), _percent(gauge.get("error_ratio")),
        f"{sum(finished):,}" if finished else _ABSENT,
        *(escape(row.info[fact]) or _ABSENT for fact in ("engine", "model")),
    ]  # fmt: skip


def _pod_cells(endpoint: Endpoint) -> list[str]:
    seen = entry("", endpoint)
    age = seen["age_seconds"]
    return [
        escape(endpoint.target.pod),
        escape(endpoint.engine) or _ABSENT,
        escape(endpoint.target.accelerator) or _ABSENT,
        _state(endpoint),
        _ABSENT if age is None else f"{age:.1f} s",
        _count(seen["requests_running"]),
        _count(seen["requests_waiting"]),
        _share(seen["kv_cache_usage_ratio"]),
        _percent(seen["prefix_cache_hit_ratio"]),
        _adapters(seen["adapters"]),
    ]


def _state(endpoint: Endpoint) -> str:
    """The state, and beside it why the last attempt failed."""
    state, failure = endpoint.state, endpoint.failure
    why = "" if failure is None else f' <span class="absent" title="{escape(failure.detail)}">{failure.reason}</span>'
    return f'<span class="state {state}" title="{_MEANING[state]}">{state}</span>{why}'


def _adapters(adapters: dict[str, list[str] | int | None] | None) -> str:
    names = adapters["running"] if adapters else None
    if adapters is None or not isinstance(names, list):
        return _ABSENT
    most = adapters["max"]
    shown = ", ".join(names) or "none"
    return escape(shown) + ("" if most is None else f' <span class="absent">of {most}</span>')


def _count(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:,.0f}"


def _decimal(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.2f}"


def _fill(value: float | None) -> str:
    return _decimal(value) if value is None or value < 1 else f'<span class="full">{value:.2f}</span>'


def _percent(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.1%}"


def _share(value: float | None) -> str:
    return (
        _ABSENT
        if value is None
        else f'<meter value="{value:.3f}" high="0.8" max="1"></meter><span class="share">{value:.1%}</span>'
    )
