"""Rules as Prometheus rule files, one per level."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alerts.durations import show
from alerts.model import AlertRule, Group, RecordingRule
from alerts.rules import GROUPS
from collector.naming import LEVEL_LABELS

_HEADER = "# Generated from alerts/rules.py by `llm-fleet-exporter render alerts`; change the rules there.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where annotations point: the root URL of Grafana, and the URL of the runbook. Relative by default."""

    grafana: str = ""
    runbook: str = "alerts/runbook.md"


def write(out: Path, links: Links = Links()) -> list[Path]:
    """Write the rule files into `out`, made if missing, and return their paths. Same rules, same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for level in dict.fromkeys(group.level for group in GROUPS):
        groups = [_group_body(group, links) for group in GROUPS if group.level is level]
        body = yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=1 << 20)
        path = out / f"{level}.yaml"
        path.write_text(_HEADER + body, encoding="utf-8")
        written.append(path)
    return written


def _group_body(group: Group, links: Links) -> dict[str, Any]:
    rules = [_record_body(rule) if isinstance(rule, RecordingRule) else _alert_body(rule, links) for rule in group.rules]
    return {"name": group.name, "interval": f"{group.interval_seconds}s", "rules": rules}


def _record_body(rule: RecordingRule) -> dict[str, Any]:
    body: dict[str, Any] = {"record": rule.name, "expr": rule.expression}
    return body | ({"labels": dict(rule.labels)} if rule.labels else {})


def _alert_body(rule: AlertRule, links: Links) -> dict[str, Any]:
    body: dict[str, Any] = {"alert": rule.name, "expr": rule.expression}
    waits = {"for": rule.pending_seconds, "keep_firing_for": rule.keep_firing_seconds}
    return (
        body
        | {key: show(wait) for key, wait in waits.items() if wait}
        | {
            "labels": dict(rule.labels) | {"level": str(rule.level), "severity": str(rule.severity)},
            "annotations": {
                "summary": rule.summary,
                "description": rule.description,
                "runbook_url": f"{links.runbook}#{rule.anchor}",
                "dashboard_url": _dashboard_url(rule, links),
            },
        }
    )


def _dashboard_url(rule: AlertRule, links: Links) -> str:
    shown = [label for label in LEVEL_LABELS[rule.level] if label != "pod"]
    query = "&".join(f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in shown)
    return f"{links.grafana.rstrip('/')}/d/{rule.board}?{query}"


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines as literal blocks, so that a rule file reads like PromQL."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
