"""The one mutable owner: takes readings in, hands immutable cuts out. Lives on the loop's thread."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.caps import FirstOnes
from collector.clock import Instant
from collector.counters import Look, count_gain, histogram_gain
from collector.cut import cut, endpoint
from collector.details import Details
from collector.engines import ENGINES
from collector.health import Limits
from collector.held import Held
from collector.model import ALL_CHILDREN, Adapters, Failure, Reading, Target
from collector.reasons import DiscardReason, FailureReason, Oddity
from collector.scoring import Full
from collector.signals import SIGNALS, Role
from collector.snapshot import Endpoint, Snapshot
from collector.totals import Totals
from collector.track import Track

PodKey = tuple[str, str, str]
PoolKey = tuple[str, str]

EMPTY_POOL_KEPT_SECONDS = 3600.0
MOST_ADAPTER_NAMES = 200

_WHOLE = {name: frozenset(rule.signal for rule in engine.rules if rule.child == ALL_CHILDREN) for name, engine in ENGINES.items()}
"""Counters that an engine counts as a whole, so that what it does not tell apart becomes `other`."""


@dataclass(slots=True)
class Tally:
    """What the exporter says of its own reading, counted since the start."""

    failures: Counter[FailureReason] = field(default_factory=Counter)
    oddities: Counter[Oddity] = field(default_factory=Counter)
    discarded: Counter[tuple[str, DiscardReason]] = field(default_factory=Counter)


@dataclass(slots=True)
class Pool:
    """Totals of a pool outlive its pods; its model is the first one seen."""

    totals: Totals = field(default_factory=Totals)
    model: str = ""
    empty_since: float | None = None

    def expired(self, now: float) -> bool:
        return self.empty_since is not None and now - self.empty_since > EMPTY_POOL_KEPT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Where the increases of one target go. Above the pod a signal counts only from the role that it belongs to."""

    own: tuple[Totals, ...]
    measuring: tuple[Totals, ...]
    above: tuple[Totals, ...]
    role: str

    def of(self, signal: str) -> tuple[Totals, ...]:
        row = SIGNALS[signal]
        counts = Role.BOTH in (self.role or Role.BOTH, row.role) or self.role == row.role
        return (self.measuring if row.ladder else self.own) + (self.above if counts else ())


class State:
    """Targets and their readings, accumulated totals, and the tally."""

    def __init__(
        self, *, cluster: str, region: str = "", version: str = "", limits: Limits | None = None, full: Full | None = None,
        pod_histograms: bool = False,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.region = region
        self.version = version
        self.limits = limits or Limits()
        self.full = full or Full()
        self.pod_histograms = pod_histograms
        self.tracks: dict[str, Track] = {}
        self.pods: dict[PodKey, Totals] = {}
        self.pools: dict[PoolKey, Pool] = {}
        self.totals = Totals()
        self.tally = Tally()
        self.adapter_names = FirstOnes(MOST_ADAPTER_NAMES)

    def watch(self, targets: Iterable[Target], now: Instant) -> None:
        """Replace the set of targets: new ones begin unknown, those that went lose their series, totals above stay."""
        if self.totals.began is None:
            self.totals.began = now.wall
        wanted = {target.key: target for target in targets}
        for key in self.tracks.keys() - wanted.keys():
            del self.tracks[key]
        self.pools = {place: pool for place, pool in self.pools.items() if not pool.expired(now.mono)}
        for key, target in sorted(wanted.items()):
            if (track := self.tracks.get(key)) is None:
                self.tracks[key] = Track(target, now)
            else:
                track.retarget(target)
            pool = self.pools.setdefault(target.pool_key, Pool(Totals(began=now.wall)))
            pool.model = target.model or pool.model
        living = {track.target.pod_key for track in self.tracks.values()}
        for gone in self.pods.keys() - living:
            del self.pods[gone]
        inhabited = {track.target.pool_key for track in self.tracks.values()}
        for place, pool in self.pools.items():
            if place in inhabited:
                pool.empty_since = None
            elif pool.empty_since is None:
                pool.empty_since = now.mono

    def absorb(self, outcome: Reading | Failure) -> None:
        """Take in one attempt; an attempt at a target that is no longer watched is dropped."""
        track = self.tracks.get(outcome.target.key)
        if track is None:
            return
        if isinstance(outcome, Failure):
            track.note_failure(outcome)
            self.tally.failures[outcome.reason] += 1
            return
        outcome = track.own(outcome)
        self.tally.oddities.update(outcome.oddities)
        look = track.look(outcome)
        sinks = self._sinks(track, track.values(outcome).role)
        for totals in (*sinks.own, *sinks.above):
            totals.mark(outcome.at.mono, self.limits.window)
        for signal in ENGINES[outcome.engine].from_zero & outcome.covers:
            for totals in sinks.of(signal):
                totals.begin(signal, ENGINES[outcome.engine].told(signal))
        if look.born:
            track.begin_anew()
        self._count(track, outcome, look, sinks)
        self._count_histograms(track, outcome, look, sinks)
        track.note(outcome, born=look.born)
        pool = self.pools[track.target.pool_key]
        pool.model = pool.model or track.values(outcome).model
        adapters = track.values(outcome).adapters or Adapters()
        self.adapter_names.admit(sorted((adapters.running or frozenset()) | (adapters.waiting or frozenset())))

    def _sinks(self, track: Track, told_role: str) -> Sinks:
        pod = self.pods.setdefault(track.target.pod_key, Totals(began=track.joined.wall))
        return Sinks(
            own=(track.totals, pod),
            measuring=(pod,) if self.pod_histograms else (),
            above=(self.pools[track.target.pool_key].totals, self.totals),
            role=track.target.role or told_role,
        )

    def _count(self, track: Track, reading: Reading, look: Look, sinks: Sinks) -> None:
        values = track.values(reading)
        whole = _WHOLE[reading.engine] & reading.covers - values.damaged
        for key, now in values.counters.items():
            signal, child, _ = key
            if signal in _WHOLE[reading.engine] - whole:
                continue  # with a part lost, what it counted would be taken for `other`
            series = track.judge(signal, reading, look, self.limits)
            gain = count_gain(track.counters.get(key), now, series)
            track.counters[key] = now
            if gain.discarded is not None:
                if child == ALL_CHILDREN or signal not in whole:
                    self.tally.discarded[signal, gain.discarded] += gain.amount
                for totals in sinks.of(signal):
                    totals.begin(signal, ENGINES[reading.engine].told(signal))
                continue
            if signal in whole:
                signed = gain.amount if child == ALL_CHILDREN else -gain.amount
                track.unexplained[signal] = track.unexplained.get(signal, 0) + signed
            if child != ALL_CHILDREN:
                for totals in sinks.of(signal):
                    totals.add((signal, child), gain.amount)
        for signal in whole:
            if (other := track.unexplained.get(signal, 0)) > 0:
                track.unexplained[signal] = 0
                for totals in sinks.of(signal):
                    totals.add((signal, "other"), other)

    def _count_histograms(self, track: Track, reading: Reading, look: Look, sinks: Sinks) -> None:
        for key, now in track.values(reading).histograms.items():
            signal = key[0]
            series = track.judge(signal, reading, look, self.limits)
            gain = histogram_gain(track.histograms.get(key), now, series)
            track.histograms[key] = now
            discarded = gain.discarded or (None if self.totals.has_room(signal, now.bounds) else DiscardReason.LADDER_CAP)
            if discarded is not None:
                self.tally.discarded[signal, discarded] += gain.amount.count
            for totals in sinks.of(signal):
                totals.begin(signal, ())
                if discarded is None:
                    totals.add_histogram(signal, gain.amount)

    def to_ask(self, now: Instant, every_seconds: float) -> list[tuple[Target, str]]:
        """Targets whose servers are to be asked for their details now, with their engines: after the first good look, after a
        restart, and when the last time is too long ago. Each is taken as asked from now on."""
        due = [track for track in self.tracks.values() if track.newest and track.failure is None
               and (track.asked_at is None or now.mono - track.asked_at >= every_seconds)]  # fmt: skip
        for track in due:
            track.asked_at = now.mono
        return [(track.target, track.engine) for track in due]

    def note_details(self, key: str, details: Details) -> None:
        """Take in what a target's server said of itself; a target that is no longer watched is ignored."""
        if (track := self.tracks.get(key)) is not None:
            track.details = details
            pool = self.pools[track.target.pool_key]
            pool.model = pool.model or details.model

    def endpoints(self, now: Instant) -> tuple[Endpoint, ...]:
        """The picker's view, straight from the last readings."""
        tracks = sorted(self.tracks.values(), key=lambda track: (*track.target.pod_key, track.target.key))
        return tuple(endpoint(track, now, self.limits) for track in tracks)

    def held(self, now: Instant) -> Held:
        """The state at this moment, for a cut on any thread; takes a few microseconds a pod."""
        return Held(
            at=now, cluster=self.cluster, info={"region": self.region, "version": self.version},
            sights=tuple(track.held() for track in self.tracks.values()),
            pods={key: totals.held() for key, totals in self.pods.items()},
            pools={key: (pool.totals.held(), pool.model) for key, pool in self.pools.items() if not pool.expired(now.mono)},
            totals=self.totals.held(), limits=self.limits, full=self.full, adapter_names=self.adapter_names,
        )  # fmt: skip

    def snapshot(self, now: Instant) -> Snapshot:
        """A cut over all levels at `now`; changes nothing."""
        return cut(self.held(now))
