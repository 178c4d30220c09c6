"""Panels drawn with grafanalib; what it gets wrong for the Grafana of today, `dashboards.mend` puts right."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grafanalib import core

from dashboards.links import data_link
from dashboards.model import Draw, Limit, Panel, Query
from dashboards.options import Options

SOURCE = {"type": "prometheus", "uid": "${datasource}"}

_AT_THIS_MOMENT = (Draw.STAT, Draw.TABLE)
"""Asked for now: a value over the range outlives its series."""

_FORMATS = {Draw.TABLE: core.TABLE_TARGET_FORMAT, Draw.HEATMAP: "heatmap"}
_EMPTY_CELL = {"type": "special", "options": {"match": "null+nan", "result": {"text": "no data", "color": "text", "index": 0}}}
"""Else it would be in the colour of a good value, and hold why the whole table may be empty."""

_COLORED = {"custom.cellOptions": {"type": "color-text"}}
_MODEL_WIDTH = 280
"""Pixels for `organisation/name-of-a-model-70B-Instruct`, several times the other labels."""


def painted(panel: Panel, place: core.GridPos, options: Options) -> core.Panel:
    """The panel at its place."""
    common = {
        "gridPos": place,
        "title": panel.title,
        "description": f"{panel.description}\n\n[How to read it]({options.docs}#{panel.anchor})",
        "dataSource": SOURCE,
        "targets": [_target(query, panel.draw) for query in panel.queries],
        "maxDataPoints": None,  # grafanalib's default of 100 coarsens every graph
        "extraJson": {"fieldConfig": {"defaults": _defaults(panel, options), "overrides": _overrides(panel, options)}},
    }
    return _PAINTERS[panel.draw](panel, common)


def _target(query: Query, draw: Draw) -> core.Target:
    return core.Target(
        expr=query.expression,
        legendFormat=query.legend or "__auto",
        format=_FORMATS.get(draw, core.TIME_SERIES_TARGET_FORMAT),
        instant=draw in _AT_THIS_MOMENT,
        datasource=SOURCE,
    )


def _defaults(panel: Panel, options: Options) -> dict[str, Any]:
    """What holds for every value of the panel."""
    lines = panel.draw in (Draw.LINES, Draw.STACK)
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": _steps(panel.limits, "transparent" if lines else panel.below),
        "noValue": panel.silent or "no data",
    }
    if lines and not panel.signed:
        defaults["min"] = 0
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.named:
        named = {str(one.value): {"text": one.text, "color": one.color, "index": at} for at, one in enumerate(panel.named)}
        defaults["mappings"] = [{"type": "value", "options": named}]
    if links := [data_link(link, panel.draw, options) for link in panel.links if not link.column]:
        defaults["links"] = links
    return defaults


def _overrides(panel: Panel, options: Options) -> list[dict[str, Any]]:
    """What holds for some: colours of series by name, and what columns of a table show and lead to."""
    if panel.draw is not Draw.TABLE:
        return [_override("byRegexp", f"/(^| ){name}$/", {"color": {"mode": "fixed", "fixedColor": color}})
                for name, color in panel.colors]  # fmt: skip
    found = [_override("byName", "model", {"custom.width": _MODEL_WIDTH})]
    if panel.colors:
        words = {name: {"text": name, "color": color, "index": at} for at, (name, color) in enumerate(panel.colors)}
        found.append(_override("byName", "state", {"mappings": [{"type": "value", "options": words}], **_COLORED}))
    for query in panel.queries:
        if query.unit:
            found.append(_override("byName", query.legend, {"unit": query.unit}))
        if query.limits:
            found.append(_override("byName", query.legend, {"thresholds": _steps(query.limits, query.below), **_COLORED}))
    for column in dict.fromkeys(link.column for link in panel.links):
        links = [data_link(link, panel.draw, options) for link in panel.links if link.column == column]
        found.append(_override("byName", column, {"links": links}))
    return found


def _override(matcher: str, wanted: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": matcher, "options": wanted}, "properties": listed}


def _steps(limits: Sequence[Limit], below: str) -> dict[str, Any]:
    steps = [{"color": below, "value": None}, *({"color": limit.color, "value": limit.value} for limit in limits)]
    return {"mode": "absolute", "steps": steps}


def _lines(panel: Panel, common: dict[str, Any]) -> core.Panel:
    stacked = panel.draw is Draw.STACK
    return core.TimeSeries(
        **common,
        fillOpacity=40 if stacked else 0,
        lineWidth=1 if stacked else 2,
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        thresholdsStyleMode="dashed" if panel.limits else "off",
    )


def _stat(panel: Panel, common: dict[str, Any]) -> core.Panel:
    lone = len(panel.queries) == 1 and not panel.queries[0].legend
    return core.Stat(**common, color={"mode": "thresholds"}, reduceCalc="lastNotNull", graphMode="none",
                     textMode="value" if lone else "value_and_name")  # fmt: skip


def _table(panel: Panel, common: dict[str, Any]) -> core.Panel:
    """One row per label set: the columns of the queries side by side, named by their legends."""
    lone = len(panel.queries) == 1  # Grafana numbers the values of several queries only
    names = {"Value" if lone else f"Value #{chr(ord('A') + at)}": query.legend for at, query in enumerate(panel.queries)}
    hidden = {"Time": True} | {name: True for name, legend in names.items() if not legend}
    sort = [core.TableSortByField(panel.sort.removeprefix("-"), desc=panel.sort[0] != "-")] if panel.sort else []
    order = {name: at for at, name in enumerate((*panel.first, *names))}
    return core.Table(
        **common,
        filterable=True,
        mappings=[_EMPTY_CELL],
        sortBy=sort,
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "indexByName": order, "renameByName": names}},
        ],
    )


def _heatmap(panel: Panel, common: dict[str, Any]) -> core.Panel:
    scheme = {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange", "reverse": False}
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": scheme,
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": panel.unit},
    }
    return core.Heatmap(**common, options=options)


def _timeline(panel: Panel, common: dict[str, Any]) -> core.Panel:
    return core.StateTimeline(**common, showValue="never", colorMode="thresholds")


def _text(panel: Panel, common: dict[str, Any]) -> core.Panel:
    kept = {key: value for key, value in common.items() if key != "extraJson"}
    return core.Text(**kept | {"description": None, "dataSource": None}, content=common["description"])


_PAINTERS: Mapping[Draw, Callable[[Panel, dict[str, Any]], core.Panel]] = {
    Draw.LINES: _lines,
    Draw.STACK: _lines,
    Draw.STAT: _stat,
    Draw.TABLE: _table,
    Draw.HEATMAP: _heatmap,
    Draw.TIMELINE: _timeline,
    Draw.TEXT: _text,
}
