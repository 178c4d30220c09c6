"""What State remembers of one target: its last readings, its counters' last values, its vital signs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from collector.clock import Instant
from collector.counters import Look
from collector.health import Limits, Vitals, state_of
from collector.ladders import RawHistogram, fell
from collector.model import Adapters, Failure, Reading, SeriesKey, Target, Values
from collector.signals import SIGNALS, Kind, Lane, State
from collector.totals import Totals

_COUNTERS = frozenset(name for name, row in SIGNALS.items() if row.kind in (Kind.COUNTER, Kind.HISTOGRAM))
_RESTART_SHARE = 0.5
"""Share of the known counters that must fall at once before a restart is believed without a start time."""


@dataclass(slots=True)
class Track:
    """Mutable record of one target; only State touches it."""

    target: Target
    joined: Instant
    readings: dict[Lane, Reading] = field(default_factory=dict)
    last_good: Instant | None = None
    last_look: Instant | None = None
    failure: Failure | None = None
    vitals: Vitals = field(default_factory=Vitals)
    counters: dict[SeriesKey, int] = field(default_factory=dict)
    histograms: dict[SeriesKey, RawHistogram] = field(default_factory=dict)
    covered: frozenset[str] = frozenset()
    looks: dict[frozenset[str], Instant] = field(default_factory=dict)
    unexplained: dict[str, int] = field(default_factory=dict)
    started_at: float | None = None
    totals: Totals = field(default_factory=Totals)

    def retarget(self, target: Target) -> None:
        """The same endpoint with other labels: keep what is known of it."""
        if target != self.target:
            self.target = target
            self.readings = {lane: self.own(reading) for lane, reading in self.readings.items()}

    def own(self, reading: Reading) -> Reading:
        """The reading under our present labels: it may have been under way while they changed."""
        if reading.target == self.target:
            return reading
        return replace(reading, target=self.target, rows={self.target: reading.rows[reading.target]})

    def state(self, now: float, limits: Limits) -> State:
        return state_of(replace(self.vitals, terminating=self.target.terminating), now, limits)

    @property
    def newest(self) -> Reading | None:
        """The last good reading of any lane."""
        return max(self.readings.values(), key=lambda reading: reading.at.mono, default=None)

    @property
    def engine(self) -> str:
        """The engine that was read, else the declared one."""
        return self.newest.engine if self.newest else self.target.engine

    @property
    def model(self) -> str:
        """The declared model, else the one on the page."""
        return self.target.model or (self.values(self.newest).model if self.newest else "")

    def values(self, reading: Reading) -> Values:
        return reading.rows[self.target]

    def gauges(self, now: float, limits: Limits) -> dict[str, float]:
        """Current gauges: for each signal the newest reading that covers it, as long as its lane is not too old."""
        current: dict[str, float] = {}
        for reading in self._oldest_first(now, limits):
            for name in reading.covers:
                current.pop(name, None)
            current |= self.values(reading).gauges
        return current

    def adapters(self) -> Adapters | None:
        """The newest reading of a source that knows adapters tells."""
        telling = [reading for reading in self.readings.values() if "adapters_max" in reading.covers]
        return self.values(max(telling, key=lambda reading: reading.at.mono)).adapters if telling else None

    def _oldest_first(self, now: float, limits: Limits) -> Iterator[Reading]:
        for reading in sorted(self.readings.values(), key=lambda reading: reading.at.mono):
            slack = limits.full_interval if reading.lane is Lane.FULL else 0.0
            if now - reading.at.mono <= limits.stale_after + slack:
                yield reading

    def look(self, reading: Reading, limits: Limits) -> Look:
        """How to judge the counters of a new reading. `watched` here says that a series may count from zero at all: the
        page goes on with known ones, so it is no other process that was never seen."""
        values = self.values(reading)
        birth = self._birth(reading)
        unseen = reading.at.mono - self.last_good.mono if self.last_good else 0.0
        span = unseen if birth is None else reading.at.wall - birth
        goes_on = not self.counters or any(key in self.counters for key in values.counters)
        return Look(born=birth is not None or self._began_anew(values), gap=span > limits.gap_limit, watched=goes_on)

    def judge(self, signal: str, reading: Reading, look: Look, limits: Limits) -> Look:
        """The look narrowed to one signal: the lanes fail one by one, so each signal has a gap of its own."""
        started = self.values(reading).started_at or self.started_at
        seen = max((at for covers, at in self.looks.items() if signal in covers), key=lambda at: at.mono, default=None)
        span = reading.at.mono - seen.mono if seen else 0.0
        if started is not None and (seen or self.joined).wall < started <= reading.at.wall:
            span = reading.at.wall - started
        return Look(born=look.born, gap=span > limits.gap_limit, watched=look.watched and signal in self.covered)

    def _birth(self, reading: Reading) -> float | None:
        """Unix time at which the process began, if that was after the last good look, or after we began to watch.

        Failed looks saw no counter and so do not matter. A start that was met before or that lies ahead of us is no birth:
        the engine's clock and ours differ, and a process that were born again at each look would be counted many times.
        """
        started = self.values(reading).started_at
        if started is None or started == self.started_at:
            return None
        counted = [at for covers, at in self.looks.items() if covers & _COUNTERS]
        seen = max(counted, key=lambda at: at.mono, default=self.joined)
        return started if seen.wall < started <= reading.at.wall else None

    def _began_anew(self, values: Values) -> bool:
        known = [(before, values.counters[key]) for key, before in self.counters.items() if before and key in values.counters]
        fallen = sum(now < before for before, now in known)
        met = [(before, values.histograms[key]) for key, before in self.histograms.items()
               if before.count and key in values.histograms]  # fmt: skip
        fallen += sum(fell(before, now) for before, now in met)
        return fallen > 0 and fallen >= _RESTART_SHARE * (len(known) + len(met))

    def begin_anew(self) -> None:
        """A new process began at zero, also in what this page does not show."""
        self.counters = dict.fromkeys(self.counters, 0)
        self.histograms = {key: RawHistogram(old.bounds, (0,) * len(old.counts), 0) for key, old in self.histograms.items()}
        self.unexplained.clear()

    def note(self, reading: Reading, *, born: bool) -> None:
        """Take over a good reading's vital signs."""
        values, at = self.values(reading), reading.at
        first = self.last_good is None or born
        alive_since = at.mono if first else self.vitals.alive_since
        if first and values.started_at is not None:
            alive_since = at.mono - max(at.wall - values.started_at, 0.0)
        before = None if born else self.vitals.stuck_since
        progress, judged = values.progress, None
        stuck = self._stuck_since(values, at.mono, before)
        if reading.only is not None:  # no word on progress: what was known of it stands, as long as there is work
            working = values.gauges.get("requests_running") or values.gauges.get("requests_waiting")
            progress, judged = self.vitals.progress, self.vitals.judged or self.vitals.last_good
            stuck = (at.mono if before is None else before) if working else None
        self.vitals = Vitals(last_good=at.mono, progress=progress, alive_since=alive_since, stuck_since=stuck, judged=judged)
        self.readings[reading.lane] = reading
        if reading.lane is Lane.FULL:
            self.readings.pop(Lane.FAST, None)
        self.covered |= reading.covers
        self.looks[reading.covers] = at
        self.started_at = self.started_at if values.started_at is None else values.started_at
        self.last_good = self.last_look = at
        self.failure = None

    def _stuck_since(self, values: Values, at: float, before: float | None) -> float | None:
        gauges = values.gauges
        if not (gauges.get("requests_running") or gauges.get("requests_waiting")):
            return None
        return at if before is None or values.progress != self.vitals.progress else before

    def note_failure(self, failure: Failure) -> None:
        self.failure = failure
        self.last_look = failure.at
        self.vitals = replace(self.vitals, failing=True)

    def age(self, lane: Lane, now: float) -> float | None:
        """Seconds since the last good sample that spoke of the lane's signals; a full page speaks of the fast ones too."""
        moments = [reading.at.mono for reading in self.readings.values() if lane in (Lane.FAST, reading.lane)]
        return now - max(moments) if moments else None
