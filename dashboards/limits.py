"""Where numbers turn orange and red: from what the rules judge by, so that a red number and an alert say the same."""

from dataclasses import dataclass

from alerts.slo import LatencyObjective, Settings
from dashboards.model import Limit

WARN, BAD, GOOD = "orange", "red", "green"

BUDGET = (Limit(0, WARN), Limit(0.25, GOOD))


@dataclass(frozen=True, slots=True)
class Limits:
    """Red is where an alert fires; orange comes before it, where there is no alert of its own."""

    settings: Settings

    def objective(self, signal: str) -> LatencyObjective | None:
        """What is asked of a latency; None where nothing is."""
        judged = (one for one in self.settings.objectives if isinstance(one, LatencyObjective))
        return next((one for one in judged if one.signal == signal), None)

    def bound(self, signal: str) -> tuple[Limit, ...]:
        """The bound of a latency's objective, if it has one."""
        objective = self.objective(signal)
        return () if objective is None else (Limit(objective.bound_seconds, BAD),)

    @property
    def full(self) -> Limit:
        return Limit(self.settings.thresholds.saturation_ratio, BAD)

    @property
    def saturation(self) -> tuple[Limit, ...]:
        return (Limit(0.8 * self.full.value, WARN), self.full)

    @property
    def errors(self) -> tuple[Limit, ...]:
        bad = self.settings.thresholds.error_ratio
        return (Limit(bad / 5, WARN), Limit(bad, BAD))

    @property
    def kv_cache(self) -> tuple[Limit, ...]:
        pool, pod = self.settings.thresholds.kv_cache_ratio, self.settings.thresholds.pod_kv_cache_ratio
        return _rising((pool, WARN), (pod, BAD))

    @property
    def reporting(self) -> tuple[Limit, ...]:
        return _rising((self.settings.thresholds.reporting_ratio, WARN), (1, GOOD))

    @property
    def imbalance(self) -> tuple[Limit, ...]:
        bad = self.settings.thresholds.imbalance_ratio
        return (Limit(0.75 * bad, WARN), Limit(bad, BAD))

    @property
    def age(self) -> tuple[Limit, ...]:
        bad = self.settings.thresholds.stale_seconds
        return (Limit(bad / 2, WARN), Limit(bad, BAD))

    @property
    def preemptions(self) -> tuple[Limit, ...]:
        return (Limit(self.settings.thresholds.pod_preemption_rate, BAD),)

    @property
    def read(self) -> tuple[Limit, ...]:
        bad = self.settings.thresholds.slow_read_seconds
        return (Limit(bad / 2, WARN), Limit(bad, BAD))


def _rising(*limits: tuple[float, str]) -> tuple[Limit, ...]:
    """Limits in their order; of two that users set the wrong way round or alike, the later one holds."""
    kept = {value: color for value, color in limits if value <= limits[-1][0]}
    return tuple(Limit(value, color) for value, color in sorted(kept.items()))
