"""The boards that read Prometheus, asked through CloudWatch's PromQL door: metrics sent over OTLP have the same names there.

The door is Grafana's data source for Amazon Managed Prometheus. It knows no recording rules and no `ALERTS`, so what reads
those is left out, and the board says so.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from alerts.slo import DEFAULTS, Settings
from dashboards.cluster import cluster
from dashboards.draw import drawn
from dashboards.model import Board, Draw, Panel, Row
from dashboards.options import DEFAULT, Options
from dashboards.pool import pool

SOURCE_TYPE = "grafana-amazonprometheus-datasource"

_UIDS = ("llm-cluster", "llm-pool")
_SUFFIX = "-cloudwatch"
_RECORDED = re.compile(r"(?<![\w:])[a-z]+:\w+:\w+|\bALERTS\b")
_TOLD = """\
These are the same panels as on the board that reads Prometheus. Choose a data source for Amazon Managed Prometheus whose URL is
CloudWatch's own, `https://monitoring.REGION.amazonaws.com`, signed for the service `monitoring`.

Not here: what recording rules supply ({left}). CloudWatch returns at most 500 series for one query, so choose a cluster
before looking at pods. Written from AWS's documentation; **not verified against an account**."""


def through_the_door(options: Options = DEFAULT, settings: Settings = DEFAULTS) -> Iterator[dict[str, Any]]:
    """Grafana's JSON of the boards of clusters and pools."""
    for board in (cluster(settings), pool(settings)):
        yield _redirected(drawn(_without_records(board), options))


def _without_records(board: Board) -> Board:
    left = [panel.title for row in board.rows for panel in row.panels if _reads_records(panel)]
    rows = [
        replace(row, panels=tuple(_among_these(panel) for panel in row.panels if not _reads_records(panel))) for row in board.rows
    ]
    told = _TOLD.format(left=", ".join(left) or "nothing")
    text = Panel("The PromQL door", told, "promql-door", draw=Draw.TEXT, width=24, height=6)
    return replace(
        board,
        uid=board.uid + _SUFFIX,
        title=f"{board.title} (CloudWatch PromQL)",
        rows=(*(row for row in rows if row.panels), Row(title="About this board", panels=(text,))),
        annotations=tuple(one for one in board.annotations if not _RECORDED.search(one.expression)),
    )


def _among_these(panel: Panel) -> Panel:
    """The panel with links to boards of the door alone: the others read another data source."""
    kept = (replace(link, board=link.board + _SUFFIX) for link in panel.links if link.board in _UIDS)
    return replace(panel, links=tuple(kept))


def _reads_records(panel: Panel) -> bool:
    return any(_RECORDED.search(query.expression) for query in panel.queries)


def _redirected(told: Any) -> Any:
    """Every reference to a Prometheus data source made one to the door."""
    if isinstance(told, list):
        return [_redirected(one) for one in told]
    if not isinstance(told, dict):
        return told
    made = {key: _redirected(value) for key, value in told.items()}
    if made.get("type") == "prometheus" or (made.get("type") == "datasource" and made.get("query") == "prometheus"):
        return {key: SOURCE_TYPE if value == "prometheus" else value for key, value in made.items()}
    return made
