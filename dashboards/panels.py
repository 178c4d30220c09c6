"""Boards drawn with grafanalib; what it gets wrong for the Grafana of today, `dashboards.mend` puts right."""

from collections.abc import Iterator, Sequence
from typing import Any

from grafanalib import core

from dashboards.mend import mended
from dashboards.model import Board, Draw, Limit, Panel, Query, Row, Variable

SOURCE = {"type": "prometheus", "uid": "${datasource}"}

TAG = "llm-fleet"

_WIDTH = 24


def drawn(board: Board, docs: str) -> dict[str, Any]:
    """The board as Grafana's JSON; `docs` is where docs/dashboards.md is found."""
    dashboard = core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.question,
        tags=[TAG],
        schemaVersion=42,  # the last of this format; at grafanalib's 12, all migrations since run on load
        editable=False,
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        refresh="30s",
        timezone="browser",
        time=core.Time("now-1h", "now"),
        timePicker=core.TimePicker(refreshIntervals=["10s", "30s", "1m", "5m"], timeOptions=[]),
        templating=core.Templating(list=[_source_choice(), *map(_choice, board.variables)]),
        annotations=core.Annotations(list=[_annotation(query) for query in board.annotations]),
        links=[core.DashboardLink(title="LLM fleet", type="dashboards", tags=[TAG], asDropdown=True, includeVars=True)],
        panels=list(_laid_out(board.rows, docs)),
    )
    return mended(dashboard)


def _laid_out(rows: Sequence[Row], docs: str) -> Iterator[core.Panel]:
    top = 0
    for row in rows:
        heading = core.RowPanel(title=row.title, collapsed=row.collapsed, gridPos=core.GridPos(h=1, w=_WIDTH, x=0, y=top))
        panels, below = _placed(row.panels, top + 1, docs)
        if row.collapsed:
            heading.panels = panels
            panels, below = [], top + 1
        yield heading
        yield from panels
        top = below


def _placed(panels: Sequence[Panel], top: int, docs: str) -> tuple[list[core.Panel], int]:
    """Panels from left to right, in a new line where one does not fit; and the first free line below them."""
    placed, left, below = [], 0, top
    for panel in panels:
        if left + panel.width > _WIDTH:
            left, top = 0, below
        place = core.GridPos(h=panel.height, w=panel.width, x=left, y=top)
        placed.append(_PAINTERS[panel.draw](panel, {"gridPos": place, **_common(panel, docs)}))
        left, below = left + panel.width, max(below, top + panel.height)
    return placed, below


def _common(panel: Panel, docs: str) -> dict[str, Any]:
    return {
        "title": panel.title,
        "description": f"{panel.description}\n\n[How to read it]({docs}#{panel.anchor})",
        "dataSource": SOURCE,
        "targets": [_target(query, panel.draw) for query in panel.queries],
        "maxDataPoints": None,  # grafanalib's default of 100 coarsens every graph
    }


def _target(query: Query, draw: Draw) -> core.Target:
    # Stats and tables ask for this moment: a value over the range outlives its series.
    return core.Target(
        expr=query.expression,
        legendFormat=query.legend or "__auto",
        format=core.TABLE_TARGET_FORMAT if draw is Draw.TABLE else core.TIME_SERIES_TARGET_FORMAT,
        instant=draw in (Draw.STAT, Draw.TABLE),
        datasource=SOURCE,
    )


def _lines(panel: Panel, common: dict[str, Any]) -> core.Panel:
    stacked = panel.draw is Draw.STACK
    return core.TimeSeries(
        **common,
        unit=panel.unit,
        fillOpacity=30 if stacked else 0,
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        thresholdsStyleMode="line" if panel.limits else "off",
        extraJson={"fieldConfig": {"defaults": {"min": 0, "thresholds": _steps(panel.limits, "transparent")}}},
    )


def _stat(panel: Panel, common: dict[str, Any]) -> core.Panel:
    return core.Stat(
        **common,
        format=panel.unit,
        reduceCalc="lastNotNull",
        graphMode="none",
        noValue="no data",
        extraJson={
            "fieldConfig": {"defaults": {"color": {"mode": "thresholds"}, "thresholds": _steps(panel.limits, panel.below)}}
        },
    )


def _table(panel: Panel, common: dict[str, Any]) -> core.Panel:
    """One row per label set: the columns of the queries side by side, named by their legends."""
    names = {f"Value #{chr(ord('A') + at)}": query.legend for at, query in enumerate(panel.queries)}
    units = [
        {
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [{"id": "unit", "value": query.unit}],
        }
        for query in panel.queries
        if query.unit
    ]
    hidden = {"Time": True} | {name: True for name, legend in names.items() if not legend}
    return core.Table(
        **common,
        unit=panel.unit,
        filterable=True,
        overrides=units,
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names}},
        ],
    )


def _text(panel: Panel, common: dict[str, Any]) -> core.Panel:
    return core.Text(**common | {"description": None, "dataSource": None}, content=common["description"])


_PAINTERS = {Draw.LINES: _lines, Draw.STACK: _lines, Draw.STAT: _stat, Draw.TABLE: _table, Draw.TEXT: _text}


def _steps(limits: Sequence[Limit], below: str) -> dict[str, Any]:
    steps = [
        {"color": below, "value": None},
        *({"color": limit.color, "value": limit.value} for limit in limits),
    ]
    return {"mode": "absolute", "steps": steps}


def _source_choice() -> core.Template:
    return core.Template(name="datasource", label="Data source", type="datasource", query="prometheus")


def _choice(variable: Variable) -> core.Template:
    return core.Template(
        name=variable.name,
        label=variable.name.capitalize(),
        query=variable.query,
        dataSource=SOURCE,
        refresh=core.REFRESH_ON_TIME_RANGE_CHANGE,
        includeAll=True,
        allValue=".*",
        multi=True,
        default="All",
    )


def _annotation(query: Query) -> dict[str, Any]:
    return {
        "name": query.legend,
        "datasource": SOURCE,
        "enable": True,
        "expr": query.expression,
        "iconColor": "red",
        "titleFormat": "{{alertname}}",
        "textFormat": "{{namespace}}/{{pool}} {{pod}}",
        "step": "30s",
    }
