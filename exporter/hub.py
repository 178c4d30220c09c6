"""State with what surrounds it: the clock, the shared cut, the self-metrics, the log of changes."""

import logging

from collector.clock import Clock, Instant
from collector.model import Failure, Reading
from collector.snapshot import Snapshot
from collector.state import State
from exporter.changes import Changes
from exporter.config import Config
from exporter.log import say
from exporter.selfmetrics import SelfMetrics

_log = logging.getLogger(__name__)
SHARED_FOR_SECONDS = 0.25


class Hub:
    """Where readings arrive and publishers ask; lives on the loop's thread."""

    def __init__(self, config: Config, clock: Clock, *, version: str = "") -> None:
        self.clock = clock
        self.max_pods = config.max_pods
        self.state = State(cluster=config.cluster, region=config.region, version=version, limits=config.limits, full=config.full)
        self.own = SelfMetrics(self.state, clock)
        self._changes = Changes()
        self._cut: Snapshot | None = None
        self.state.watch(config.targets, clock.now())

    def take(self, outcome: Reading | Failure) -> None:
        """One attempt at a target."""
        self.own.note(outcome)
        self.state.absorb(outcome)

    def snapshot(self) -> Snapshot:
        """The present cut; publishers share one for a moment."""
        now = self.clock.now()
        if self._cut is None or not 0 <= now.mono - self._cut.at.mono < SHARED_FOR_SECONDS:
            self._cut = self.state.snapshot(now)
        return self._cut

    def untried(self) -> list[str]:
        """URLs of targets that no attempt was made at yet."""
        return [track.target.url for track in self.state.tracks.values() if track.last_look is None]

    def log_changes(self, now: Instant) -> None:
        """Say what changed since the last call."""
        for change in self._changes.note(self.state.endpoints(now)):
            say(_log, logging.WARNING if change.worse else logging.INFO, change.message, **change.facts)
