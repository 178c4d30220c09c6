"""The simulated engines' own books against ours: what happened = published + discarded + what no page ever showed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

import pytest

from collector.clock import Instant
from collector.health import Limits
from collector.ladders import Ladder
from collector.model import Failure, Target
from collector.read import Body, understand
from collector.reasons import DiscardReason, FailureReason
from collector.signals import SIGNALS, Lane
from collector.state import State
from exporter.demo.config import A100, H100, L40S, EngineConfig
from exporter.demo.fleet import Fleet
from exporter.demo.ledger import Ledger, Tally, count_into
from exporter.demo.load import Mix, Wave
from exporter.demo.plan import Fault, FleetPlan, PodPlan, PoolPlan

WALL = 1_800_000_000.0
VLLM = EngineConfig("vllm", "llama", H100, num_blocks=1200, max_queue=20)
SGLANG = EngineConfig("sglang", "qwen", A100, block_size=1, num_blocks=16_000)
TGI = EngineConfig("tgi", "mistral", L40S, block_size=1, num_blocks=16_000, max_queue=16)
MIX = Mix(prompt_tokens=300, output_tokens=60, max_tokens=200, patience_seconds=20.0, cut_share=0.05, abort_share=0.04,
          error_share=0.04)  # fmt: skip

# Signal to the names of the engines' own histograms.
TALLIES = {
    "vllm": {
        "time_to_first_token_seconds": "ttft", "inter_token_latency_seconds": "itl", "time_per_output_token_seconds": "tpot",
        "end_to_end_latency_seconds": "e2e", "queue_time_seconds": "queue", "prefill_time_seconds": "prefill",
        "decode_time_seconds": "decode", "inference_time_seconds": "inference", "request_prompt_tokens": "prompt",
        "request_generation_tokens": "generated",
    },
    "sglang": {
        "time_to_first_token_seconds": "ttft", "inter_token_latency_seconds": "itl", "time_per_output_token_seconds": "tpot",
        "end_to_end_latency_seconds": "e2e", "queue_time_seconds": "queue_admitted", "prefill_time_seconds": "prefilled",
        "request_prompt_tokens": "prompt", "request_generation_tokens": "generated",
    },
    "tgi": {
        "time_per_output_token_seconds": "mean_token", "end_to_end_latency_seconds": "e2e", "queue_time_seconds": "queue",
        "inference_time_seconds": "inference", "request_prompt_tokens": "input_length", "request_generation_tokens": "generated",
    },
}  # fmt: skip
COUNTED = ("requests", "prompt_tokens", "generation_tokens", "rejected_requests")


def tallies(ledger: Ledger, name: str) -> list[Tally]:
    split = name in ledger.books.split
    return [ledger.tally(name, streaming=flag) for flag in ((False, True) if split else (None,))]


def counters(kind: str, ledger: Ledger) -> Counter[str]:
    """What the engine's page counts, from its books."""
    ended, closed = ledger.outcomes, ledger.closed.values()
    if kind == "sglang":
        return Counter(requests=sum(part.requests for part in closed), prompt_tokens=sum(part.prompt_tokens for part in closed),
                       generation_tokens=sum(part.generation_tokens for part in closed))  # fmt: skip
    if kind == "tgi":
        refused = ledger.refused + ended["error"] + ended["abort"]
        return Counter(requests=ended["stop"] + ended["length"] + refused, rejected_requests=ledger.rejected,
                       prompt_tokens=ledger.tally("input_length").total,
                       generation_tokens=ledger.tally("generated").total)  # fmt: skip
    finished = sum(count for outcome, count in ended.items() if outcome != "cut")
    return Counter(requests=finished, prompt_tokens=ledger.prompt_tokens, generation_tokens=ledger.generation_tokens,
                   rejected_requests=ledger.rejected)  # fmt: skip


def truth(kind: str, ledgers: Iterable[Ledger]) -> Counter[str]:
    """Counters, and observations of each histogram as `signal`, its buckets as `signal ladder index`, of one process."""
    total: Counter[str] = Counter()
    for ledger in ledgers:
        total += counters(kind, ledger)
        for signal, name in TALLIES[kind].items():
            for tally in tallies(ledger, name):
                total[signal] += tally.count
                for index, count in enumerate(tally.counts):
                    total[f"{signal} {tally.bounds} {index}"] += count
    return total


@dataclass
class Watch:
    """A reader beside the fleet: which pods it looks at, and what each page showed last of each process."""

    fleet: Fleet
    core: State
    watched: set[str] = field(default_factory=set)
    shown: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)

    def target(self, name: str) -> Target:
        pool = self.fleet.pool_of(name).plan
        return Target(url=f"http://{name}:8000/metrics", namespace=pool.namespace, pool=pool.name, pod=name)

    def watch(self, names: Iterable[str], now: float) -> None:
        self.watched = set(names)
        self.core.watch(map(self.target, sorted(self.watched)), at(now))

    def look(self, name: str, now: float) -> None:
        pod = self.fleet.pod(name)
        if pod.state != "up":
            self.core.absorb(
                Failure(target=self.target(name), lane=Lane.FULL, at=at(now), reason=FailureReason.REFUSED, detail="")
            )
            return
        body = Body(pod.page().encode(), "text/plain; version=0.0.4")
        self.core.absorb(understand(self.target(name), Lane.FULL, body, at=at(now)))
        ledgers = [engine.ledger for engine in pod.process.engines]
        self.shown[name, pod.lives] = truth(pod.plan.engine.kind, ledgers)

    def whole(self) -> Counter[str]:
        """All that ever happened in the fleet."""
        total: Counter[str] = Counter()
        for pod in self.fleet.pods:
            total += truth(pod.plan.engine.kind, pod.ledgers)
        return total

    def on_pages(self) -> Counter[str]:
        """What the last page of each process showed."""
        return sum(self.shown.values(), Counter())

    def published(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for (signal, _), count in self.core.totals.counters.items():
            total[signal] += count
        for signal, ladders in self.core.totals.ladders.items():
            for bounds, counts in ladders.items():
                total[signal] += sum(counts)
                for index, count in enumerate(counts):
                    total[f"{signal} {bounds} {index}"] += count
        return total

    def discarded(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for (signal, _), amount in self.core.tally.discarded.items():
            total[signal] += amount
        return total


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, WALL + seconds)


def fleet(*faults: Fault, seed: int, keep_records: bool = False) -> Fleet:
    shapes = (("llama", VLLM, (1, 2), 5.0), ("qwen", SGLANG, (1, 1), 4.0), ("mistral", TGI, (1,), 1.5))
    pools = tuple(
        PoolPlan(name, tuple(PodPlan(f"{name}-{number}", engine, ranks=ranks) for number, ranks in enumerate(sizes)),
                 Wave(rate, swing=0.5, period_seconds=60.0), MIX)
        for name, engine, sizes, rate in shapes
    )  # fmt: skip
    return Fleet(FleetPlan(pools, tuple(faults)), seed=seed, wall=lambda seconds: WALL + seconds, keep_records=keep_records)


SIGNALS_CHECKED = (*COUNTED, *{signal for names in TALLIES.values() for signal in names})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_truth_is_published_and_discarded_and_never_shown(seed: int) -> None:
    """Pods are scaled up and down, die and come back, fall silent, are out of sight longer than the limit."""
    rng = Random(seed)
    faults = (Fault("llama-0", "kill", at=31.0 + seed, seconds=12.0, every_seconds=70.0),
              Fault("qwen-1", "kill", at=55.0 + seed, seconds=9.0), Fault("mistral-0", "kill", at=83.5, seconds=6.0),
              Fault("llama-1", "hang", at=40.0, seconds=11.0), Fault("qwen-0", "freeze", at=100.0, seconds=8.0))  # fmt: skip
    world = fleet(*faults, seed=seed)
    watch = Watch(world, State(cluster="c", limits=Limits(gap_limit=20.0)))
    names = [pod.plan.name for pod in world.pods]
    joins = {"llama-1": 22.0, "qwen-1": 12.0}
    leaves = {"qwen-0": 120.0}
    before: Counter[str] = Counter()
    for step in range(90):
        now = 2.0 * step
        world.advance(now)
        wanted = {name for name in names if joins.get(name, 0.0) <= now < leaves.get(name, 1e9)}
        if wanted != watch.watched:
            watch.watch(wanted, now)
        for name in sorted(wanted):
            out_of_sight = name == "llama-1" and 60.0 <= now < 90.0
            if not out_of_sight and rng.random() < 0.8:
                watch.look(name, now)
        after = watch.published()
        assert all(after[name] >= count for name, count in before.items())
        before = after
    for name in watch.watched:
        watch.look(name, 180.0)
    published, discarded, on_pages, whole = watch.published(), watch.discarded(), watch.on_pages(), watch.whole()
    for signal in SIGNALS_CHECKED:
        never_shown = whole[signal] - on_pages[signal]
        assert published[signal] + discarded[signal] + never_shown == whole[signal], signal
        assert never_shown >= 0
    reasons = {reason for _, reason in watch.core.tally.discarded}
    assert reasons == {DiscardReason.FIRST_SAMPLE, DiscardReason.GAP}
    assert published["requests"] > 300
    assert discarded["requests"] > 10


@pytest.mark.parametrize("seed", [4, 5])
def test_every_bucket_is_the_truths(seed: int) -> None:
    """Watched from the start and never out of sight, with restarts: each bucket of each ladder is what the engines observed."""
    faults = (Fault("qwen-1", "kill", at=63.0, seconds=9.0), Fault("mistral-0", "kill", at=52.0, seconds=8.0))
    world = fleet(*faults, seed=seed, keep_records=True)
    watch = Watch(world, State(cluster="c"))
    watch.watch((pod.plan.name for pod in world.pods), -1.0)
    for step in range(60):
        world.advance(2.0 * step)
        for name in sorted(watch.watched):
            watch.look(name, 2.0 * step)
    assert watch.discarded().total() == 0
    on_pages, published = watch.on_pages(), watch.published()
    buckets = {key: count for key, count in on_pages.items() if " " in key and count}
    assert {key: count for key, count in published.items() if " " in key and count} == buckets
    assert len(buckets) > 100
    assert {key: published[key] for key in SIGNALS_CHECKED} == {key: on_pages[key] for key in SIGNALS_CHECKED}
    _published_as_the_raw_events(world, watch, "llama")


def _published_as_the_raw_events(world: Fleet, watch: Watch, pool: str) -> None:
    """Of a pool whose pods all live: the published ladder at each of the engine's own bounds, from single requests and tokens."""
    pods = [pod for pod in world.pods if pod.plan.name.startswith(pool)]
    assert all(pod.lives == 1 for pod in pods)
    histograms = watch.core.pools["serving", pool].totals.histograms()
    for signal, name in TALLIES[pods[0].plan.engine.kind].items():
        events = [value for pod in pods for ledger in pod.ledgers for value in ledger.values(name)]
        own: Ladder = pods[0].ledgers[0].tally(name).bounds
        ladder = SIGNALS[signal].ladder
        known = [
            (bound, count) for bound, count in zip(own, accumulate(count_into(own, events)), strict=False) if bound in ladder
        ]
        assert {bound: histograms[signal].cumulative[ladder.index(bound)] for bound, _ in known} == dict(known), signal
        assert histograms[signal].cumulative[-1] == len(events)
        assert len(known) >= len(own) - 1
