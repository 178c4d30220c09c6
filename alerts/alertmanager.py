"""An Alertmanager configuration to start from: who is told what, and which alert makes others superfluous."""

from collections.abc import Iterable
from typing import Any

from alerts.model import AlertRule
from alerts.slo import Severity
from collector.naming import LEVEL_LABELS
from collector.signals import Level

_OURS = 'alertname=~"LLM.*"'


def example(rules: Iterable[AlertRule]) -> dict[str, Any]:
    """Routes and inhibitions of these rules; the receivers are placeholders on the machine itself."""
    return {"route": _route(), "inhibit_rules": [*_inhibitions(tuple(rules))], "receivers": _receivers()}


def _route() -> dict[str, Any]:
    watchdog = {
        "receiver": "watchdog",
        "matchers": ['alertname="LLMFleetWatchdog"'],
        "group_wait": "0s",
        "group_interval": "1m",
        "repeat_interval": "1m",
    }
    drained = {"receiver": "nobody", "matchers": ['drained="true"']}
    receivers = {Severity.PAGE: "pager", Severity.TICKET: "tickets", Severity.NOTE: "notes"}
    # Not urgent ones wait until what makes them superfluous fires: a cluster's pods read stale before it reads silent.
    by_severity = [{"receiver": name, "matchers": [f'severity="{severity}"'], "group_wait": "10s" if name == "pager" else "30s"}
                   for severity, name in receivers.items()]  # fmt: skip
    ours = {"receiver": "tickets", "matchers": [_OURS], "routes": [watchdog, drained, *by_severity]}
    return {
        "receiver": "nobody",
        "group_by": ["alertname", "cluster", "namespace", "pool"],
        "group_wait": "10s",
        "group_interval": "1m",
        "repeat_interval": "4h",
        "routes": [ours],
    }


def _inhibitions(rules: tuple[AlertRule, ...]) -> Iterable[dict[str, Any]]:
    """What is away as a whole speaks for all that is in it; critical speaks for warning and info about the same thing."""
    beneath = {Level.CLUSTER: (Level.POOL, Level.POD), Level.POOL: (Level.POD,)}
    for level, lower in beneath.items():
        names = "|".join(dict.fromkeys(rule.name for rule in rules if rule.hides and rule.level is level))
        if names:
            yield _inhibition([f'alertname=~"{names}"'], [_OURS, f'level=~"{"|".join(lower)}"'], LEVEL_LABELS[level])
    same = ("level", *LEVEL_LABELS[Level.POD], "instance", "slo")
    quieter = f'severity=~"{Severity.TICKET}|{Severity.NOTE}"'
    yield _inhibition([_OURS, f'severity="{Severity.PAGE}"'], [_OURS, quieter], same)


def _inhibition(source: list[str], target: list[str], equal: Iterable[str]) -> dict[str, Any]:
    return {"source_matchers": source, "target_matchers": target, "equal": list(equal)}


def _receivers() -> list[dict[str, Any]]:
    hooks = {"pager": True, "tickets": True, "notes": False, "watchdog": False}
    receivers: list[dict[str, Any]] = [{"name": "nobody"}]
    for name, resolved in hooks.items():
        hook = {"url": f"http://127.0.0.1:9095/{name}", "send_resolved": resolved}
        receivers.append({"name": name, "webhook_configs": [hook]})
    return receivers
