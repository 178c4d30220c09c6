"""What State remembers of one target: its last readings, its counters' last values, its vital signs."""

from dataclasses import dataclass, field, replace
from math import inf

from collector.clock import Instant
from collector.counters import Look
from collector.health import Limits, Vitals
from collector.ladders import RawHistogram, fell
from collector.model import Failure, Reading, SeriesKey, Target, Values
from collector.sight import Sight
from collector.signals import SIGNALS, Kind, Lane

_COUNTERS = frozenset(name for name, row in SIGNALS.items() if row.kind in (Kind.COUNTER, Kind.HISTOGRAM))
_RESTART_SHARE = 0.5
"""Share of the known counters that must fall at once before a restart is believed without a start time."""

_UNSTABLE_SECONDS = 60.0
"""How long counters are not believed after they fell and were back above where they fell from."""

_WORK = frozenset({"requests_running", "requests_waiting"})

MOST_SERIES = 4000
"""Counter and histogram series of one target that are followed; a page whose labels change at each look has no end of them."""

_TELLING_COUNT = 10
"""Smaller counts may be reached again by a new process within one look."""

_LEAP_BELOW = 0.5
"""A counter that was below this share of its old height at the last look and is above it now did not grow: it is another's."""


@dataclass(slots=True)
class Track(Sight):
    """Mutable record of one target; only State touches it."""

    counters: dict[SeriesKey, int] = field(default_factory=dict)
    histograms: dict[SeriesKey, RawHistogram] = field(default_factory=dict)
    covered: frozenset[str] = frozenset()
    looks: dict[frozenset[str], Instant] = field(default_factory=dict)
    unexplained: dict[str, int] = field(default_factory=dict)
    started_at: float | None = None
    fell_from: dict[SeriesKey, int] = field(default_factory=dict)
    fell_at: float = -inf
    returns: int = 0
    unstable_until: float = -inf
    asked_at: float | None = None

    def held(self) -> Sight:
        """What is seen at this moment; later looks do not change it."""
        return Sight(self.target, self.joined, self.readings.copy(), self.last_good, self.last_look, self.failure, self.vitals,
                     self.details, self.totals.held())  # fmt: skip

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

    def look(self, reading: Reading) -> Look:
        """How to judge the counters of a new reading; `judge` narrows it to a signal. `watched` here says that a series may
        count from zero at all: the page goes on with known ones, so it is no other process that was never seen."""
        values = self.values(reading)
        birth = self._birth(reading)
        goes_on = not self.counters or any(key in self.counters for key in values.counters)
        endless = len(self.counters.keys() | values.counters.keys()) + len(self.histograms.keys() | values.histograms.keys())
        anew = birth is None and self._began_anew(values)
        unstable = self._note_alternation(reading, anew=anew, birth=birth) or endless > MOST_SERIES
        born = not unstable and (birth is not None or anew)
        return Look(born=born, watched=goes_on, unstable=unstable)

    def _note_alternation(self, reading: Reading, *, anew: bool, birth: float | None) -> bool:
        """True while several servers seem to take turns in answering.

        Told by a start time that goes back, or that changes while the counters go on; without one by counters that fell and
        come back above where they fell from: at once, as no new process can, or for the second time.
        """
        values, at = self.values(reading), reading.at.mono
        if at - self.fell_at > _UNSTABLE_SECONDS:
            self.fell_from, self.returns = {}, 0
        if self._other_start(values, anew=anew, birth=birth) or self._came_back(values):
            self.unstable_until = at + _UNSTABLE_SECONDS
        if birth is not None:
            self.fell_from, self.returns = {}, 0
        elif fallen := {key: before for key, before in self.counters.items()
                        if before >= _TELLING_COUNT and values.counters.get(key, before) < before}:  # fmt: skip
            self.fell_at = at
            self.fell_from |= fallen
            self.unstable_until = at + _UNSTABLE_SECONDS if at < self.unstable_until else self.unstable_until
        return at < self.unstable_until

    def _other_start(self, values: Values, *, anew: bool, birth: float | None) -> bool:
        now, before = values.started_at, self.started_at
        if birth is not None or now is None or before is None or now == before:
            return False
        return now < before or not anew

    def _came_back(self, values: Values) -> bool:
        """True when counters that fell are back, in a way that is no new process's own doing."""
        back = {key: before for key, before in self.fell_from.items() if values.counters.get(key, -1) >= before}
        if not back or any(key in values.counters for key in self.fell_from.keys() - back.keys()):
            return False
        leap = all(self.counters.get(key, 0) < _LEAP_BELOW * before for key, before in back.items())
        self.returns += 1
        for key in back:
            del self.fell_from[key]
        return leap or self.returns > 1

    def judge(self, signal: str, reading: Reading, look: Look, limits: Limits) -> Look:
        """The look narrowed to one signal: the lanes fail one by one, so each signal has a gap of its own."""
        started = self.values(reading).started_at or self.started_at
        seen = max((at for covers, at in self.looks.items() if signal in covers), key=lambda at: at.mono, default=None)
        span = reading.at.mono - seen.mono if seen else 0.0
        if started is not None and (seen or self.joined).wall < started <= reading.at.wall:
            span = reading.at.wall - started
        return replace(look, gap=span > limits.gap_limit, watched=look.watched and signal in self.covered)

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
        self.asked_at = None

    def note(self, reading: Reading, *, born: bool) -> None:
        """Take over a good reading's vital signs."""
        values, at = self.values(reading), reading.at
        if len(self.counters) + len(self.histograms) > MOST_SERIES:
            self.counters = {key: self.counters[key] for key in values.counters}
            self.histograms = {key: self.histograms[key] for key in values.histograms}
        first = self.last_good is None or born
        alive_since = at.mono if first else self.vitals.alive_since
        if first and values.started_at is not None:
            alive_since = at.mono - max(at.wall - values.started_at, 0.0)
        before = None if born else self.vitals.stuck_since
        progress, judged = values.progress if values.progress is not None or born else self.vitals.progress, None
        stuck = self._stuck_since(replace(values, progress=progress), at.mono, before)
        if reading.only is not None:  # no word on progress: what was known of it stands, as long as there is work
            working = values.gauges.get("requests_running") or values.gauges.get("requests_waiting")
            progress, judged = self.vitals.progress, self.vitals.judged or self.vitals.last_good
            stuck = (at.mono if before is None else before) if working else None
        self.vitals = Vitals(last_good=at.mono, progress=progress, alive_since=alive_since, stuck_since=stuck, judged=judged)
        if born or any(other.engine != reading.engine for other in self.readings.values()):
            self.readings.clear()
        self.readings[reading.lane] = reading
        if reading.lane is Lane.FULL:
            self.readings.pop(Lane.FAST, None)
        seen = (self.covered | reading.covers) - values.damaged
        self.covered = seen if reading.whole else seen - reading.covers
        self.looks[reading.covers] = at
        self.started_at = self.started_at if values.started_at is None else values.started_at
        self.last_good = self.last_look = at
        self.failure = None

    def _stuck_since(self, values: Values, at: float, before: float | None) -> float | None:
        gauges = values.gauges
        if values.damaged & _WORK:
            return before
        if not (gauges.get("requests_running") or gauges.get("requests_waiting")):
            return None
        return at if before is None or values.progress != self.vitals.progress else before

    def note_failure(self, failure: Failure) -> None:
        self.failure = failure
        self.last_look = failure.at
        self.vitals = replace(self.vitals, failing=True)
