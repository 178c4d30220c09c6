"""Boards for CloudWatch as files: dashboard bodies, and Grafana boards of its metrics and of its PromQL door."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.naming import CLOUDWATCH_NAMESPACE
from dashboards.cloudwatch.door import through_the_door
from dashboards.cloudwatch.grafana import board_of
from dashboards.cloudwatch.native import body
from dashboards.cloudwatch.pages import PAGES
from dashboards.options import DEFAULT

DOCS = "docs/cloudwatch-boards-and-alarms.md"
REGION = "us-east-1"
REFRESH = "5m"
"""CloudWatch is paid by the metric asked for, and has nothing new within a minute."""


def write(out: Path, *, region: str = REGION, namespace: str = CLOUDWATCH_NAMESPACE) -> list[Path]:
    """Write every board into folders of `out`, made if missing, and return the paths. Same boards, same bytes."""
    written = []
    for name, made in _files(region, namespace):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _files(region: str, namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for page in PAGES:
        yield f"bodies/{page.name}.json", body(page, region=region, namespace=namespace)
    by_metric = replace(DEFAULT, docs=DOCS, refresh=REFRESH)
    by_query = replace(DEFAULT, refresh=REFRESH)
    for board in (*(board_of(page, by_metric, namespace) for page in PAGES), *through_the_door(by_query)):
        yield f"grafana/{board['uid']}.json", board
