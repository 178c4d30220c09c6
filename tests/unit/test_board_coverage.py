"""What the table has is on a board, or is said not to be, with a reason. That what boards ask for exists: test_promql_table."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.naming import families, prometheus_name
from collector.signals import Kind
from dashboards.boards import BOARDS
from dashboards.draw import drawn
from tests.promql import parsed, selectors

ROOT = Path(__file__).parents[2]
UNSHOWN = tomllib.loads((ROOT / "dashboards/unshown.toml").read_text(encoding="utf-8"))
ALL = {(str(level), row.name) for row, level in families()}
PARTS = {Kind.HISTOGRAM: ("_bucket", "_count", "_sum")}
FAMILY = {prometheus_name(row, level) + part: (str(level), row.name)
          for row, level in families() for part in PARTS.get(row.kind, ("",))}  # fmt: skip


def shown(board: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Level and signal of each family in panels and marks; choices show nothing of a family."""
    panels = [inner for one in board["panels"] for inner in (one, *one.get("panels", ()))]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for expression in (*expressions, *(one["expr"] for one in board["annotations"]["list"])):
        yield from (FAMILY[selector.name] for selector, _ in selectors(parsed(expression)) if selector.name in FAMILY)


SHOWN = {one for board in BOARDS for one in shown(drawn(board))}
LISTED = {(level, name) for level, reasons in UNSHOWN.items() if level != "process" for name in reasons}


def test_every_family_is_shown_or_listed_with_a_reason() -> None:
    assert not sorted(ALL - SHOWN - LISTED)


def test_the_list_holds_only_families_that_exist_and_are_not_shown() -> None:
    assert not sorted(LISTED - ALL)
    assert not sorted(LISTED & SHOWN)
    assert all(len(reason) > 20 for reasons in UNSHOWN.values() for reason in reasons.values())


def test_every_label_of_its_own_is_told_apart_somewhere() -> None:
    """A family by reason, state or queue is shown by it, or matched by one of its values, on at least one board."""
    read: dict[tuple[str, str], str] = {}
    for board in BOARDS:
        for panel in (inner for one in drawn(board)["panels"] for inner in (one, *one.get("panels", ()))):
            for target in panel.get("targets", ()):
                for selector, _ in selectors(parsed(target["expr"])):
                    if selector.name in FAMILY:
                        key = FAMILY[selector.name]
                        read[key] = read.get(key, "") + target["expr"]
    own = {(str(level), row.name): row.labels for row, level in families() if row.kind is not Kind.INFO}
    unread = [(key, label) for key, text in read.items() for label in own.get(key, ()) if label not in text]
    assert not unread
