"""Boards for CloudWatch as files: dashboard bodies, and Grafana boards of its metrics and of its PromQL door."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from alerts.slo import DEFAULTS, Settings
from collector.naming import CLOUDWATCH_NAMESPACE
from dashboards.cloudwatch.door import through_the_door
from dashboards.cloudwatch.grafana import board_of
from dashboards.cloudwatch.native import body
from dashboards.cloudwatch.pages import pages
from dashboards.options import DEFAULT

DOCS = "docs/cloudwatch-boards-and-alarms.md"
REGION = "us-east-1"
REFRESH = "5m"
"""CloudWatch is paid by the metric asked for, and has nothing new within a minute."""


def write(out: Path, *, region: str = REGION, namespace: str = CLOUDWATCH_NAMESPACE, settings: Settings = DEFAULTS) -> list[Path]:
    """Write every board into folders of `out`, made if missing, and return the paths. Same boards, same bytes."""
    written = []
    for name, made in _files(region, namespace, settings):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _files(region: str, namespace: str, settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    shown = pages(settings)
    for page in shown:
        yield f"bodies/{page.name}.json", body(page, region=region, namespace=namespace)
    by_metric = replace(DEFAULT, docs=DOCS, refresh=REFRESH)
    by_query = replace(DEFAULT, refresh=REFRESH)
    for board in (*(board_of(page, by_metric, namespace) for page in shown), *through_the_door(by_query, settings)):
        yield f"grafana/{board['uid']}.json", board
