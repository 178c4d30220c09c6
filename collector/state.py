"""The one mutable owner: takes readings in, hands immutable cuts out. Lives on the loop's thread."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.clock import Instant
from collector.counters import Look, count_gain, histogram_gain
from collector.cut import cut, endpoint
from collector.engines import ENGINES
from collector.health import Limits
from collector.model import ALL_CHILDREN, Failure, Reading, Target
from collector.reasons import DiscardReason, FailureReason, Oddity
from collector.scoring import Full
from collector.signals import SIGNALS
from collector.snapshot import Endpoint, Snapshot
from collector.totals import Totals
from collector.track import Track

PodKey = tuple[str, str, str]
PoolKey = tuple[str, str]

EMPTY_POOL_KEPT_SECONDS = 3600.0

_WHOLE = {name: frozenset(rule.signal for rule in engine.counters if rule.child == ALL_CHILDREN)
          for name, engine in ENGINES.items()}  # fmt: skip
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

    def watch(self, targets: Iterable[Target], now: Instant) -> None:
        """Replace the set of targets: new ones begin unknown, those that went lose their series, totals above stay."""
        wanted = {target.key: target for target in targets}
        for key in self.tracks.keys() - wanted.keys():
            del self.tracks[key]
        self.pools = {place: pool for place, pool in self.pools.items() if not pool.expired(now.mono)}
        for key, target in sorted(wanted.items()):
            if (track := self.tracks.get(key)) is None:
                self.tracks[key] = Track(target, now)
            else:
                track.retarget(target)
            pool = self.pools.setdefault(target.pool_key, Pool())
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
        look = track.look(outcome, self.limits)
        counting, measuring = self._sinks(track)
        for totals in counting:
            totals.mark(outcome.at.mono, self.limits.window)
        for signal in ENGINES[outcome.engine].from_zero & outcome.covers:
            for totals in measuring if SIGNALS[signal].ladder else counting:
                totals.begin(signal)
        if look.born:
            track.begin_anew()
        self._count(track, outcome, look, counting)
        self._count_histograms(track, outcome, look, measuring)
        track.note(outcome, born=look.born)
        pool = self.pools[track.target.pool_key]
        pool.model = pool.model or track.values(outcome).model

    def _sinks(self, track: Track) -> tuple[tuple[Totals, ...], tuple[Totals, ...]]:
        """Where the increases of counters go, and those of histograms."""
        pod = self.pods.setdefault(track.target.pod_key, Totals())
        above = (self.pools[track.target.pool_key].totals, self.totals)
        return (track.totals, pod, *above), ((pod, *above) if self.pod_histograms else above)

    def _count(self, track: Track, reading: Reading, look: Look, sinks: tuple[Totals, ...]) -> None:
        values = track.values(reading)
        whole = _WHOLE[reading.engine] & reading.covers
        for key, now in values.counters.items():
            signal, child, _ = key
            series = track.judge(signal, reading, look, self.limits)
            gain = count_gain(track.counters.get(key), now, series)
            track.counters[key] = now
            if gain.discarded is not None:
                if child == ALL_CHILDREN or signal not in whole:
                    self.tally.discarded[signal, gain.discarded] += gain.amount
                for totals in sinks:
                    totals.begin(signal)
                continue
            if signal in whole:
                signed = gain.amount if child == ALL_CHILDREN else -gain.amount
                track.unexplained[signal] = track.unexplained.get(signal, 0) + signed
            if child != ALL_CHILDREN:
                for totals in sinks:
                    totals.add((signal, child), gain.amount)
        for signal in whole:
            if (other := track.unexplained.get(signal, 0)) > 0:
                track.unexplained[signal] = 0
                for totals in sinks:
                    totals.add((signal, "other"), other)

    def _count_histograms(self, track: Track, reading: Reading, look: Look, sinks: tuple[Totals, ...]) -> None:
        for key, now in track.values(reading).histograms.items():
            signal = key[0]
            series = track.judge(signal, reading, look, self.limits)
            gain = histogram_gain(track.histograms.get(key), now, series)
            track.histograms[key] = now
            if gain.discarded is not None:
                self.tally.discarded[signal, gain.discarded] += gain.amount.count
                for totals in sinks:
                    totals.begin(signal)
                continue
            for totals in sinks:
                totals.add_histogram(signal, gain.amount)

    def endpoints(self, now: Instant) -> tuple[Endpoint, ...]:
        """The picker's view, straight from the last readings."""
        return tuple(endpoint(self.tracks[key], now, self.limits) for key in sorted(self.tracks))

    def snapshot(self, now: Instant) -> Snapshot:
        """A cut over all levels at `now`; changes nothing."""
        pools = {key: (pool.totals, pool.model) for key, pool in self.pools.items() if not pool.expired(now.mono)}
        return cut(self.cluster, {"region": self.region, "version": self.version}, self.tracks.values(), self.pods, pools,
                   self.totals, now, limits=self.limits, full=self.full)  # fmt: skip
