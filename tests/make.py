"""Builders of targets, values and readings, and a clock moved by hand: what tests of the core say in one line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.clock import Instant
from collector.fixed import to_fixed
from collector.health import Limits
from collector.ladders import Ladder, RawHistogram
from collector.model import Adapters, Failure, Reading, SeriesKey, Target, Values
from collector.reasons import FailureReason
from collector.signals import Lane
from collector.snapshot import Row, Snapshot
from collector.state import State

MONO, WALL = 1000.0, 1_800_000_000.0


@dataclass(slots=True)
class HandClock:
    """Time that stands still until a test moves it."""

    mono: float = MONO
    wall: float = WALL

    def now(self) -> Instant:
        return Instant(mono=self.mono, wall=self.wall)

    def move(self, seconds: float) -> Instant:
        self.mono += seconds
        self.wall += seconds
        return self.now()


def at(seconds: float) -> Instant:
    """The instant that many seconds after the clock's start."""
    return Instant(mono=MONO + seconds, wall=WALL + seconds)


def target(
    pod: str = "p0", pool: str = "chat", *, namespace: str = "serving", port: int = 8000, url: str = "", uid: str = "",
    model: str = "", role: str = "", terminating: bool = False,
) -> Target:  # fmt: skip
    return Target(url=url or f"http://{pod}:{port}/metrics", namespace=namespace, pool=pool, pod=pod, uid=uid, model=model,
                  role=role, terminating=terminating)  # fmt: skip


def counts(source: str = "", **by_signal: int | Mapping[str, int]) -> dict[SeriesKey, int]:
    """Counters by signal; `requests` takes a mapping by outcome."""
    result: dict[SeriesKey, int] = {}
    for signal, value in by_signal.items():
        for child, number in (value if isinstance(value, Mapping) else {"": value}).items():
            result[signal, child, source] = number
    return result


def raw(bounds: Ladder, per_bucket: Sequence[int], total: float = 0.0) -> RawHistogram:
    """A histogram series from the counts of its buckets, overflow last."""
    assert len(per_bucket) == len(bounds) + 1
    return RawHistogram(bounds, tuple(per_bucket), to_fixed(total))


def observe(bounds: Ladder, observations: Iterable[float]) -> RawHistogram:
    """The series of an engine that observed these values."""
    seen = list(observations)
    uppers = (*bounds, float("inf"))
    per_bucket = [0] * len(uppers)
    for value in seen:
        per_bucket[next(index for index, upper in enumerate(uppers) if value <= upper)] += 1
    return RawHistogram(bounds, tuple(per_bucket), sum(map(to_fixed, seen)))


def values(
    counters: Mapping[SeriesKey, int] | None = None, histograms: Mapping[str, RawHistogram] | None = None, *,
    adapters: Adapters | None = None, progress: float | None = None, started_at: float | None = None, model: str = "",
    **gauges: float,
) -> Values:  # fmt: skip
    return Values(gauges=gauges, counters=counters or {},
                  histograms={(signal, "", ""): series for signal, series in (histograms or {}).items()},
                  adapters=adapters, progress=progress, started_at=started_at, model=model)  # fmt: skip


def reading(of: Target, what: Values, when: Instant, *, lane: Lane = Lane.FULL, engine: str = "vllm") -> Reading:
    return Reading(target=of, lane=lane, at=when, engine=engine, rows={of: what})


def failure(of: Target, when: Instant, *, lane: Lane = Lane.FULL, reason: FailureReason = FailureReason.TIMEOUT) -> Failure:
    return Failure(target=of, lane=lane, at=when, reason=reason, detail="no answer")


def state(*targets: Target, when: Instant | None = None, **limits: float) -> State:
    """A State of cluster `test` that watches these targets."""
    made = State(cluster="test", limits=Limits(**limits), pod_histograms=True)
    made.watch(targets, when or at(0))
    return made


def pool_row(snapshot: Snapshot, pool: str = "chat", namespace: str = "serving") -> Row:
    return next(row for row in snapshot.pools if row.labels[1:] == (namespace, pool))


def pod_row(snapshot: Snapshot, pod: str = "p0") -> Row:
    return next(row for row in snapshot.pods if row.labels[3] == pod)
