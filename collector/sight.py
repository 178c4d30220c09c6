"""What is seen of one target, and what may be said of it at a moment. Reads only."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from collector.clock import Instant
from collector.details import Details
from collector.health import Limits, Vitals, state_of
from collector.model import Adapters, Failure, Reading, Target, Values
from collector.signals import Lane, State
from collector.totals import Totals


@dataclass(slots=True)
class Sight:
    """The last looks at one target."""

    target: Target
    joined: Instant
    readings: dict[Lane, Reading] = field(default_factory=dict)
    last_good: Instant | None = None
    last_look: Instant | None = None
    failure: Failure | None = None
    vitals: Vitals = field(default_factory=Vitals)
    details: Details = field(default_factory=Details)
    totals: Totals = field(default_factory=Totals)

    def state(self, now: float, limits: Limits) -> State:
        return state_of(self.vitals, now, limits, terminating=self.target.terminating)

    @property
    def newest(self) -> Reading | None:
        """The last good reading of any lane."""
        fast, full = self.readings.get(Lane.FAST), self.readings.get(Lane.FULL)
        if fast is None or full is None:
            return fast or full
        return fast if fast.at.mono >= full.at.mono else full

    @property
    def engine(self) -> str:
        """The engine that was read, else the declared one."""
        return self.newest.engine if self.newest else self.target.engine

    @property
    def model(self) -> str:
        """The declared model, else the one on the page, else the one that the server told when asked."""
        return self.target.model or (self.values(self.newest).model if self.newest else "") or self.details.model

    @property
    def role(self) -> str:
        """The declared role, else the one the page tells."""
        return self.target.role or (self.values(self.newest).role if self.newest else "")

    def values(self, reading: Reading) -> Values:
        return reading.rows[self.target]

    def gauges(self, now: float, limits: Limits) -> dict[str, float]:
        """Current gauges: for each signal the newest reading that covers it, as long as its lane is not too old."""
        current: dict[str, float] = {}
        for reading in self._oldest_first(now, limits):
            current = {key: value for key, value in current.items() if key.partition("/")[0] not in reading.covers}
            current |= self.values(reading).gauges
        if self.details.requests_max is not None:
            current["requests_max"] = self.details.requests_max
        return current

    def adapters(self) -> Adapters | None:
        """Adapters with work: the newest reading of a source that knows them tells. Loaded ones were asked for."""
        telling = [reading for reading in self.readings.values() if "adapters_max" in reading.covers]
        told = self.values(max(telling, key=lambda reading: reading.at.mono)).adapters if telling else None
        loaded = self.details.adapters_loaded
        return told if loaded is None else replace(told or Adapters(), loaded=loaded)

    def _oldest_first(self, now: float, limits: Limits) -> Iterator[Reading]:
        for reading in sorted(self.readings.values(), key=lambda reading: reading.at.mono):
            slack = limits.full_interval if reading.lane is Lane.FULL else 0.0
            if now - reading.at.mono <= limits.stale_after + slack:
                yield reading

    def age(self, lane: Lane, now: float) -> float | None:
        """Seconds since the last good sample that spoke of the lane's signals; a full page speaks of the fast ones too."""
        moments = [reading.at.mono for reading in self.readings.values() if lane in (Lane.FAST, reading.lane)]
        return now - max(moments) if moments else None
