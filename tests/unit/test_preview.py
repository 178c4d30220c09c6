"""The preview of the boards: what it holds against a drawing, and that its packages are pinned without an address."""

import json
import re
from pathlib import Path

import pytest

from dashboards.preview.bundle import HERE
from dashboards.preview.page import boards, panels
from dashboards.preview.verdict import faults

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "dashboards" / "generated"
MOST_BYTES_OF_PICTURES = 2_000_000


def panel(**changes):
    return {"title": "Queue", "type": "timeseries", "known": True, "isEmpty": False, "errors": [], **changes}


def shot(*panels, complaints=(), abroad=(), **changes):
    choices = [{"name": "pool", "values": 4}]
    report = {"panels": list(panels), "faults": [], "asked": [], "choices": choices, **changes}
    return {"report": report, "complaints": list(complaints), "abroad": list(abroad)}


def test_a_board_whose_panels_all_have_data_has_no_fault():
    assert list(faults("llm-pool", shot(panel(), panel(title="TTFT")))) == []


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        (shot(panel(isEmpty=True)), "llm-pool: Queue: no data"),
        (shot(panel(isEmpty=True, errors=["bad_data: parse error"])), "llm-pool: Queue: bad_data: parse error"),
        (shot(panel(type="canvas", known=False, isEmpty=True)), "llm-pool: Queue: the preview cannot draw a canvas"),
        (shot(faults=["TypeError"]), "llm-pool: a drawing broke: TypeError"),
        (shot(asked=[{"query": "sum(x)", "said": ["late", "odd"]}]), "llm-pool: sum(x): late; odd"),
        (shot(choices=[{"name": "pod", "values": 0}]), "llm-pool: nothing to choose for pod"),
        (shot(abroad=["//elsewhere"]), "llm-pool: the page asked for //elsewhere"),
        ({"report": None, "complaints": ["Timeout", "404"], "abroad": []}, "llm-pool: not drawn: Timeout; 404"),
    ],
)
def test_each_fault_is_named(drawn, told):
    assert list(faults("llm-pool", drawn)) == [told]


def test_a_declared_panel_may_be_empty_and_no_other():
    drawn = shot(panel(isEmpty=True), panel(title="TTFT", isEmpty=True))
    assert list(faults("llm-pool", drawn, {"Queue"})) == ["llm-pool: TTFT: no data"]
    failed = shot(panel(isEmpty=True, errors=["timeout"]))
    assert list(faults("llm-pool", failed, {"Queue"})) == ["llm-pool: Queue: timeout"]


def test_packages_are_pinned_exactly_and_locked_by_hash_without_an_address():
    pins = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    wanted = pins["dependencies"] | pins["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    lock = (HERE / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    packages = json.loads(lock)["packages"]
    assert packages[""]["dependencies"] == pins["dependencies"]
    assert all(one["integrity"].startswith("sha512-") for name, one in packages.items() if name)


def test_every_panel_type_of_the_boards_has_a_drawing():
    known = re.search(r"const PANELS = \{(.*?)\n\};", (HERE / "src" / "panels.jsx").read_text(encoding="utf-8"), re.DOTALL)[1]
    drawn = set(re.findall(r"^  '?([a-z-]+)'?: \[", known, re.MULTILINE))
    assert {one["type"] for board in boards().values() for one in panels(board)} - {"row"} <= drawn


def test_boards_that_ask_promql_are_drawn_and_no_others():
    assert {path.stem for path in GENERATED.glob("*.json")} <= boards().keys()
    asked = [target for board in boards().values() for one in panels(board) for target in one.get("targets", ())]
    assert asked
    assert all("expr" in target for target in asked)


def test_the_pictures_are_those_that_the_docs_show_and_are_small():
    shown = set(re.findall(r"\]\(pictures/([a-z-]+)\.png\)", (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")))
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert shown
    assert {picture.name for picture in pictures} == {f"{uid}.png" for uid in shown}
    assert shown <= {path.stem for path in GENERATED.glob("*.json")}
    assert sum(picture.stat().st_size for picture in pictures) < MOST_BYTES_OF_PICTURES
