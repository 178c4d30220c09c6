"""Boards as JSON: what Grafana needs is there, and what grafanalib gets wrong is not."""

import itertools
import json
import re
from pathlib import Path

import pytest
from grafanalib import core

from alerts.model import alerts_of
from alerts.rules import GROUPS
from alerts.slo import THRESHOLDS, TTFT
from collector.naming import LEVEL_LABELS, families, prometheus_name
from collector.signals import Kind, Level
from dashboards.boards import BOARDS
from dashboards.draw import drawn
from dashboards.mend import mended
from dashboards.panels import SOURCE
from dashboards.render import write
from tests.promql import labels_of, parsed, selectors

ROOT = Path(__file__).parents[2]
DRAWN = {board.uid: drawn(board) for board in BOARDS}
UNITS = {"short", "s", "reqps", "ops", "percentunit", "bytes", "Bps", "dtdurations"}

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
    assert fresh == {path.name: path.read_text() for path in (ROOT / "dashboards/generated").glob("*.json")}


@boards
def test_the_head_is_that_of_schema_42(board):
    assert (board["schemaVersion"], board["refresh"], board["timezone"]) == (42, "30s", "browser")
    assert board["editable"] is False
    assert re.fullmatch(r"[a-z-]{1,15}", board["uid"])  # 40 at most, with a prefix of up to 25
    assert not {"__inputs", "rows", "style", "hideControls", "gnetId", "sharedCrosshair", "id"} & set(board)
    link = board["links"][0]
    assert link["includeVars"]
    assert link["keepTime"]
    assert link["tags"] == board["tags"]


@boards
def test_nulls_are_the_lower_ends_of_thresholds_and_nothing_else(board):
    for path, value in walk(board):
        if value is None:
            assert path[-3:] == ("steps", 0, "value"), path
        if path and path[-1] == "steps" and isinstance(value, list):
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
        assert unit in UNITS or unit.startswith("suffix:")
        assert "maxDataPoints" not in panel


@boards
def test_variables_are_chained(board):
    """Each list is narrowed by the choices before it, but for those that its series have no label of."""
    listed = [variable for variable in board["templating"]["list"] if variable["type"] == "query"]
    assert board["templating"]["list"][0]["name"] == "datasource"
    assert board["templating"]["list"][0]["query"] == "prometheus"
    names = [variable["name"] for variable in listed]
    assert names[0] == "cluster"
    for at, variable in enumerate(listed):
        unknown = {"model", "engine"} if variable["name"] in ("pod", "adapter") else set()
        assert all(f'{name}=~"${name}"' in variable["query"] for name in names[:at] if name not in unknown)
        assert (variable["refresh"], variable["includeAll"], variable["multi"]) == (2, True, True)
        assert variable["definition"] == variable["query"]
        # All pools are those that model and engine let through; All of anything else is anything.
        spelled_out = variable["name"] in ("pool", "instance")
        assert variable.get("allValue") == (None if spelled_out else ".*")


@boards
def test_every_query_keeps_to_what_is_chosen(board):
    """Each selector has a matcher for each choice that its family has a label of."""
    chosen = {variable["name"] for variable in board["templating"]["list"]} - {"model", "engine"}
    for panel in queried(board):
        for target in panel["targets"]:
            for selector, _ in selectors(parsed(target["expr"])):
                matched = {one.name for one in selector.matchers.matchers if one.value == f"${one.name}"}
                assert matched >= chosen & labels_of(selector.name), target["expr"]


def test_the_quantile_is_a_choice_of_its_own():
    variable = DRAWN["llm-cluster"]["templating"]["list"][-1]
    assert (variable["name"], variable["type"], variable["current"]["value"]) == ("quantile", "custom", "0.99")
    assert [option["value"] for option in variable["options"]] == ["0.5", "0.9", "0.95", "0.99"]
    asked = [target["expr"] for panel in queried(DRAWN["llm-cluster"]) for target in panel["targets"]]
    assert any("histogram_quantile($quantile, " in expression for expression in asked)


@boards
def test_counters_are_read_over_the_rate_interval(board):
    for panel in queried(board):
        for target in panel["targets"]:
            for function, window in re.findall(r"(\w+)\([^()]*\[([^\]]*)\]\)", target["expr"].replace('"1|1[.]0"', "")):
                assert window == ("10m" if function == "changes" else "$__rate_interval"), target["expr"]


@boards
def test_every_series_has_a_name_of_its_own_words(board):
    """Without a legend Grafana shows the whole label set; only a lone number and a table's label columns need none."""
    for panel in queried(board):
        for target in panel["targets"]:
            lone = panel["type"] == "stat" and len(panel["targets"]) == 1
            assert target["legendFormat"] != "__auto" or lone or panel["type"] == "table", panel["title"]


@boards
def test_a_panel_that_finds_nothing_says_so(board):
    for panel in queried(board):
        assert panel["fieldConfig"]["defaults"]["noValue"]


def test_limits_are_those_of_the_objectives():
    lines = {
        (uid, panel["title"]): [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]
        for uid, board in DRAWN.items()
        for panel in panels(board)
        if panel["type"] == "timeseries" and panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"
    }
    assert lines["llm-pool", "Time to first token"] == [TTFT.bound_seconds]
    assert lines["llm-cluster", "Time to first token"] == [TTFT.bound_seconds]
    assert lines["llm-pool", "Goodput"] == [TTFT.objective]
    assert lines["llm-pool", "Saturation"] == [THRESHOLDS.saturation_ratio]
    assert lines["llm-pod", "Age of its numbers"] == [THRESHOLDS.stale_seconds]


@boards
def test_tables_show_no_column_without_a_name_and_sort_by_one_they_have(board):
    for panel in (one for one in queried(board) if one["type"] == "table"):
        lone = len(panel["targets"]) == 1
        names = ["Value" if lone else f"Value #{target['refId']}" for target in panel["targets"]]
        organized = panel["transformations"][-1]["options"]
        shown = [organized["renameByName"][name] for name in names if not organized["excludeByName"].get(name)]
        assert "" not in shown
        assert organized["excludeByName"]["Time"]
        for by in panel["options"].get("sortBy", ()):
            assert by["displayName"] in shown
        styled = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        columns = {*shown, *(label for target in panel["targets"] for label in re.findall(r"\w+", target["expr"]))}
        assert styled - {"model", "state"} <= columns


def test_alerts_lead_to_boards_that_have_the_choices_they_fill_in():
    for rule in alerts_of(GROUPS):
        names = {variable["name"] for variable in DRAWN[rule.board]["templating"]["list"]}
        assert names >= set(LEVEL_LABELS[rule.level]) - {"pod"}, rule.name


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


@boards
def test_what_shards_hold_of_a_pool_is_added(board):
    """Shards read different pods of one pool: of what adds up, the highest is not the pool's."""
    added = {prometheus_name(row, level) for row, level in families()
             if level in (Level.POOL, Level.CLUSTER) and row.additive and row.kind is Kind.GAUGE}  # fmt: skip
    shown = [target["expr"] for panel in queried(board) for target in panel["targets"]]
    assert not added & set(re.findall(r"max(?: by \([^)]*\) )?\((llm_\w+)", " ".join(shown)))


def test_marks_of_an_exporters_alerts_ask_for_no_label_that_these_lack():
    (marks,) = [one["expr"] for one in DRAWN["llm-exporter"]["annotations"]["list"] if one["name"] == "Alerts"]
    ours = [rule for rule in alerts_of(GROUPS) if re.fullmatch("LLM(Exporter|Rules).*", rule.name)]
    carried = set.intersection(*(set(rule.carried) for rule in ours)) | {"alertname", "alertstate"}
    for selector, _ in selectors(parsed(marks)):
        assert {match.name for match in selector.matchers.matchers} <= carried
