"""The data that passes between the stages; all frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from collector.auth import Auth, Tls
from collector.clock import Instant
from collector.ladders import RawHistogram
from collector.reasons import FailureReason, Oddity
from collector.signals import COVERS, Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One metrics endpoint. Identity is (pod UID, port) where there is a UID, else the URL."""

    url: str
    namespace: str
    pool: str
    pod: str
    uid: str = ""
    model: str = ""
    engine: str = ""
    role: str = ""
    node: str = ""
    accelerator: str = ""
    cost_tier: str = ""
    terminating: bool = False
    auth: Auth | None = None
    tls: Tls | None = None

    @property
    def address(self) -> str:
        """`host:port`, IPv6 hosts in brackets."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def key(self) -> str:
        return f"{self.uid}:{urlsplit(self.url).port}" if self.uid else self.url

    @property
    def pod_key(self) -> tuple[str, str, str]:
        """Identity of the pod that this target belongs to."""
        return (self.namespace, self.pool, self.uid or self.pod)

    @property
    def pool_key(self) -> tuple[str, str]:
        return (self.namespace, self.pool)


@dataclass(frozen=True, slots=True)
class Adapters:
    """LoRA adapters of one engine; None where the engine does not tell. `used` is their number where it does not name them."""

    running: frozenset[str] | None = None
    waiting: frozenset[str] | None = None
    max: int | None = None
    loaded: frozenset[str] | None = None
    used: int | None = None


SeriesKey = tuple[str, str, str]
"""Signal, child (value of the signal's own label, "" without one), source (rank or other series of the engine)."""

ALL_CHILDREN = "*"
"""Child of a counter that holds the sum of all children: what the known ones do not explain becomes `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What one page says of one subject, in the vocabulary of the table, folded over ranks; counters still by source.

    Gauges are keyed by signal, or by `signal/child` where the signal has a label of its own.
    """

    gauges: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[SeriesKey, int] = field(default_factory=dict)
    histograms: Mapping[SeriesKey, RawHistogram] = field(default_factory=dict)
    adapters: Adapters | None = None
    progress: float | None = None
    started_at: float | None = None
    model: str = ""
    role: str = ""
    damaged: frozenset[str] = frozenset()
    """Signals of which a part of the page was lost: what is missing of them says nothing."""


Subject = Target
"""What values speak of. Engine pages speak of their own target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One good attempt: what the page said, and what it could have said."""

    target: Target
    lane: Lane
    at: Instant
    engine: str
    rows: Mapping[Subject, Values]
    duration_seconds: float = 0.0
    oddities: Mapping[Oddity, int] = field(default_factory=dict)
    unknown_families: int = 0
    whole: bool = True
    """False where nothing told that the page was complete: what it lacks may only have been cut off."""
    only: frozenset[str] | None = None

    @property
    def covers(self) -> frozenset[str]:
        """Signals this reading speaks of: one that it covers and lacks is absent, others are untouched.

        All that its lane covers, or `only` some where the source knows no others; such a source has no progress counters.
        """
        return COVERS[self.lane] if self.only is None else self.only


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed attempt."""

    target: Target
    lane: Lane
    at: Instant
    reason: FailureReason
    detail: str
    duration_seconds: float = 0.0
