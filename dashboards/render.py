"""Boards as files: for Grafana's import page, its provisioning folder, or the sidecar that watches ConfigMaps."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from alerts.slo import DEFAULTS, Settings
from dashboards.boards import boards
from dashboards.draw import drawn
from dashboards.options import DEFAULT, Options

FOLDER = "LLM fleet"
SIDECAR_LABEL = "grafana_dashboard"
"""The label that the dashboard sidecar of Grafana's chart looks for unless told otherwise."""

_PROVISIONED = "/var/lib/grafana/dashboards/llm-fleet"


class Form(StrEnum):
    """How the files are meant to be installed."""

    JSON = "json"
    PROVISIONING = "provisioning"
    CONFIGMAPS = "configmaps"


def write(out: Path, options: Options = DEFAULT, form: Form = Form.JSON, settings: Settings = DEFAULTS) -> list[Path]:
    """Write every board into `out`, made if missing, and return the paths. Same boards and options, same bytes."""
    written = []
    for name, text in _files(options, form, settings):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _files(options: Options, form: Form, settings: Settings) -> Iterator[tuple[str, str]]:
    made = [drawn(board, options) for board in boards(settings)]
    if form is Form.CONFIGMAPS:
        for board in made:
            yield f"{board['uid']}.yaml", yaml.safe_dump(_config_map(board), sort_keys=False, width=1 << 30)
        return
    folder = "dashboards/llm-fleet/" if form is Form.PROVISIONING else ""
    if form is Form.PROVISIONING:
        yield "provisioning/dashboards/llm-fleet.yaml", yaml.safe_dump(_provider(), sort_keys=False)
    for board in made:
        yield f"{folder}{board['uid']}.json", json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _provider() -> dict[str, Any]:
    provider = {
        "name": "llm-fleet",
        "folder": FOLDER,
        "type": "file",
        "allowUiUpdates": False,
        "options": {"path": _PROVISIONED},
    }
    return {"apiVersion": 1, "providers": [provider]}


def _config_map(board: dict[str, Any]) -> dict[str, Any]:
    # Compact: the API server keeps a copy of what `kubectl apply` sends in an annotation, which ends at 256 KiB.
    body = json.dumps(board, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"grafana-{board['uid']}".lower().replace("_", "-"),
            "labels": {SIDECAR_LABEL: "1"},
            "annotations": {"grafana_folder": FOLDER},
        },
        "data": {f"{board['uid']}.json": body},
    }
