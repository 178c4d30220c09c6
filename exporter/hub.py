"""State with what surrounds it: the clock, the shared cut, the self-metrics, the log of changes."""

import logging
import threading

from collector.clock import Clock, Instant
from collector.cut import cut
from collector.held import Held
from collector.model import Failure, Reading, Target
from collector.snapshot import Snapshot
from collector.state import State
from collector.targets import Roster
from exporter.changes import Changes
from exporter.config import Config
from exporter.log import say
from exporter.selfmetrics import SelfMetrics

_log = logging.getLogger(__name__)
SHARED_FOR_SECONDS = 0.25


class Moment:
    """The state at one moment. Its cut is made once, on the thread that first asks for it."""

    def __init__(self, held: Held) -> None:
        self.at = held.at
        self._held = held
        self._making = threading.Lock()
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        with self._making:
            if self._snapshot is None:
                self._snapshot = cut(self._held)
            return self._snapshot


class Hub:
    """Where readings arrive and publishers ask; lives on the loop's thread."""

    def __init__(self, config: Config, clock: Clock, *, version: str = "") -> None:
        self.clock = clock
        self.max_pods = config.max_pods
        self.full_interval = config.full_interval
        self.debug_bearer_file = config.debug_bearer_file
        self.endpoints_files = config.endpoints_files
        self.state = State(cluster=config.cluster, region=config.region, version=version, limits=config.limits, full=config.full)
        self.own = SelfMetrics(self.state, clock)
        self.roster = Roster(self.watch)
        self._changes = Changes()
        self._faults: tuple[str, ...] = ()
        self._moment: Moment | None = None
        self._ready = False
        self.watch(config.targets)

    def configure(self, config: Config) -> None:
        """Other names and limits from now on; what was read and counted stays."""
        self.max_pods, self.debug_bearer_file = config.max_pods, config.debug_bearer_file
        self.full_interval = config.full_interval
        self.endpoints_files = config.endpoints_files
        self.state.cluster, self.state.region = config.cluster, config.region
        self.state.limits, self.state.full = config.limits, config.full
        self._moment = None

    def watch(self, targets: tuple[Target, ...]) -> None:
        """The targets that count from now on."""
        self.state.watch(targets, self.clock.now())
        self._moment = None

    def take(self, outcome: Reading | Failure) -> None:
        """One attempt at a target."""
        self.own.note(outcome)
        self._changes.tried(outcome.target.key)
        self.state.absorb(outcome)

    def moment(self) -> Moment:
        """The present; publishers share one for a while. Costs the loop little: the cut is made where it is asked for."""
        now = self.clock.now()
        if self._moment is None or not 0 <= now.mono - self._moment.at.mono < SHARED_FOR_SECONDS:
            self._moment = Moment(self.state.held(now))
        return self._moment

    def snapshot(self) -> Snapshot:
        """The present cut, made here and now: not for the loop of a running process."""
        return self.moment().snapshot()

    def untried(self) -> list[str]:
        """Sources that have not said their targets yet, and URLs of targets that no attempt was made at.

        Nothing once there was nothing: a pod that comes later does not make the process less ready than it was.
        """
        if not self._ready:
            left = [track.target.url for track in self.state.tracks.values() if track.last_look is None]
            if left := self.roster.silent + left:
                return left
            self._ready = True
        return []

    def log_changes(self, now: Instant) -> None:
        """Say what changed since the last call: in the targets' states, in what their sources say."""
        for fault in self._faults_since():
            say(_log, logging.WARNING, "targets cannot be read", fault=fault)
        for change in self._changes.note(self.state.endpoints(now)):
            say(_log, logging.WARNING if change.worse else logging.INFO, change.message, **change.facts)

    def _faults_since(self) -> list[str]:
        new = [fault for fault in self.roster.faults if fault not in self._faults]
        self._faults = self.roster.faults
        return new
