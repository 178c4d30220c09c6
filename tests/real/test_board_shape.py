"""The boards read with Grafana's own types: nothing is refused, and nothing that they say is unknown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.running import output_of, program

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
BOARDS = [
    path for where in ("*.json", "cloudwatch/grafana/*.json") for path in sorted((ROOT / "dashboards/generated").glob(where))
]

UNTYPED = {"step", "titleFormat", "textFormat", "useValueForTime", "definition"}
"""Of Prometheus' marks and of choices: Grafana writes them itself, its types leave them out."""


def understood(paths: list[Path]) -> dict[str, Any]:
    """Each board as it comes back from Grafana's types."""
    command = [program("grafana-foundation-sdk"), str(Path(__file__).with_name("board_shape.py")), *map(str, paths)]
    found: dict[str, Any] = json.loads(output_of(command))
    return found


def lost(said: Any, understood: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something that was said has not come back as it was."""
    if isinstance(said, dict):
        for key, value in said.items():
            if not isinstance(understood, dict) or key not in understood:
                yield (*path, key)
            else:
                yield from lost(value, understood[key], (*path, key))
    elif isinstance(said, list):
        if not isinstance(understood, list) or len(said) != len(understood):
            yield path
        else:
            for at, (one, other) in enumerate(zip(said, understood, strict=True)):
                yield from lost(one, other, (*path, at))
    elif said != understood:
        yield path


def test_grafanas_types_know_everything_that_the_boards_say() -> None:
    read = understood(BOARDS)
    for path in BOARDS:
        missing = lost(json.loads(path.read_text(encoding="utf-8")), read[str(path)])
        assert not [where for where in missing if where[-1] not in UNTYPED or where[0] not in ("annotations", "templating")], path


@pytest.mark.parametrize("where", ["thresholds", "option", "target"])
def test_the_types_see_what_is_wrong(where: str, tmp_path: Path) -> None:
    board = json.loads(BOARDS[0].read_text(encoding="utf-8"))
    panel = next(one for one in board["panels"] if one["type"] == "timeseries")
    if where == "thresholds":
        panel["fieldConfig"]["defaults"]["threshold"] = panel["fieldConfig"]["defaults"].pop("thresholds")
    elif where == "option":
        panel["options"]["legend"]["display"] = "list"
    else:
        panel["targets"][0]["expression"] = panel["targets"][0].pop("expr")
    path = tmp_path / "board.json"
    path.write_text(json.dumps(board), encoding="utf-8")
    assert list(lost(board, understood([path])[str(path)]))
