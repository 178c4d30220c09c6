"""A target's state, computed from what its samples showed and the present moment. Pure."""

from dataclasses import dataclass

from collector.signals import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may last, in seconds."""

    stale_after: float = 3.0
    down_after: float = 15.0
    no_progress_after: float = 30.0
    warming_for: float = 60.0
    gap_limit: float = 300.0
    window: float = 60.0
    full_interval: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What the samples of one target showed; moments are monotonic seconds, None = never.

    `progress` is the engine's per-step counter at the last good sample, None where it has none. `stuck_since`: when work
    was first shown without the counter moving since; None without work. `judged`: the last good sample that told of progress,
    where that is not the last one. `alive_since`: start of the engine's process, or
    the first sight of it.
    """

    last_good: float | None = None
    failing: bool = False
    progress: float | None = None
    stuck_since: float | None = None
    alive_since: float | None = None
    judged: float | None = None


def state_of(vitals: Vitals, now: float, limits: Limits, *, terminating: bool = False) -> State:
    """The first that holds: down, terminating, stale, no_progress, warming, fresh."""
    silent_for = float("inf") if vitals.last_good is None else now - vitals.last_good
    if vitals.failing and silent_for > limits.down_after:
        return State.DOWN
    if terminating:
        return State.TERMINATING
    if vitals.last_good is None or silent_for > limits.stale_after:
        return State.STALE
    if vitals.progress is not None:
        judged = vitals.last_good if vitals.judged is None else vitals.judged
        if vitals.stuck_since is not None and judged - vitals.stuck_since >= limits.no_progress_after:
            return State.NO_PROGRESS
        if vitals.progress == 0 and vitals.alive_since is not None and now - vitals.alive_since < limits.warming_for:
            return State.WARMING
    return State.FRESH
