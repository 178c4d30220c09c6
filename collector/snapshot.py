"""What everybody publishes: one immutable cut of the state over all levels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.clock import Instant
from collector.model import Adapters, Failure, Target
from collector.signals import Level, State
from collector.totals import Child, Histogram

Gauges = Mapping[Child, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One subject at one level. `labels` are the values of the level's labels, in order; a missing key is absent.

    `began` is the Unix time since which the counters and histograms count; None where there are none yet.
    """

    level: Level
    labels: tuple[str, ...]
    gauges: Gauges
    counters: Mapping[Child, int] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One target as the picker sees it. Load values are present only while the state carries them."""

    target: Target
    state: State
    engine: str
    model: str
    sampled_at: float | None
    age_seconds: float | None
    gauges: Mapping[str, float]
    adapters: Adapters | None
    prefix_cache_hit_ratio: float | None
    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything at one moment."""

    at: Instant
    cluster: Row
    pools: tuple[Row, ...]
    pods: tuple[Row, ...]
    endpoints: tuple[Endpoint, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, pods first."""
        return (*self.pods, *self.pools, self.cluster)
