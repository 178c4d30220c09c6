"""Boards as JSON: what Grafana needs is there, and what grafanalib gets wrong is not."""

import itertools
import json
import re
from pathlib import Path

import pytest
from grafanalib import core

from dashboards.boards import BOARDS
from dashboards.mend import mended
from dashboards.panels import SOURCE, drawn
from dashboards.render import write

ROOT = Path(__file__).parents[2]
DRAWN = {board.uid: drawn(board, "docs/dashboards.md") for board in BOARDS}
UNITS = {"short", "s", "reqps", "percentunit"}

boards = pytest.mark.parametrize("board", DRAWN.values(), ids=DRAWN.keys())


def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queried(board):
    return [panel for panel in panels(board) if panel["type"] not in ("row", "text")]


def walk(value, path=()):
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from walk(item, (*path, key))


def test_committed_boards_are_what_the_boards_say(tmp_path):
    fresh = {path.name: path.read_text() for path in write(tmp_path)}
    assert fresh == {path.name: path.read_text() for path in (ROOT / "dashboards/generated").iterdir()}


@boards
def test_the_head_is_that_of_schema_42(board):
    assert (board["schemaVersion"], board["refresh"], board["timezone"]) == (42, "30s", "browser")
    assert board["editable"] is False
    assert re.fullmatch(r"[a-z-]{1,40}", board["uid"])
    assert not {"__inputs", "rows", "style", "hideControls", "gnetId", "sharedCrosshair", "id"} & set(board)
    link = board["links"][0]
    assert link["includeVars"]
    assert link["keepTime"]
    assert link["tags"] == board["tags"]


@boards
def test_nulls_are_the_lower_ends_of_thresholds_and_nothing_else(board):
    for path, value in walk(board):
        if value is None:
            assert path[-4:] == ("thresholds", "steps", 0, "value"), path
        if path and path[-1] == "steps":
            assert value[0]["value"] is None
            ends = [step["value"] for step in value[1:]]
            assert ends == sorted(ends)
            assert all(set(step) == {"color", "value"} for step in value)


@boards
def test_ids_and_ref_ids_are_unique_and_every_source_is_the_chosen_one(board):
    ids = [panel["id"] for panel in panels(board)]
    assert len(set(ids)) == len(ids)
    for panel in queried(board):
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
        assert panel["datasource"] == SOURCE
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE
            assert target["range"] is not target["instant"]
            assert not {"intervalFactor", "step", "metric", "target"} & set(target)


@boards
def test_panels_fit_the_grid_and_do_not_overlap(board):
    for group in (board["panels"], *(panel["panels"] for panel in board["panels"] if panel.get("panels"))):
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in group)
            for x, y in itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        ]
        assert len(set(cells)) == len(cells)
        assert all(x < 24 for x, _ in cells)


@boards
def test_every_panel_has_a_title_a_unit_and_a_description_with_a_link(board):
    headings = re.findall(r"^## (.+)$", (ROOT / "docs/dashboards.md").read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for panel in panels(board):
        assert panel["title"]
        if panel["type"] == "row":
            continue
        text = panel["options"]["content"] if panel["type"] == "text" else panel["description"]
        assert re.search(r"\]\(docs/dashboards\.md#(.+)\)$", text)[1] in anchors
    for panel in queried(board):
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert unit in UNITS or unit.startswith("suffix: ")
        assert "maxDataPoints" not in panel


@boards
def test_variables_are_chained_and_every_query_uses_them_all(board):
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names[0] == "datasource"
    for at, variable in enumerate(board["templating"]["list"][1:], start=1):
        assert all(f"${name}" in variable["query"] for name in names[1:at])
        assert (variable["refresh"], variable["includeAll"], variable["allValue"]) == (2, True, ".*")
        assert variable["definition"] == variable["query"]
    for panel in queried(board):
        for target in panel["targets"]:
            assert all(f'{name}=~"${name}"' in target["expr"] for name in names[1:])


@boards
def test_counters_are_read_over_the_rate_interval(board):
    for panel in queried(board):
        for target in panel["targets"]:
            windows = re.findall(r"\[([^]]*)\]", target["expr"])
            assert set(windows) <= {"$__rate_interval"}, target["expr"]


def test_the_objective_and_full_saturation_are_drawn_as_lines():
    lines = {
        panel["title"]: panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
        for panel in panels(DRAWN["llm-pool"])
        if panel["type"] == "timeseries" and panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "line"
    }
    assert lines == {"Time to first token": 1.0, "Saturation": 1.0}


def test_uids_are_unique():
    assert len(DRAWN) == len(BOARDS)


def bare(*shown):
    return mended(core.Dashboard(title="t", uid="u", panels=list(shown), timePicker=core.DEFAULT_TIME_PICKER))


def test_mending_covers_what_the_pool_board_does_not_use():
    cloudwatch = {"statistic": "p99", "statistics": ["Average"], "metricName": "x", "refId": ""}
    board = bare(
        core.TimeSeries(title="a", targets=[cloudwatch, dict(cloudwatch)], thresholds=[core.Threshold("red", 0, 1.0)]),
        core.Heatmap(title="b", targets=[core.Target(expr="x")]),
        core.Stat(title="c"),
        core.Table(title="d", mappings=[{"type": "special"}]),
        core.RowPanel(title="e", collapsed=True, panels=[core.Text(title="f")]),
    )
    json.dumps(board, allow_nan=False)
    series, heatmap, stat, table, row = board["panels"]
    assert [target["refId"] for target in series["targets"]] == ["A", "B"]
    assert all("statistics" not in target and target["statistic"] == "p99" for target in series["targets"])
    assert series["fieldConfig"]["defaults"]["thresholds"]["steps"][0] == {"color": "red", "value": None}
    assert heatmap["options"] == {}
    assert "heatmap" not in heatmap
    assert "yAxis" not in heatmap
    assert stat["fieldConfig"]["defaults"]["thresholds"]["steps"] == [{"color": "green", "value": None}]
    assert table["fieldConfig"]["defaults"]["custom"]["cellOptions"] == {"type": "auto"}
    assert table["fieldConfig"]["defaults"]["mappings"] == [{"type": "special"}]
    assert "displayMode" not in table["fieldConfig"]["defaults"]["custom"]
    assert [panel["id"] for panel in (row, *row["panels"])] == [5, 6]
