"""Objectives and thresholds that rules and boards share, each stated once."""

from dataclasses import dataclass
from enum import StrEnum

from collector.naming import find, metric
from collector.signals import Kind, Level


class Severity(StrEnum):
    """Who is told: PAGE wakes somebody, TICKET waits for working hours. Spelled as kubernetes-mixin does."""

    PAGE = "critical"
    TICKET = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObjective:
    """Share of a pool's requests within a latency, over 30 days. ValueError when it cannot be measured."""

    slug: str
    title: str
    signal: str
    bound_seconds: float
    objective: float
    minimum_requests: int
    """Requests in the long window below which no burn is judged: one slow request of three is not a burn."""

    def __post_init__(self) -> None:
        row = find(self.signal, Level.POOL)
        if row.kind is not Kind.HISTOGRAM or self.bound_seconds not in row.ladder:
            # Between two bounds the share would be a guess, and above the top one it would be 0 for ever.
            raise ValueError(f"{self.slug}: {self.bound_seconds} s is no bucket bound of {metric(self.signal, Level.POOL)}")
        if not 0 < self.objective < 1:
            raise ValueError(f"{self.slug}: objective {self.objective} is not between 0 and 1")

    @property
    def budget(self) -> float:
        """Share of requests that may be slow."""
        return round(1 - self.objective, 9)


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """A budget burning `factor` times too fast over the long window, and still so over the short one."""

    long: str
    short: str
    factor: float
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Limits of alerts that are not budgets; the boards draw the same ones."""

    stale_seconds: int = 30
    """Age of a pod's last good sample: more than a scrape interval of 15 s and a restart of the exporter."""

    saturation_ratio: float = 1.0


TTFT = LatencyObjective(
    slug="ttft",
    title="time to first token",
    signal="time_to_first_token_seconds",
    # Exact on every engine: vLLM and SGLang share the default bounds 0.1, 1, 10, 20, 40 and 80.
    bound_seconds=1.0,
    objective=0.99,
    minimum_requests=100,
)

BUDGET_WINDOW = "30d"

# The SRE workbook's windows for 30 days: 2 % of the budget in 1 h, 5 % in 6 h, 10 % in 1 d, 10 % in 3 d.
BURN_WINDOWS = (
    BurnWindow("1h", "5m", 14.4, Severity.PAGE),
    BurnWindow("6h", "30m", 6, Severity.PAGE),
    BurnWindow("1d", "2h", 3, Severity.TICKET),
    BurnWindow("3d", "6h", 1, Severity.TICKET),
)

THRESHOLDS = Thresholds()
