"""A board as Grafana's JSON: its rows laid out on the grid, its choices, marks and links."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from grafanalib import core

from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.lacks import TITLES, lacking, marker
from dashboards.links import LOGS, TRACES, top_link, wants
from dashboards.mend import mended
from dashboards.model import Annotation, Board, Draw, Panel, Row, Variable
from dashboards.narrow import narrowed
from dashboards.options import DEFAULT, Options
from dashboards.panels import SOURCE, painted

TAG = "llm-fleet"

_WIDTH = 24
_STORES = (
    Variable(LOGS, label="Logs in", source="loki"),
    Variable(TRACES, label="Traces in", source="tempo"),
)


def drawn(board: Board, options: Options = DEFAULT) -> dict[str, Any]:
    """The board as Grafana's JSON. Same board and options, same JSON."""
    stores = [store for store in _STORES if wants(board, store.name, options)]
    variables = [Variable("datasource", label="Data source", source="prometheus"), *board.variables, *stores]
    dashboard = core.Dashboard(
        title=board.title,
        uid=options.uid_prefix + board.uid,
        description=board.question,
        tags=[TAG],
        schemaVersion=42,  # the last of this format; at grafanalib's 12, all migrations since run on load
        editable=False,
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        refresh=options.refresh,
        timezone="browser",
        time=core.Time("now-1h", "now"),
        timePicker=core.TimePicker(refreshIntervals=["10s", "30s", "1m", "5m"], timeOptions=[]),
        templating=core.Templating(list=[_choice(variable, options) for variable in variables]),
        annotations=core.Annotations(list=[_annotation(one, options) for one in board.annotations]),
        links=[*_boards_link(), *_top_links(board, options)],
        panels=list(_laid_out(board.rows, options)),
    )
    return mended(dashboard)


def _boards_link() -> Iterator[core.DashboardLink]:
    yield core.DashboardLink(title="LLM fleet", type="dashboards", tags=[TAG], asDropdown=True, includeVars=True)


def _top_links(board: Board, options: Options) -> Iterator[core.DashboardLink]:
    for link in board.links:
        yield core.DashboardLink(
            title=link.title, type="link", uri=top_link(link, options), targetBlank=True, icon="external link"
        )


def _laid_out(rows: Sequence[Row], options: Options) -> Iterator[core.Panel]:
    top = 0
    for row in rows:
        heading = core.RowPanel(title=row.title, collapsed=row.collapsed, gridPos=core.GridPos(h=1, w=_WIDTH, x=0, y=top))
        panels, below = _placed(row.panels, top + 1, options)
        if row.collapsed:
            heading.panels = panels
            panels, below = [], top + 1
        yield heading
        yield from panels
        top = below


def _placed(panels: Sequence[Panel], top: int, options: Options) -> tuple[list[core.Panel], int]:
    """Panels from left to right, in a new line where one does not fit; and the first free line below them."""
    placed, left, below = [], 0, top
    for panel in panels:
        if left + panel.width > _WIDTH:
            left, top = 0, below
        place = core.GridPos(h=panel.height, w=panel.width, x=left, y=top)
        placed.append(painted(_as_asked(panel, options), place, options))
        left, below = left + panel.width, max(below, top + panel.height)
    return placed, below


def _as_asked(panel: Panel, options: Options) -> Panel:
    """The panel with what installing adds: further matchers, and word of the engines that do not tell what it shows."""
    queries = panel.queries
    missing = lacking(panel)
    if missing and not panel.silent and panel.draw in (Draw.LINES, Draw.STACK):
        labels = LEVEL_LABELS[Level.POOL]
        shown = {label: f"=~${label}" for label in labels if all(f"${label}" in query.expression for query in queries)}
        queries += tuple(filter(None, [marker(panel, shown)]))
    silent, description = panel.silent, panel.description
    if missing:
        names = ", ".join(TITLES[name] for name in missing)
        silent = silent or f"no data (not available from {names})"
        description += f" Not available from {names}."
    narrow = tuple(replace(query, expression=narrowed(query.expression, options.matchers)) for query in queries)
    return replace(panel, queries=narrow, silent=silent, description=description)


def _choice(variable: Variable, options: Options) -> core.Template:
    label = variable.label or variable.name.capitalize()
    if variable.source:
        return core.Template(name=variable.name, label=label, type="datasource", query=variable.source)
    if variable.fixed:
        values = variable.fixed.split(",")
        return core.Template(name=variable.name, label=label, type="custom", query=variable.fixed, default=values[-1])
    return core.Template(
        name=variable.name,
        label=label,
        query=narrowed(variable.query, options.matchers),
        dataSource=SOURCE,
        refresh=core.REFRESH_ON_TIME_RANGE_CHANGE,
        includeAll=True,
        allValue=None if variable.spelled_out else ".*",
        multi=True,
        default="All",
    )


def _annotation(annotation: Annotation, options: Options) -> dict[str, Any]:
    made = {
        "name": annotation.title,
        "datasource": SOURCE,
        "enable": True,
        "expr": narrowed(annotation.expression, options.matchers),
        "iconColor": annotation.color,
        "titleFormat": annotation.heading,
        "textFormat": annotation.text,
        "step": "30s",
    }
    return made | ({"useValueForTime": True} if annotation.value_is_time else {})
