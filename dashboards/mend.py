"""What grafanalib 0.7 writes, put right for schema 42.

Kept is what the schema knows; dropped are keys of long-gone panels and every null that is not the base of a
threshold. Strict readers refuse both; lenient ones migrate, which turns a CloudWatch `p99` into `Average`.
"""

import json
from collections.abc import Iterator
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

_BOARD = {"annotations", "description", "editable", "graphTooltip", "links", "panels", "refresh",
          "schemaVersion", "tags", "templating", "time", "timepicker", "timezone", "title", "uid",
          "version"}  # fmt: skip
_PANEL = {"collapsed", "datasource", "description", "fieldConfig", "gridPos", "id", "interval", "links",
          "maxDataPoints", "maxPerRow", "options", "panels", "repeat", "repeatDirection", "targets",
          "timeFrom", "timeShift", "title", "transformations", "transparent", "type"}  # fmt: skip
_VARIABLE = {"allValue", "current", "datasource", "hide", "includeAll", "label", "multi", "name", "options",
             "query", "refresh", "regex", "sort", "type"}  # fmt: skip
_TARGET_NOISE = {"intervalFactor", "step", "metric", "target", "query"}


def mended(dashboard: core.Dashboard) -> dict[str, Any]:
    """The dashboard's JSON with panels and targets numbered in reading order."""
    board: dict[str, Any] = json.loads(json.dumps(dashboard.to_json_data(), cls=DashboardEncoder))
    board = {key: value for key, value in board.items() if key in _BOARD}
    ids = iter(range(1, 10_000))
    board["panels"] = [_panel(panel, ids) for panel in board["panels"]]
    board["templating"]["list"] = [_variable(variable) for variable in board["templating"]["list"]]
    board["timepicker"] = {"refresh_intervals": board["timepicker"]["refresh_intervals"]}
    return _without_nulls(board)  # type: ignore[no-any-return]


def _panel(panel: dict[str, Any], ids: Iterator[int]) -> dict[str, Any]:
    kept = {key: value for key, value in panel.items() if key in _PANEL} | {"id": next(ids)}
    if panel["type"] == "row":
        place = {key: kept[key] for key in ("id", "type", "title", "gridPos", "collapsed")}
        return place | {"panels": [_panel(child, ids) for child in panel["panels"]]}
    kept["targets"] = [_target(target, at) for at, target in enumerate(panel["targets"])]
    if not isinstance(panel.get("options"), dict):
        kept["options"] = {}  # Heatmap writes a list
    defaults = kept["fieldConfig"]["defaults"]
    defaults["thresholds"]["steps"] = _steps(defaults["thresholds"]["steps"])
    if panel["type"] == "table":
        cell = defaults["custom"].pop("displayMode", "auto")
        defaults["custom"]["cellOptions"] = {"type": cell}
        defaults |= {key: panel[key] for key in ("mappings", "color") if key in panel}
    if panel["type"] == "state-timeline":
        kept["options"]["legend"]["showLegend"] = True
    if panel["type"] == "text":
        del kept["fieldConfig"], kept["targets"]
    return {key: value for key, value in kept.items() if value not in ([], "", False) or key == "options"}


def _target(target: dict[str, Any], at: int) -> dict[str, Any]:
    kept = {key: value for key, value in target.items() if key not in _TARGET_NOISE and value not in ("", False)}
    if "statistic" in kept:
        kept.pop("statistics", None)
    if "expr" in kept:
        kept |= {"instant": target["instant"], "range": not target["instant"], "editorMode": "code"}
    return kept | {"refId": chr(ord("A") + at)}


def _steps(steps: Any) -> list[dict[str, Any]]:
    """Steps whose first has no lower end: grafanalib writes the string 'null', or none at all."""
    known = [{"color": step["color"], "value": None if step["value"] == "null" else step["value"]} for step in steps or ()]
    return known or [{"color": "green", "value": None}]


def _variable(variable: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in variable.items() if key in _VARIABLE and value not in ([], "")}
    if variable["includeAll"]:
        kept["current"] = {"text": ["All"], "value": ["$__all"]}
    elif variable["type"] != "custom":
        kept["current"] = {}
    if variable["type"] == "query":
        kept["definition"] = variable["query"]
    return kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    base = set(value) == {"color", "value"}
    return {key: _without_nulls(item) for key, item in value.items() if item is not None or base}
