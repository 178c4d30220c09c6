"""Every rule there is, gathered. Files, annotations and links are made of them by `alerts.render`."""

from dataclasses import replace

from alerts import cluster, own, pod, pool, records
from alerts.burn import burn_groups
from alerts.model import AlertRule, Group, RecordingRule
from alerts.slo import DEFAULTS, Change, Settings


def groups(settings: Settings) -> tuple[Group, ...]:
    """All rules as settings have them; a group that lost all its rules is left out."""
    burns = tuple(group for objective in settings.objectives for group in burn_groups(objective, settings))
    below, above = (pod.groups, pool.groups), (cluster.groups, own.groups, records.groups)
    built = (
        *(group for part in below for group in part(settings)),
        *burns,
        *(group for part in above for group in part(settings)),
    )
    changed = (replace(group, rules=tuple(_changed(group, settings))) for group in built)
    return tuple(group for group in changed if group.rules)


def _changed(group: Group, settings: Settings) -> list[RecordingRule | AlertRule]:
    return [
        rule if isinstance(rule, RecordingRule) else _apply(rule, settings.changes.get(rule.name, Change()))
        for rule in group.rules
        if isinstance(rule, RecordingRule) or not settings.changes.get(rule.name, Change()).disabled
    ]


def _apply(rule: AlertRule, change: Change) -> AlertRule:
    given = {
        "pending_seconds": change.pending_seconds,
        "keep_firing_seconds": change.keep_firing_seconds,
        "severity": change.severity,
    }
    return replace(rule, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


GROUPS: tuple[Group, ...] = groups(DEFAULTS)
"""The rules that ship."""
