"""Boards as files that Grafana provisions or imports."""

import json
from pathlib import Path

from dashboards.boards import BOARDS
from dashboards.panels import drawn


def write(out: Path, docs: str = "docs/dashboards.md") -> list[Path]:
    """Write `<uid>.json` of every board into `out`, made if missing. Same boards, same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for board in BOARDS:
        path = out / f"{board.uid}.json"
        body = json.dumps(drawn(board, docs), indent=2, sort_keys=True, ensure_ascii=False)
        path.write_text(body + "\n", encoding="utf-8")
        written.append(path)
    return written
