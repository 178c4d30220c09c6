"""What a rule is: recording rules, alerting rules and their groups as data."""

from dataclasses import dataclass

from alerts.slo import Severity
from collector.naming import LEVEL_LABELS
from collector.signals import Level

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """A series that other rules and boards read; `recorded` makes its name."""

    name: str
    expression: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """An alert. It keeps the labels of `level`; its texts may use the `carried` labels and `$value`."""

    name: str
    level: Level
    expression: str
    severity: Severity
    summary: str
    description: str
    pending: str = ""
    keep_firing: str = ""
    labels: Labels = ()
    board: str = "llm-pool"

    @property
    def anchor(self) -> str:
        """Heading of the alert in runbook.md, as a link spells it."""
        return self.name.lower()

    @property
    def carried(self) -> tuple[str, ...]:
        """Labels that the alert carries."""
        return (*LEVEL_LABELS[self.level], *(label for label, _ in self.labels), "severity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules evaluated together and in order, so that a rule may read those above it of the same instant."""

    name: str
    level: Level
    interval_seconds: int
    rules: tuple[RecordingRule | AlertRule, ...]


def recorded(level: Level, what: str, operation: str) -> str:
    """Name of a recorded series: `level:metric:operations`."""
    return f"{level}:{what}:{operation}"
