"""Grafana boards of CloudWatch's metrics and of its PromQL door: targets, choices, and nothing of another data source."""

import itertools
import json
import re
from pathlib import Path

import pytest

from alerts.slo import DEFAULTS
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.boards import BOARDS
from dashboards.cloudwatch.door import SOURCE_TYPE, through_the_door
from dashboards.cloudwatch.grafana import SOURCE, board_of
from dashboards.cloudwatch.lines import Line
from dashboards.cloudwatch.native import body
from dashboards.cloudwatch.pages import pages
from dashboards.cloudwatch.render import write

ROOT = Path(__file__).parents[2]
DRAWN = {page.board.uid: board_of(page) for page in pages(DEFAULTS)}
DOOR = {board["uid"]: board for board in through_the_door()}

boards = pytest.mark.parametrize("board", DRAWN.values(), ids=DRAWN.keys())
doors = pytest.mark.parametrize("board", DOOR.values(), ids=DOOR.keys())


def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def targets(board):
    return [target for panel in panels(board) for target in panel.get("targets", ())]


def walk(value):
    yield value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from walk(item)


def test_committed_files_are_what_the_boards_say(tmp_path):
    fresh = {path.relative_to(tmp_path): path.read_text() for path in write(tmp_path)}
    there = ROOT / "dashboards/generated/cloudwatch"
    assert fresh == {path.relative_to(there): path.read_text() for path in there.rglob("*") if path.is_file()}


@boards
def test_no_statistic_can_turn_into_average(board):
    """Where `statistics` stands, Grafana's migration puts its first over `statistic`."""
    searches = [target for target in targets(board) if target["metricEditorMode"] == 0]
    assert searches
    assert all(target["statistic"] and "statistics" not in target for target in searches)


def test_statistics_are_those_of_the_lines():
    for page in pages(DEFAULTS):
        wanted = [query.statistic for row in page.board.rows for panel in row.panels for query in panel.queries]
        assert [target["statistic"] for target in targets(DRAWN[page.board.uid]) if "statistic" in target] == wanted


def test_grafana_and_cloudwatch_show_the_same_panels_of_the_same_metrics():
    for page in pages(DEFAULTS):
        native = [widget["properties"]["title"].partition(" (")[0] for widget in body(page, region="us-east-1")["widgets"]
                  if widget["type"] == "metric"]  # fmt: skip
        grafana = [panel["title"] for panel in DRAWN[page.board.uid]["panels"] if panel["type"] not in ("row", "text")]
        assert [title.partition(" (")[0] for title in grafana] == native


@boards
def test_every_source_is_the_chosen_one_of_cloudwatch(board):
    sources = [value["datasource"] for value in walk(board) if isinstance(value, dict) and "datasource" in value]
    assert sources
    assert all(source == SOURCE for source in sources)
    assert board["templating"]["list"][0]["query"] == "cloudwatch"


@boards
def test_ids_and_references_are_unique_and_math_reads_what_is_searched(board):
    for panel in panels(board):
        shown = panel.get("targets", [])
        references = [target["refId"] for target in shown]
        assert len(set(references)) == len(references)
        searches = {target["id"] for target in shown if target["metricEditorMode"] == 0}
        for target in shown:
            if target["metricEditorMode"] == 1:
                read = set(re.findall(r"\bm\d+", target["expression"]))
                assert read
                assert read <= searches
        if panel["type"] not in ("row", "text"):
            assert any(not target.get("hide") for target in shown)


@boards
def test_every_choice_narrows_and_is_narrowed(board):
    choices = [
        variable for variable in board["templating"]["list"] if variable["type"] == "query" and variable["name"] != "region"
    ]
    names = [choice["name"] for choice in choices]
    for at, choice in enumerate(choices):
        assert (choice["allValue"], choice["multi"], choice["includeAll"]) == ("*", True, True)
        asked = choice["query"]
        assert asked["dimensionKey"] == choice["name"]
        same = [name for name in names[:at] if asked["namespace"] == choices[names.index(name)]["query"]["namespace"]]
        assert asked["dimensionFilters"] == {name: [f"${name}"] for name in same}
    for target in targets(board):
        for name, value in target.get("dimensions", {}).items():
            assert name not in names or value == f"${name}"


@boards
@pytest.mark.parametrize("level", [Level.POOL])
def test_labels_tell_the_pools_apart(board, level):
    for target in targets(board):
        if set(LEVEL_LABELS[level]) <= set(target.get("dimensions", {})):
            assert all(f"${{PROP('Dim.{label}')}}" in target["label"] for label in LEVEL_LABELS[level])


@pytest.mark.parametrize("board", [*DRAWN.values(), *DOOR.values()], ids=[*DRAWN, *DOOR])
def test_boards_are_such_as_grafana_takes(board):
    assert board["schemaVersion"] == 42
    assert re.fullmatch(r"[a-z-]{1,40}", board["uid"])
    ids = [panel["id"] for panel in panels(board)]
    assert len(set(ids)) == len(ids)
    for value in walk(board):
        if isinstance(value, dict):
            assert all(item is not None for key, item in value.items() if set(value) != {"color", "value"})
    cells = [cell for panel in board["panels"] for cell in itertools.product(
        range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"]),
        range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"]))]  # fmt: skip
    assert len(set(cells)) == len(cells)
    json.dumps(board, allow_nan=False)


def test_every_panel_links_to_a_heading_that_is_there():
    for document, shown in (("cloudwatch-boards-and-alarms.md", DRAWN), ("dashboards.md", DOOR)):
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / document).read_text(), re.MULTILINE)
        anchors = {heading.lower().replace(" ", "-").replace(",", "").replace("'", "") for heading in headings}
        told = [panel["options"]["content"] if panel["type"] == "text" else panel["description"]
                for board in shown.values() for panel in panels(board) if panel["type"] != "row"]  # fmt: skip
        for text in told:
            assert re.search(r"\]\(docs/.*\.md#(.+)\)$", text)[1] in anchors


@doors
def test_the_door_asks_for_the_very_queries_of_the_boards_that_read_prometheus(board):
    (original,) = [one for one in BOARDS if f"{one.uid}-cloudwatch" == board["uid"]]
    asked = {query.expression for row in original.rows for panel in row.panels for query in panel.queries}
    shown = {target["expr"] for target in targets(board)}
    assert len(shown & asked) > 30


@doors
def test_the_door_knows_no_other_source_and_no_recorded_series(board):
    text = json.dumps(board)
    assert '"prometheus"' not in text
    assert f'"type": "{SOURCE_TYPE}"' in text
    assert not [target for target in targets(board) if re.search(r"\b[a-z]+:llm_\w+:|\bALERTS\b", target["expr"])]
    assert "not verified against an account" in text


@doors
def test_links_of_the_door_stay_within_it(board):
    led = set(re.findall(r"/d/([a-z-]+)\?", json.dumps(board)))
    assert led <= set(DOOR)


def test_uids_are_unique_among_all_boards():
    uids = [*DRAWN, *DOOR, *(board.uid for board in BOARDS)]
    assert len(set(uids)) == len(uids)


def test_all_queries_are_lines():
    assert all(
        isinstance(query, Line)
        for page in pages(DEFAULTS)
        for row in page.board.rows
        for panel in row.panels
        for query in panel.queries
    )
