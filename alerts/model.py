"""What a rule is: recording rules, alerting rules and their groups as data.

Two renderers read them. `alerts.render` writes what speaks PromQL, from `expression`. One that does not speak it (CloudWatch
metric math) reads `told` of each alert: a Check says in signals, comparison and limit what the expression says, a Burn names
an objective and its windows, and None means that the alert cannot be told without PromQL. Beside it stand `level`,
`pending_seconds`, `severity`, `summary` and `anchor`. `alerts.rules.groups(settings)` gives all of them, GROUPS the shipped ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from alerts.slo import BurnWindow, Objective, Severity
from collector.naming import LEVEL_LABELS
from collector.signals import Level

Labels = tuple[tuple[str, str], ...]

SUBJECT = {
    Level.POD: "{{ $labels.namespace }}/{{ $labels.pod }} of pool {{ $labels.pool }} in {{ $labels.cluster }}",
    Level.POOL: "Pool {{ $labels.namespace }}/{{ $labels.pool }} in {{ $labels.cluster }}",
    Level.CLUSTER: "Cluster {{ $labels.cluster }}",
    Level.EXPORTER: "Exporter {{ $labels.instance }}",
}
"""How the text of an alert names what it speaks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """A series that other rules and boards read; `recorded` makes its name."""

    name: str
    expression: str
    labels: Labels = ()
    kept: tuple[str, ...] = ()
    """Labels beyond the level's that the expression keeps."""


class How(StrEnum):
    """How the values of a signal within a window become one."""

    LAST = "last"
    INCREASE = "increase"
    """Of a counter, or of the observations of a histogram, over the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One signal of the table at the alert's level. `children`: which of its own label's, added up; none means all."""

    signal: str
    how: How = How.LAST
    children: tuple[str, ...] = ()
    window_seconds: int = 0
    """Of an increase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The sum of `values`, divided by the sum of `over` where there is one, compared with a limit; so must `also` hold."""

    values: tuple[Value, ...]
    comparison: str
    limit: float
    over: tuple[Value, ...] = ()
    also: tuple["Check", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """Over both windows the share of bad events is above factor times budget; in the long one there are enough events."""

    objective: Objective
    window: BurnWindow

    @property
    def limit(self) -> float:
        """Share of bad events above which the budget burns too fast."""
        return round(self.window.factor * self.objective.budget, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """An alert. It keeps the labels of `level`; its texts may use the `carried` labels and `$value`."""

    name: str
    level: Level
    expression: str
    severity: Severity
    summary: str
    description: str
    pending_seconds: int = 0
    keep_firing_seconds: int = 0
    labels: Labels = ()
    kept: tuple[str, ...] = ()
    """Labels beyond the level's that the expression keeps."""

    board_uid: str = ""
    hides: bool = False
    """It speaks of a whole that is away: alerts of what is in it then add nothing."""

    told: Check | Burn | None = None

    @property
    def board(self) -> str:
        """The board that shows it, its level's unless told."""
        return self.board_uid or f"llm-{self.level}"

    @property
    def anchor(self) -> str:
        """Heading of the alert in runbook.md, as a link spells it."""
        return self.name.lower()

    @property
    def carried(self) -> tuple[str, ...]:
        """Labels that the alert carries."""
        return (*LEVEL_LABELS[self.level], *self.kept, *(label for label, _ in self.labels), "level", "severity")


Rules = tuple[RecordingRule | AlertRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules evaluated together and in order, so that a rule may read those above it of the same instant."""

    name: str
    level: Level
    interval_seconds: int
    rules: Rules
    topic: str = ""
    """Name of the file that it goes into, its level's unless told."""

    @property
    def file(self) -> str:
        return self.topic or str(self.level)


def alerts_of(groups: Iterable[Group]) -> tuple[AlertRule, ...]:
    """The alerting rules of groups, in order."""
    return tuple(rule for group in groups for rule in group.rules if isinstance(rule, AlertRule))


def records_of(groups: Iterable[Group]) -> tuple[RecordingRule, ...]:
    """The recording rules of groups, in order."""
    return tuple(rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule))


def recorded(level: Level, what: str, operation: str) -> str:
    """Name of a recorded series: `level:metric:operations`."""
    return f"{level}:{what}:{operation}"
