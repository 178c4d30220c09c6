"""The same boards in Grafana, asked of its CloudWatch data source.

They are drawn like every board, then their targets and choices are put in. A target names the statistic in `statistic` alone:
`statistics`, which grafanalib adds, turns any into Average when Grafana reads it. `*` for All makes Grafana search.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from collector.naming import CLOUDWATCH_NAMESPACE
from dashboards.cloudwatch.lines import Choice, Line
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.search import in_namespace, math
from dashboards.draw import drawn
from dashboards.model import Draw, Panel, Row
from dashboards.options import DEFAULT, Options

SOURCE = {"type": "cloudwatch", "uid": "${datasource}"}

_ALL = {"text": ["All"], "value": ["$__all"]}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Target = dict[str, Any]


def board_of(page: Page, options: Options = DEFAULT, namespace: str = CLOUDWATCH_NAMESPACE) -> dict[str, Any]:
    """The page as Grafana's JSON."""
    told = replace(page.board, rows=(*page.board.rows, _reading(page)))
    board = drawn(told, options)
    shown = [panel for row in told.rows for panel in row.panels]
    for made, panel in zip((one for one in board["panels"] if one["type"] != "row"), shown, strict=True):
        if panel.draw is not Draw.TEXT:
            made |= {"datasource": SOURCE, "targets": list(_targets(panel, page, namespace))}
    board["templating"]["list"] = list(_variables(page, namespace))
    return board


def _reading(page: Page) -> Row:
    text = Panel("Reading", page.intro, "boards", draw=Draw.TEXT, width=24, height=4)
    return Row(title="How to read this board", panels=(text,))


def _targets(panel: Panel, page: Page, namespace: str) -> Iterator[Target]:
    letters = iter(_LETTERS)
    for at, query in enumerate(panel.queries):
        if not isinstance(query, Line):
            continue
        line = in_namespace(query, namespace)
        found = f"m{at + 1}"
        made = math(line, found)
        search = _search(line, page) | {"id": found, "refId": next(letters)}
        if made == found:
            yield search | {"label": f"{search['label']} {line.legend}".strip()}
            continue
        yield search | {"hide": True}
        # CloudWatch puts the label of an expression before those of its metrics.
        word = line.legend or line.metric
        yield _target() | {"expression": made, "metricEditorMode": 1, "id": f"e{at + 1}", "refId": next(letters), "label": word}


def _target() -> Target:
    return {
        "datasource": SOURCE,
        "queryMode": "Metrics",
        "metricQueryType": 0,
        "namespace": "",
        "region": "$region",
        "period": "",
    }


def _search(line: Line, page: Page) -> Target:
    fixed = dict(line.only)
    chosen = {choice.dimension for choice in page.choices}
    values = {name: fixed.get(name, f"${name}" if name in chosen else "*") for name in line.dimensions}
    shown = "/".join(f"${{PROP('Dim.{name}')}}" for name in line.dimensions if name not in fixed)
    return _target() | {
        "metricEditorMode": 0,
        "namespace": line.namespace,
        "metricName": line.metric,
        "statistic": line.statistic,
        "dimensions": values,
        "matchExact": True,
        "label": shown,
    }


def _variables(page: Page, namespace: str) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "cloudwatch", "current": {}, "hide": 0}
    yield _variable("region", {"queryType": "regions"}) | {"current": {"text": "default", "value": "default"}}
    before: list[Choice] = []
    for choice in page.choices:
        narrowed = {one.dimension: [f"${one.dimension}"] for one in before if one.dimension in choice.dimensions}
        asked = {
            "queryType": "dimensionValues",
            "region": "$region",
            "namespace": namespace if choice.namespace == CLOUDWATCH_NAMESPACE else choice.namespace,
            "metricName": choice.metric,
            "dimensionKey": choice.dimension,
            "dimensionFilters": narrowed,
        }
        yield _variable(choice.dimension, asked) | {"includeAll": True, "multi": True, "allValue": "*", "current": _ALL}
        before.append(choice)


def _variable(name: str, query: dict[str, Any]) -> dict[str, Any]:
    label = name if name[0].isupper() else name.capitalize()
    asked = {"refId": "CloudWatchVariableQueryEditor-VariableQuery", **query}
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": asked, "refresh": 2, "hide": 0}
