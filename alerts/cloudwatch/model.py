"""What an alarm is, what it watches, and what whoever puts it may choose."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from alerts.model import AlertRule, Burn
from alerts.slo import DEFAULTS, Settings, Severity
from collector.naming import CLOUDWATCH_NAMESPACE, LEVEL_LABELS
from collector.signals import Level

MANAGED_BY = ("managed-by", "llm-fleet-exporter")
"""Tag of every alarm that is ours; others are never changed or deleted."""

_SEVERITY = "severity"

LONGEST_NAME = 255
LONGEST_DESCRIPTION = 1024


class Kind(StrEnum):
    """Operation of the API that makes the alarm."""

    METRIC = "PutMetricAlarm"
    COMPOSITE = "PutCompositeAlarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alarm as a request of the API."""

    kind: Kind
    request: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Unique within an account and region."""
        return str(self.request["AlarmName"])

    @property
    def severity(self) -> Severity:
        """That of the alert that it is, or is a part of."""
        return next(Severity(tag["Value"]) for tag in self.request["Tags"] if tag["Key"] == _SEVERITY)


@dataclass(frozen=True, slots=True)
class Subject:
    """What alarms speak of: a cluster, or a pool. ValueError where it cannot stand in the name of an alarm."""

    level: Level
    values: tuple[str, ...]
    """Of the level's labels, in order."""

    def __post_init__(self) -> None:
        labels = LEVEL_LABELS[self.level]
        if len(self.values) != len(labels) or not all(self.values):
            raise ValueError(f"expected {'/'.join(labels)}, got {'/'.join(self.values)!r}")
        for value in self.values:
            # A rule of a composite alarm names its alarms in double quotes.
            if '"' in value or not value.isprintable():
                raise ValueError(f"{value!r} cannot stand in the name of an alarm")

    @property
    def cluster(self) -> "Subject":
        """The cluster it is, or is in."""
        return Subject(Level.CLUSTER, self.values[:1])

    @property
    def dimensions(self) -> list[tuple[str, str]]:
        """Dimensions of its metrics."""
        return list(zip(LEVEL_LABELS[self.level], self.values, strict=True))


Tells = Callable[[Subject, str, str], bool]
"""Whether a subject sends a signal, or the child of it: engines differ, and a sum without one of its metrics is nothing."""


def everything(subject: Subject, signal: str, child: str) -> bool:
    """Of a subject that sends all there is, as a pool of vLLM does."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where alarms go and whom they tell. `actions` are ARNs by severity; a severity without any tells nobody."""

    settings: Settings = DEFAULTS
    prefix: str = "llm-fleet"
    namespace: str = CLOUDWATCH_NAMESPACE
    runbook: str = "alerts/runbook.md"
    actions: Mapping[Severity, tuple[str, ...]] = field(default_factory=dict)
    tells: Tells = everything

    def speaks_of(self, subject: Subject) -> bool:
        """Whether the selector of the settings lets a subject through."""
        chosen = self.settings.chosen(subject.level)
        return all(_matches(chosen[label], value) for label, value in subject.dimensions if label in chosen)

    def name(self, *parts: str) -> str:
        """Name of an alarm. ValueError when AWS would refuse it."""
        name = "/".join((self.prefix, *parts))
        if len(name) > LONGEST_NAME:
            raise ValueError(f"the name of an alarm has at most {LONGEST_NAME} characters, this has {len(name)}: {name}")
        return name

    def tags(self, severity: Severity = Severity.NONE) -> list[dict[str, str]]:
        """Tags of an alarm."""
        return [{"Key": key, "Value": value} for key, value in (MANAGED_BY, (_SEVERITY, str(severity)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An alert that has no alarm, and why; `alert` is its name with the window that tells it apart: `Burn/3d`.

    `partly`: it has one, which goes without a part.
    """

    alert: str
    reason: str
    partly: bool = False


def words(rule: AlertRule, settings: Settings = DEFAULTS) -> tuple[str, ...]:
    """An alert's name, and where several have it the windows that tell them apart: the long one, if no other has it, alone."""
    if not isinstance(rule.told, Burn):
        return (rule.name,)
    window = rule.told.window
    lone = sum(one.long == window.long for one in settings.windows) == 1
    return rule.name, window.long if lone else f"{window.long}-{window.short}"


def _matches(text: str, value: str) -> bool:
    """A matcher as `alerts.promql` takes it, of a value."""
    if text.startswith(("=~", "!~")):
        return (re.fullmatch(text[2:], value) is not None) is text.startswith("=~")
    return value != text[2:] if text.startswith("!=") else value == text.removeprefix("=")
