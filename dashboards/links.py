"""Links that carry what is chosen and the time along."""

import json
from typing import Any
from urllib.parse import quote

from collector.naming import LEVEL_LABELS
from dashboards.model import Board, Draw, Link
from dashboards.options import Options

LOGS, TRACES = "logs", "traces"
"""Where a link leads that whoever installs the boards may choose; also the variables that name Loki and Tempo."""

_CARRIED = "var-datasource=${datasource}&${__url_time_range}"


def data_link(link: Link, draw: Draw, options: Options) -> dict[str, Any]:
    """A link of a series or a row: what it is of fills in the choices of the board it leads to."""
    labels = LEVEL_LABELS[link.level]
    field = "__data.fields" if draw is Draw.TABLE else "__field.labels"
    if link.url:
        url = _address(link.url, options)
        for label in LEVEL_LABELS[link.level]:
            url = url.replace(f"${label}", f"${{{field}.{label}}}")
    else:
        chosen = "".join(f"var-{label}=${{{field}.{label}}}&" for label in labels)
        url = f"/d/{options.uid_prefix}{link.board}?{chosen}{_CARRIED}"
    return {"title": link.title, "url": url, "targetBlank": bool(link.url)}


def top_link(link: Link, options: Options) -> str:
    """Address of a link at the top of a board: what is chosen there fills in."""
    url = _address(link.url, options)
    for label in LEVEL_LABELS[link.level]:
        url = url.replace(f"${label}", f"${{{label}:pipe}}")
    return url


def wants(board: Board, what: str, options: Options) -> bool:
    """Whether the board leads to logs or traces that are in Grafana's own stores, which have to be chosen."""
    used = {link.url for link in (*board.links, *(link for row in board.rows for panel in row.panels for link in panel.links))}
    return what in used and not getattr(options, what)


def _address(url: str, options: Options) -> str:
    if url == LOGS:
        return options.logs or _explore("$logs", {"expr": '{namespace=~"$namespace", pod=~"$pod"}'})
    if url == TRACES:
        query = '{resource.k8s.namespace.name=~"$namespace" && resource.k8s.pod.name=~"$pod"}'
        return options.traces or _explore("$traces", {"query": query, "queryType": "traceql"})
    return url


def _explore(source: str, query: dict[str, str]) -> str:
    panes = {
        "a": {
            "datasource": source,
            "queries": [{"refId": "A", **query}],
            "range": {"from": "${__from}", "to": "${__to}"},
        }
    }
    return "/explore?schemaVersion=1&orgId=1&panes=" + quote(json.dumps(panes, separators=(",", ":")), safe="${}:,")
