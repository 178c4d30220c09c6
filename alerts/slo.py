"""Objectives, burn windows, thresholds: what users may set, with what ships. `alerts.settings` reads it from a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from alerts.durations import seconds_of
from collector.naming import LEVEL_LABELS, find, metric
from collector.signals import Kind, Level


class Severity(StrEnum):
    """Who is told: PAGE wakes somebody, TICKET waits for working hours, NOTE is read when somebody looks."""

    PAGE = "critical"
    TICKET = "warning"
    NOTE = "info"
    NONE = "none"
    """Of the watchdog alone, which is always on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Share of events that must be good over the budget window; availability unless a subclass says otherwise."""

    slug: str
    word: str
    """As it stands in the name of the alert."""

    title: str
    objective: float
    minimum_events: int
    """Events in the long window below which no burn is judged: one bad request of three is not a burn."""

    events: str = "requests"

    def __post_init__(self) -> None:
        if not 0 < self.objective < 1:
            raise ValueError(f"{self.slug}: objective {self.objective:g} is not between 0 and 1")
        if self.minimum_events < 1:
            raise ValueError(f"{self.slug}: expected at least 1 of {self.events}, got {self.minimum_events}")

    @property
    def budget(self) -> float:
        """Share of events that may be bad."""
        return round(1 - self.objective, 9)

    @property
    def missed(self) -> str:
        """What bad events did, as the end of a sentence."""
        return "failed or were refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObjective(Objective):
    """Share of events within a latency. ValueError when it cannot be measured."""

    signal: str
    bound_seconds: float

    def __post_init__(self) -> None:
        super(LatencyObjective, self).__post_init__()
        row = find(self.signal, Level.POOL)
        if row.kind is not Kind.HISTOGRAM or self.bound_seconds not in row.ladder:
            # Between two bounds the share would be a guess, and above the top one it would be 0 for ever.
            raise ValueError(f"{self.slug}: {self.bound_seconds} s is no bucket bound of {metric(self.signal, Level.POOL)}")

    @property
    def missed(self) -> str:
        """What bad events did, as the end of a sentence."""
        return f"took longer than {self.bound_seconds:g} s"


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """A budget burning `factor` times too fast over the long window, and still so over the short one."""

    long: str
    short: str
    factor: float
    severity: Severity
    pending_seconds: int

    def __post_init__(self) -> None:
        if seconds_of(self.short) >= seconds_of(self.long):
            raise ValueError(f"the short window {self.short} is not shorter than the long one, {self.long}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Limits of alerts that are not budgets; the boards draw the same ones. Rates are per second over 5 minutes."""

    stale_seconds: int = 30
    """Age of a pod's last good sample: more than a scrape interval of 15 s and a restart of the exporter."""

    pod_kv_cache_ratio: float = 0.95
    pod_requests_waiting: int = 20
    pod_preemption_rate: float = 0.1
    saturation_ratio: float = 1.0
    rejected_ratio: float = 0.01
    reporting_ratio: float = 0.8
    error_ratio: float = 0.05
    abort_ratio: float = 0.2
    minimum_requests: int = 20
    """Finished requests in 5 minutes below which no share of them is judged."""

    kv_cache_ratio: float = 0.85
    kv_cache_full_within_seconds: int = 900
    prefix_hit_drop_ratio: float = 0.5
    """Of the prefix-cache hits of a day before."""

    prefix_query_tokens: int = 100_000
    """Tokens looked up in an hour below which no drop of hits is judged."""

    imbalance_ratio: float = 2.0
    imbalance_requests_waiting: float = 1.0
    """Waiting requests per pod below which an uneven load harms nobody."""

    cluster_reporting_ratio: float = 0.5
    slow_read_seconds: float = 1.0
    slow_read_ratio: float = 0.05
    sink_silent_seconds: int = 300
    clock_skew_seconds: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a user changes of one alert; None leaves it as it is."""

    disabled: bool = False
    pending_seconds: int | None = None
    keep_firing_seconds: int | None = None
    severity: Severity | None = None


TTFT = LatencyObjective(
    slug="ttft",
    word="TTFT",
    title="time to first token",
    signal="time_to_first_token_seconds",
    bound_seconds=1.0,
    objective=0.99,
    minimum_events=100,
)
ITL = LatencyObjective(
    slug="itl",
    word="ITL",
    title="inter-token latency",
    signal="inter_token_latency_seconds",
    bound_seconds=0.1,
    objective=0.99,
    minimum_events=2000,
    events="gaps between tokens",
)
E2E = LatencyObjective(
    slug="e2e",
    word="E2E",
    title="end-to-end latency",
    signal="end_to_end_latency_seconds",
    bound_seconds=40.0,
    objective=0.99,
    minimum_events=100,
)
AVAILABILITY = Objective(
    slug="availability",
    word="Availability",
    title="availability",
    objective=0.995,
    minimum_events=100,
)

OBJECTIVES: tuple[Objective, ...] = (TTFT, ITL, E2E, AVAILABILITY)

BUDGET_WINDOW = "30d"

# The SRE workbook's windows for 30 days: 2 % of the budget in 1 h, 5 % in 6 h, 10 % in 1 d, 10 % in 3 d.
BURN_WINDOWS = (
    BurnWindow("1h", "5m", 14.4, Severity.PAGE, 120),
    BurnWindow("6h", "30m", 6, Severity.PAGE, 120),
    BurnWindow("1d", "2h", 3, Severity.TICKET, 900),
    BurnWindow("3d", "6h", 1, Severity.TICKET, 900),
)

THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that rules are made of and users may change."""

    objectives: tuple[Objective, ...] = OBJECTIVES
    windows: tuple[BurnWindow, ...] = BURN_WINDOWS
    budget_window: str = BUDGET_WINDOW
    thresholds: Thresholds = THRESHOLDS
    selector: Mapping[str, str] = field(default_factory=dict)
    """Matchers of the pools that the rules speak of, as `alerts.promql` takes them; all by default."""

    exporter_job: str = "llm-fleet"
    """Name of the exporter's scrape job in Prometheus."""

    changes: Mapping[str, Change] = field(default_factory=dict)
    """By name of the alert."""

    def chosen(self, level: Level) -> dict[str, str]:
        """The selector's matchers that a level has the labels for."""
        return {label: text for label, text in self.selector.items() if label in LEVEL_LABELS[level]}


DEFAULTS = Settings()
