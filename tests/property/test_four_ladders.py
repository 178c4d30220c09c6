"""Five thousand steps over four ladders with pods joining and leaving: whole numbers that never fall, in time or along `le`."""

import random
from collections import Counter
from itertools import pairwise

from collector.bounds import SGLANG_TTFT, VLLM_TTFT
from collector.ladders import Ladder
from collector.model import Target
from collector.signals import SIGNALS
from tests.make import HandClock, observe, raw, reading, state, target, values

TTFT = "time_to_first_token_seconds"
LADDERS: tuple[tuple[str, Ladder], ...] = (
    ("vllm", VLLM_TTFT), ("sglang", SGLANG_TTFT), ("tgi", tuple(0.0001 * 1.5**step for step in range(1, 36))),
    ("vllm", (0.03, 0.3, 3.0, 30.0)),
)  # fmt: skip
STEPS = 5000
PUBLISHED = SIGNALS[TTFT].ladder


class Walk:
    """Pods of four kinds that serve, join, leave and restart at random; the truth is kept beside what is published."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = HandClock()
        self.core = state(when=self.clock.now())
        self.pods: dict[Target, tuple[str, list[int], float]] = {}
        self.kinds: dict[Target, tuple[str, Ladder]] = {}
        self.made = 0
        self.counted: Counter[Ladder] = Counter()
        self.sum = 0

    def step(self) -> None:
        self.clock.move(self.rng.uniform(0.2, 1.5))
        happening = self.rng.random()
        if happening < 0.02 or len(self.pods) < 2:
            self.join()
        elif happening < 0.03 and len(self.pods) > 2:
            del self.pods[self.rng.choice(list(self.pods))]
            self.core.watch(self.pods, self.clock.now())
        elif happening < 0.04:
            self.restart(self.rng.choice(list(self.pods)))
        else:
            self.serve(self.rng.choice(list(self.pods)))

    def join(self) -> None:
        self.made += 1
        engine, ladder = self.rng.choice(LADDERS)
        pod = target(f"p{self.made}")
        self.kinds[pod] = (engine, ladder)
        self.pods[pod] = (engine, [0] * (len(ladder) + 1), 0.0)
        self.core.watch(self.pods, self.clock.now())
        self.look(pod)

    def restart(self, pod: Target) -> None:
        engine, ladder = self.kinds[pod]
        self.pods[pod] = (engine, [0] * (len(ladder) + 1), 0.0)
        self.look(pod)

    def serve(self, pod: Target) -> None:
        engine, ladder = self.kinds[pod]
        _, counts, total = self.pods[pod]
        seen = [self.rng.lognormvariate(-1.0, 1.8) for _ in range(self.rng.randrange(6))]
        gained = observe(ladder, seen)
        counts = [old + new for old, new in zip(counts, gained.counts, strict=True)]
        self.pods[pod] = (engine, counts, total + sum(seen))
        self.counted[ladder] += len(seen)
        self.look(pod)

    def look(self, pod: Target) -> None:
        engine, counts, total = self.pods[pod]
        page = values(None, {TTFT: raw(self.kinds[pod][1], counts, total)}, progress=1.0, requests_running=1.0)
        self.core.absorb(reading(pod, page, self.clock.now(), engine=engine))


def test_five_thousand_steps_over_four_ladders() -> None:
    walk = Walk(seed=4)
    before: tuple[int, ...] = (0,) * (len(PUBLISHED) + 1)
    total = 0
    for _ in range(STEPS):
        walk.step()
        histogram = walk.core.totals.histograms().get(TTFT)
        if histogram is None:
            continue
        now = histogram.cumulative
        assert len(now) == len(PUBLISHED) + 1
        assert all(type(count) is int for count in now)
        assert all(low <= high for low, high in pairwise(now))
        assert all(old <= new for old, new in zip(before, now, strict=True))
        assert histogram.sum_fixed >= total
        before, total = now, histogram.sum_fixed
    assert len(walk.counted) == 4
    assert walk.made > 80
    assert before[-1] == sum(walk.counted.values())
    assert {ladder: sum(counts) for ladder, counts in walk.core.totals.ladders[TTFT].items()} == dict(walk.counted)


def test_bounds_that_an_engine_shares_with_the_published_ladder_are_exact() -> None:
    """With the two engines whose default bounds make the ladder, each own bound counts exactly what was observed."""
    walk = Walk(seed=9)
    for _ in range(1500):
        walk.step()
    for ladder in (VLLM_TTFT, SGLANG_TTFT):
        assert set(ladder) <= set(PUBLISHED)
    totals = walk.core.totals
    both = set(VLLM_TTFT) & set(SGLANG_TTFT)
    exact = [sum(sum(counts[: ladder.index(bound) + 1]) for ladder, counts in totals.ladders[TTFT].items() if bound in ladder)
             for bound in sorted(both)]  # fmt: skip
    strange = {ladder: counts for ladder, counts in totals.ladders[TTFT].items() if not both <= set(ladder)}
    published = totals.histograms()[TTFT].cumulative
    for bound, count in zip(sorted(both), exact, strict=True):
        rest = published[PUBLISHED.index(bound)] - count
        assert 0 <= rest <= sum(sum(counts) for counts in strange.values())
    share = sum(sum(counts) for counts in strange.values()) / sum(sum(counts) for counts in totals.ladders[TTFT].values())
    assert totals.projected_share(TTFT) == share
