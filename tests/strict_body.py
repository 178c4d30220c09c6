"""A strict reader of CloudWatch dashboard bodies: what PutDashboard would complain of, and what it would draw wrongly.

Written from AWS's "Dashboard Body Structure and Syntax", "CloudWatch search expression syntax", "Using metric math" and the
service quotas. The stand-ins for CloudWatch check nothing of this.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

MOST_WIDGETS = 500
MOST_METRICS_OF_A_WIDGET = 500
MOST_SEARCHES_OF_A_WIDGET = 100
MOST_METRICS = 2500
LONGEST_SEARCH = 1024
MOST_ALARMS = 100

_TYPES = {"metric", "text", "alarm", "log", "explorer", "custom", "chart"}
_METRIC = {
    "accountId": str, "annotations": dict, "end": str, "legend": dict, "liveData": bool, "metrics": list, "period": int,
    "region": str, "setPeriodToTimeRange": bool, "singleValueFullPrecision": bool, "sparkline": bool, "stacked": bool,
    "start": str, "stat": str, "table": dict, "timezone": str, "title": str, "trend": bool, "view": str, "yAxis": dict,
}  # fmt: skip
_OPTIONS = {"accountId": str, "color": str, "expression": str, "id": str, "label": str, "period": int, "region": str,
            "stat": str, "visible": bool, "yAxis": str}  # fmt: skip
_AXIS = {"label": str, "min": (int, float), "max": (int, float), "showUnits": bool}
_HORIZONTAL = {"value": (int, float), "label": str, "color": str, "fill": str, "visible": bool, "yAxis": str}
_VIEWS = {"timeSeries", "singleValue", "gauge", "bar", "pie", "table"}
_FUNCTIONS = {
    "ABS", "ANOMALY_DETECTION_BAND", "AVG", "CEIL", "DATAPOINT_COUNT", "DIFF", "DIFF_TIME", "FILL", "FIRST", "FLOOR", "IF",
    "INSIGHT_RULE_METRIC", "LAST", "LOG", "LOG10", "MAX", "METRIC_COUNT", "METRICS", "MIN", "PERIOD", "RATE", "REMOVE_EMPTY",
    "RUNNING_SUM", "SEARCH", "SERVICE_QUOTA", "SLICE", "SORT", "STDDEV", "SUM", "TIME_SERIES",
}  # fmt: skip
_STATISTIC = re.compile(r"Average|Sum|Minimum|Maximum|SampleCount|IQM|(p|tm|tc|ts|wm)\d{1,2}(\.\d{1,10})?|PR\([\d.]*:[\d.]*\)")
_SEARCH = re.compile(r"SEARCH\('([^']*)', '([^']*)', (\d+)\)")
_FOUND = re.compile(r"\{(?P<schema>[^{}]*)\} (?P<terms>.+)")
_SCHEMA = re.compile(r'"[^"]+"|[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*')
_TERM = re.compile(r'(?P<name>[A-Za-z_]+)="(?P<value>(?:[^"\\()]|\\["\\()])+)"')
_COLOR = re.compile(r"#[0-9a-f]{6}")
_ID = re.compile(r"[a-z][A-Za-z0-9_]*")
_ARN = re.compile(r"arn:aws[a-z-]*:cloudwatch:[a-z0-9-]+:\d{12}:alarm:.+")
_RELATIVE = re.compile(r"-P(\d+[YMWD])*(T(\d+[HMS])+)?")

Complaints = Iterator[str]


def complaints(body: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a body, each with its place; empty when it is good."""
    return list(_body(body))


def _keys(where: str, value: Any, allowed: dict[str, Any], *required: str) -> Complaints:
    if not isinstance(value, dict):
        yield f"{where}: not an object"
        return
    for key, item in value.items():
        if key not in allowed:
            yield f"{where}: unknown key {key}"
        elif not isinstance(item, allowed[key]) or (isinstance(item, bool) and allowed[key] is not bool):
            yield f"{where}/{key}: {item!r} is of the wrong type"
    for key in required:
        if key not in value:
            yield f"{where}: lacks {key}"


def _body(body: dict[str, Any]) -> Complaints:
    yield from _keys(
        "body", body, {"start": str, "end": str, "periodOverride": str, "variables": list, "widgets": list}, "widgets"
    )
    if body.get("periodOverride", "auto") not in ("auto", "inherit"):
        yield "body/periodOverride: neither auto nor inherit"
    if "start" in body and not _RELATIVE.fullmatch(body["start"]):
        yield f"body/start: {body['start']} is no ISO 8601 duration"
    widgets = body.get("widgets", [])
    if len(widgets) > MOST_WIDGETS:
        yield f"body: {len(widgets)} widgets, at most {MOST_WIDGETS}"
    taken: set[tuple[int, int]] = set()
    for at, widget in enumerate(widgets):
        yield from _widget(f"widgets/{at}", widget, taken)
    told = str(widgets)
    for at, variable in enumerate(body.get("variables", [])):
        yield from _variable(f"variables/{at}", variable, told)
    names = [variable.get("id") for variable in body.get("variables", [])]
    if len(set(names)) != len(names):
        yield "variables: one id for two"
    shown = sum(len(widget.get("properties", {}).get("metrics", ())) for widget in widgets if isinstance(widget, dict))
    if shown > MOST_METRICS:
        yield f"body: {shown} metrics, at most {MOST_METRICS}"


def _variable(where: str, variable: Any, told: str) -> Complaints:
    allowed = {"type": str, "property": str, "pattern": str, "inputType": str, "id": str, "label": str, "defaultValue": str,
               "visible": bool, "search": str, "populateFrom": str, "values": list}  # fmt: skip
    yield from _keys(where, variable, allowed, "type", "inputType", "id")
    kind = variable.get("type")
    if kind not in ("property", "pattern") or kind not in variable:
        yield f"{where}: type {kind} without {kind}"
    if variable.get("inputType") not in ("input", "radio", "select"):
        yield f"{where}: no inputType {variable.get('inputType')}"
    elif variable["inputType"] != "input":
        if ("values" in variable) == ("search" in variable):
            yield f"{where}: wants values or a search"
        if "search" in variable:
            yield from _terms(where, variable["search"], populated=variable.get("populateFrom", ""))
    if kind == "pattern" and not re.search(variable.get("pattern", "$^"), told):
        yield f"{where}: nothing in the widgets matches {variable.get('pattern')}"


def _widget(where: str, widget: Any, taken: set[tuple[int, int]]) -> Complaints:
    yield from _keys(where, widget, {"type": str, "x": int, "y": int, "width": int, "height": int, "properties": dict},
                     "type", "properties")  # fmt: skip
    x, y, width, height = (widget.get(key, start) for key, start in (("x", 0), ("y", 0), ("width", 6), ("height", 6)))
    if not (0 <= x <= 23 and y >= 0 and 1 <= width <= 24 and 1 <= height <= 1000 and x + width <= 24):
        yield f"{where}: off the grid"
    cells = set(itertools.product(range(x, x + width), range(y, y + height)))
    if cells & taken:
        yield f"{where}: lies on another widget"
    taken |= cells
    properties = widget.get("properties", {})
    if widget.get("type") == "text":
        yield from _keys(f"{where}/properties", properties, {"markdown": str, "background": str}, "markdown")
    elif widget.get("type") == "metric":
        yield from _metric(f"{where}/properties", properties)
    elif widget.get("type") == "alarm":
        yield from _alarm(f"{where}/properties", properties)
    else:
        known = "not one that we draw" if widget.get("type") in _TYPES else "unknown"
        yield f"{where}: type {widget.get('type')} is {known}"


def _alarm(where: str, told: dict[str, Any]) -> Complaints:
    yield from _keys(where, told, {"alarms": list, "title": str, "sortBy": str, "states": list}, "alarms")
    if not 1 <= len(told.get("alarms", ())) <= MOST_ALARMS:
        yield f"{where}: {len(told.get('alarms', ()))} alarms, 1 to {MOST_ALARMS}"
    for arn in told.get("alarms", ()):
        if not _ARN.fullmatch(arn):
            yield f"{where}: {arn} is no ARN of an alarm"
    if told.get("sortBy", "default") not in ("default", "stateUpdatedTimestamp", "timestamp"):
        yield f"{where}: no sortBy {told['sortBy']}"
    if not set(told.get("states", ())) <= {"ALARM", "OK", "INSUFFICIENT_DATA"}:
        yield f"{where}: unknown state"


def _metric(where: str, told: dict[str, Any]) -> Complaints:
    yield from _keys(where, told, _METRIC, "region", "metrics")
    if not re.fullmatch(r"[a-z]{2,}(-[a-z]+)+-\d", told.get("region", "")):
        yield f"{where}/region: {told.get('region')!r}"
    if told.get("view", "timeSeries") not in _VIEWS:
        yield f"{where}/view: {told['view']}"
    if told.get("view") == "gauge" and not {"min", "max"} <= set(told.get("yAxis", {}).get("left", {})):
        yield f"{where}: a gauge wants min and max"
    if not _whole_period(told.get("period", 300)):
        yield f"{where}/period: {told['period']}"
    if told.get("legend", {}).get("position", "bottom") not in ("bottom", "right", "hidden"):
        yield f"{where}/legend"
    for side, axis in told.get("yAxis", {}).items():
        yield from _keys(f"{where}/yAxis/{side}", axis, _AXIS) if side in ("left", "right") else [f"{where}/yAxis: {side}"]
    yield from _annotations(f"{where}/annotations", told.get("annotations", {}))
    yield from _metrics(f"{where}/metrics", told.get("metrics", []))


def _annotations(where: str, told: dict[str, Any]) -> Complaints:
    for kind, lines in told.items():
        if kind not in ("horizontal", "vertical", "alarms"):
            yield f"{where}: unknown {kind}"
        for line in lines if kind == "horizontal" else ():
            yield from _keys(where, line, _HORIZONTAL, "value")
            if "color" in line and not _COLOR.fullmatch(line["color"]):
                yield f"{where}: colour {line['color']}"


def _metrics(where: str, metrics: list[Any]) -> Complaints:
    if not 1 <= len(metrics) <= MOST_METRICS_OF_A_WIDGET:
        yield f"{where}: {len(metrics)} metrics, 1 to {MOST_METRICS_OF_A_WIDGET}"
    ids = [metric[-1].get("id") for metric in metrics if metric and isinstance(metric[-1], dict) and "id" in metric[-1]]
    if len(set(ids)) != len(ids):
        yield f"{where}: one id for two"
    searches = 0
    for at, metric in enumerate(metrics):
        options = metric[-1] if metric and isinstance(metric[-1], dict) else {}
        yield from _keys(f"{where}/{at}", options, _OPTIONS)
        if "id" in options and not _ID.fullmatch(options["id"]):
            yield f"{where}/{at}: id {options['id']}"
        if "expression" in options:
            searches += options["expression"].count("SEARCH(")
            yield from _expression(f"{where}/{at}", options["expression"], {*ids} - {options.get("id")})
            if len(metric) > 1:
                yield f"{where}/{at}: an expression stands alone"
        elif len(metric) - bool(options) < 2 or (len(metric) - bool(options)) % 2:
            yield f"{where}/{at}: wants a namespace, a name, and pairs of dimensions"
    if searches > MOST_SEARCHES_OF_A_WIDGET:
        yield f"{where}: {searches} searches, at most {MOST_SEARCHES_OF_A_WIDGET}"


def _expression(where: str, expression: str, ids: set[str]) -> Complaints:
    rest = _SEARCH.sub("found", expression)
    for found, statistic, period in _SEARCH.findall(expression):
        if len(found) > LONGEST_SEARCH:
            yield f"{where}: a search of {len(found)} characters, at most {LONGEST_SEARCH}"
        if not _STATISTIC.fullmatch(statistic):
            yield f"{where}: no statistic {statistic}"
        if not _whole_period(int(period)):
            yield f"{where}: period {period}"
        yield from _terms(where, found)
    if "SEARCH" in rest or "'" in rest:
        yield f"{where}: a search that cannot be read: {expression}"
    if unknown := set(re.findall(r"([A-Z_][A-Z_0-9]*)\(", rest)) - _FUNCTIONS:
        yield f"{where}: unknown functions {unknown}"
    if unknown := set(re.findall(r"\b[a-z][A-Za-z0-9_]*\b", rest)) - ids - {"found"}:
        yield f"{where}: unknown ids {unknown}"
    if any(rest[:at].count("(") < rest[:at].count(")") for at in range(len(rest) + 1)) or rest.count("(") != rest.count(")"):
        yield f"{where}: parentheses do not match"


def _terms(where: str, found: str, populated: str | None = None) -> Complaints:
    read = _FOUND.fullmatch(found)
    if not read:
        yield f"{where}: no schema and terms in {found}"
        return
    parts = read["schema"].split(",")
    if not all(_SCHEMA.fullmatch(part) for part in parts):
        yield f"{where}: a name in {read['schema']} wants quotes"
    dimensions = {part.strip('"') for part in parts[1:]}
    names = [term["name"] for term in _TERM.finditer(read["terms"])]
    if _TERM.sub("", read["terms"]).strip():
        yield f"{where}: terms that cannot be read: {read['terms']}"
    if names.count("MetricName") != 1 or not set(names) - {"MetricName"} <= dimensions or len(set(names)) != len(names):
        yield f"{where}: terms {names} do not fit {read['schema']}"
    if populated is not None and populated not in dimensions:
        yield f"{where}: populated from {populated!r}, which is no dimension of {read['schema']}"


def _whole_period(period: int) -> bool:
    return period in (1, 5, 10, 30) or (period >= 60 and period % 60 == 0)
