"""Random histories of engines: nothing published ever falls, and published + discarded is what the engines truly counted."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.fixed import to_fixed
from collector.ladders import Ladder
from collector.model import Target
from collector.signals import Lane
from collector.snapshot import Row, Snapshot
from tests.make import HandClock, counts, failure, observe, reading, state, target, values

TTFT = "time_to_first_token_seconds"
KINDS: tuple[tuple[str, Ladder, bool], ...] = (
    ("vllm", (0.001, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 640.0), True),
    ("sglang", (0.1, 0.2, 0.4, 1.0, 2.0, 10.0, 400.0), False),
    ("tgi", tuple(0.003 * 1.7**step for step in range(14)), False),
    ("vllm", (0.05, 5.0), True),
)
"""Engine, its ladder, and whether its page tells when the process began."""


@dataclass(slots=True)
class Process:
    """What one engine process truly counted, and how much of it was on a page that arrived."""

    pod: Target
    engine: str
    bounds: Ladder
    started_at: float | None
    tokens: int = 0
    requests: int = 0
    aborts: int = 0
    observed: list[float] = field(default_factory=list)
    shown: Counter[str] = field(default_factory=Counter)

    @property
    def truth(self) -> Counter[str]:
        return Counter(generation_tokens=self.tokens, requests=self.requests, **{TTFT: len(self.observed)})

    def serve(self, amount: int, seconds: float) -> None:
        self.tokens += 3 * amount + 1
        self.requests += amount + 1
        self.aborts += amount % 2
        self.observed += [seconds * (1 + step) for step in range(amount % 4)]


Steps = list[tuple[str, int, int, float]]
steps = st.lists(
    st.tuples(
        st.sampled_from(["serve", "serve", "look", "look", "fast", "fail", "restart", "gap", "join", "leave"]),
        st.integers(0, 3), st.integers(0, 50), st.floats(0.0005, 30),
    ), min_size=3, max_size=40,
)  # fmt: skip


class Story:
    """Engines and the core that watches them; the clock moves a second with every step."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.core = state(when=self.clock.now())
        self.living: list[Process] = []
        self.made = 0
        self.true: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()

    def play(self, told: Steps) -> Iterator[Snapshot]:
        for kind, which, amount, seconds in told:
            self.clock.move(1.0)
            if kind == "join":
                self.join(which, amount, seconds)
            elif self.living:
                getattr(self, kind)(which % len(self.living), amount, seconds)
            yield self.core.snapshot(self.clock.now())

    def join(self, which: int, amount: int, seconds: float) -> None:
        """A pod that served before we knew it."""
        engine, bounds, tells = KINDS[which]
        self.made += 1
        pod = target(f"p{self.made}", ("chat", "code")[which % 2])
        self.living.append(self.process(pod, engine, bounds, self.clock.wall - 100.0 if tells else None))
        self.serve(len(self.living) - 1, amount, seconds)
        self.core.watch([one.pod for one in self.living], self.clock.now())

    def process(self, pod: Target, engine: str, bounds: Ladder, started_at: float | None) -> Process:
        return Process(pod, engine, bounds, started_at)

    def serve(self, which: int, amount: int, seconds: float) -> None:
        one = self.living[which]
        before = one.truth
        one.serve(amount, seconds)
        self.true += one.truth - before

    def look(self, which: int, *_: object) -> None:
        one = self.living[which]
        by_outcome = ({"*": one.requests, "abort": one.aborts} if one.engine == "sglang"
                      else {"stop": one.requests - one.aborts, "abort": one.aborts})  # fmt: skip
        page = values(counts(generation_tokens=one.tokens, requests=by_outcome), {TTFT: observe(one.bounds, one.observed)},
                      started_at=one.started_at, progress=float(one.tokens), requests_running=1.0)  # fmt: skip
        self.core.absorb(reading(one.pod, page, self.clock.now(), engine=one.engine))
        one.shown = one.truth

    def fast(self, which: int, *_: object) -> None:
        one = self.living[which]
        page = values(started_at=one.started_at, progress=float(one.tokens), requests_running=1.0)
        self.core.absorb(reading(one.pod, page, self.clock.now(), engine=one.engine, lane=Lane.FAST))

    def fail(self, which: int, *_: object) -> None:
        self.core.absorb(failure(self.living[which].pod, self.clock.now()))

    def restart(self, which: int, *_: object) -> None:
        """What no page had shown yet is lost with the process. Without a start time the next page must show the restart."""
        old = self.living[which]
        self.missed += old.truth - old.shown
        tells = old.started_at is not None
        self.living[which] = self.process(old.pod, old.engine, old.bounds, self.clock.wall - 0.5 if tells else None)
        if not tells:
            self.look(which)

    def gap(self, which: int, amount: int, seconds: float) -> None:
        self.serve(which, amount, seconds)
        self.clock.move(301.0)

    def leave(self, which: int, *_: object) -> None:
        gone = self.living.pop(which)
        self.missed += gone.truth - gone.shown
        self.core.watch([one.pod for one in self.living], self.clock.now())


def published(row: Row) -> Counter[str]:
    added: Counter[str] = Counter()
    for (signal, _), total in row.counters.items():
        added[signal] += total
    for signal, histogram in row.histograms.items():
        added[signal] += histogram.cumulative[-1]
    return added


def numbers(row: Row) -> dict[object, int]:
    """Everything of a row that may only rise."""
    rising: dict[object, int] = dict(row.counters)
    for signal, histogram in row.histograms.items():
        rising |= {(signal, "bucket", index): count for index, count in enumerate(histogram.cumulative)}
        rising[signal, "sum"] = histogram.sum_fixed
    return rising


@settings(deadline=None, max_examples=150)
@given(steps)
def test_published_and_discarded_and_never_shown_are_the_truth(told: Steps) -> None:
    story = Story()
    for _ in story.play(told):
        pass
    for which in range(len(story.living)):
        story.look(which)
    cut = story.core.snapshot(story.clock.now())
    discarded: Counter[str] = Counter()
    for (signal, _), amount in story.core.tally.discarded.items():
        discarded[signal] += amount
    for signal in ("generation_tokens", "requests", TTFT):
        assert published(cut.cluster)[signal] + discarded[signal] + story.missed[signal] == story.true[signal], signal


@settings(deadline=None, max_examples=150)
@given(steps)
def test_nothing_published_ever_falls(told: Steps) -> None:
    story = Story()
    before: dict[tuple[str, ...], Mapping[object, int]] = {}
    for cut in story.play(told):
        shown = {row.labels: numbers(row) for row in cut.rows}
        for labels, rising in shown.items():
            for name, count in before.get(labels, {}).items():
                assert rising[name] >= count, (labels, name)
            assert all(type(count) is int and count >= 0 for count in rising.values())
        before = shown
        for row in cut.rows:
            for histogram in row.histograms.values():
                assert all(low <= high for low, high in pairwise(histogram.cumulative))


@settings(deadline=None, max_examples=60)
@given(steps)
def test_pools_add_up_to_the_cluster_after_any_history(told: Steps) -> None:
    story = Story()
    for cut in story.play(told):
        added: Counter[object] = Counter()
        for pool in cut.pools:
            added.update({name: count for name, count in numbers(pool).items() if "bucket" not in name})  # type: ignore[operator]
        above = {name: count for name, count in numbers(cut.cluster).items() if "bucket" not in name}  # type: ignore[operator]
        assert dict(added) == above


@settings(deadline=None, max_examples=60)
@given(steps)
def test_sums_are_exact_where_every_observation_was_published(told: Steps) -> None:
    """Without gaps, restarts and early history a pool's sum is the sum of what its pods observed since they joined."""
    story = Story()
    calm = [step for step in told if step[0] in ("join", "serve", "look", "fast", "fail")]
    before: Counter[str] = Counter()
    for step, _ in zip(calm, story.play(calm), strict=True):
        if step[0] == "join":
            story.look(len(story.living) - 1)
            before[story.living[-1].pod.pod] = sum(map(to_fixed, story.living[-1].observed))
    for which in range(len(story.living)):
        story.look(which)
    cut = story.core.snapshot(story.clock.now())
    expected = sum(sum(map(to_fixed, one.observed)) - before[one.pod.pod] for one in story.living)
    histogram = cut.cluster.histograms.get(TTFT)
    assert (histogram.sum_fixed if histogram else 0) == expected
