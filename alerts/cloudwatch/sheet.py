"""The metrics of one alarm, and the ids that its expression calls them by.

Limits are those of AWS's documentation: at most ten metrics, one period for all, and that a day at most.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from alerts.cloudwatch.model import Subject, Tells, everything
from collector.naming import cloudwatch_name
from collector.signals import Level

MOST_METRICS = 10
LONGEST_PERIOD_SECONDS = 86_400
PERIOD_SECONDS = 60

_Asked = tuple[str, str, tuple[tuple[str, str], ...]]


class CannotTell(Exception):
    """CloudWatch's metric math has no way to say this."""


class NotSent(CannotTell):
    """The subject does not send what would be judged; CloudWatch could say it of another."""


@dataclass(slots=True)
class Sheet:
    """Collects what an expression asks for; the same metric asked for twice is one."""

    subject: Subject
    namespace: str
    period_seconds: int
    tells: Tells = everything
    _asked: dict[_Asked, str] = field(default_factory=dict)
    _without: dict[str, dict[str, None]] = field(default_factory=dict)

    def ask(self, signal: str, statistic: str, *own: tuple[str, str], suffix: str = "", level: Level | None = None) -> str:
        """Id of a statistic of a signal over the period; `own` are labels of the signal's own with their values."""
        name = cloudwatch_name(signal, level or self.subject.level) + suffix
        return self._asked.setdefault((name, statistic, own), f"m{len(self._asked) + 1}")

    def has(self, signal: str, child: str = "") -> bool:
        """Whether the subject sends it; what it does not is kept for `without`."""
        if self.tells(self.subject, signal, child):
            return True
        self._without.setdefault(cloudwatch_name(signal, self.subject.level), {})[child] = None
        return False

    def sent(self, signal: str, children: Sequence[str] = ("",)) -> tuple[str, ...]:
        """Those of the children that are sent: one that is not would make every sum with it empty. NotSent without any."""
        found = tuple(child for child in children if self.has(signal, child))
        if not found:
            raise NotSent(_named(cloudwatch_name(signal, self.subject.level), children))
        return found

    @property
    def without(self) -> tuple[str, ...]:
        """What was to be added up and is not sent."""
        return tuple(_named(name, children) for name, children in self._without.items())

    def metrics(self, expression: str, label: str) -> list[dict[str, Any]]:
        """Metrics of PutMetricAlarm. CannotTell where there are too many, or the period is too long."""
        if len(self._asked) > MOST_METRICS:
            raise CannotTell(f"it reads {len(self._asked)} metrics, an alarm at most {MOST_METRICS}")
        if self.period_seconds % PERIOD_SECONDS:
            raise CannotTell(f"it looks back {self.period_seconds} s; a period is whole minutes")
        if self.period_seconds > LONGEST_PERIOD_SECONDS:
            raise CannotTell(f"it looks back {self.period_seconds // 3600} h; a period is a day at most")
        shown = {"Id": "e1", "Expression": expression, "Label": label, "ReturnData": True}
        return [shown, *(self._metric(known, *asked) for asked, known in self._asked.items())]

    def _metric(self, known: str, name: str, statistic: str, own: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        metric = {
            "Namespace": self.namespace,
            "MetricName": name,
            "Dimensions": [{"Name": label, "Value": value} for label, value in (*self.subject.dimensions, *own)],
        }
        stat = {"Metric": metric, "Period": self.period_seconds, "Stat": statistic}
        return {"Id": known, "MetricStat": stat, "ReturnData": False}


def _named(metric: str, children: Iterable[str]) -> str:
    own = [child for child in children if child]
    return f"{metric} of {', '.join(own)}" if own else metric
