"""Order and grouping never matter: parts add up to the whole, exactly."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.clock import Instant
from collector.ladders import Ladder
from collector.model import Adapters, Failure, Reading, Target
from collector.rollup import combine, finish, parts_of
from collector.signals import READ_SIGNALS, SIGNALS, Fold, Kind, row_of
from collector.snapshot import Snapshot
from collector.state import State
from tests.make import at, counts, failure, observe, reading, state, target, values

LADDERS: dict[str, Ladder] = {
    "vllm": (0.001, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0), "sglang": (0.1, 0.2, 0.4, 1.0, 2.0, 10.0, 400.0),
    "tgi": tuple(0.003 * 1.7**step for step in range(12)),
}  # fmt: skip
TTFT = "time_to_first_token_seconds"

ratios = st.floats(0, 1)
whole = st.integers(0, 10_000)
ROLLED_UP = [row for row in SIGNALS.values() if row.kind is Kind.GAUGE and row.name in READ_SIGNALS
             and row.fold in (Fold.SUM, Fold.WEIGHTED_MEAN, Fold.MEAN, Fold.MAX)]  # fmt: skip
KEYS = {key: ratios if row.unit == "ratio" else whole.map(float) for row in ROLLED_UP
        for key in ([f"{row.name}/{child}" for child in row.children] or [row.name])}  # fmt: skip
gauges = st.fixed_dictionaries({}, optional=KEYS | {"kv_cache_capacity_tokens": st.integers(0, 10**7).map(float)})
pages = st.fixed_dictionaries({
    "gauges": gauges, "tokens": whole, "hits": whole, "queries": whole, "stop": whole, "error": whole,
    "seen": st.lists(st.floats(0.0001, 1000), max_size=6), "adapters": st.sets(st.sampled_from("abcd")), "progress": whole,
    "fails": st.booleans(),
})  # fmt: skip
rounds = st.lists(st.lists(pages, min_size=6, max_size=6), min_size=1, max_size=4)
PODS = tuple(target(f"p{index}", ("chat", "code")[index % 2], model="llama") for index in range(6))
ENGINES = ("vllm", "sglang", "tgi")


def outcomes(history: Sequence[Sequence[dict]]) -> list[list[Reading | Failure]]:  # type: ignore[type-arg]
    """Rounds of outcomes: in each round every pod is looked at, all at one moment; counters rise from round to round."""
    totals: list[Counter[str]] = [Counter() for _ in PODS]
    seen: list[list[float]] = [[] for _ in PODS]
    made: list[list[Reading | Failure]] = []
    for number, page_of in enumerate(history):
        turn: list[Reading | Failure] = []
        for index, (pod, page) in enumerate(zip(PODS, page_of, strict=True)):
            engine = ENGINES[index % 3]
            totals[index].update({name: page[name] for name in ("tokens", "hits", "queries", "stop", "error")})
            seen[index] += page["seen"]
            turn.append(_look(pod, engine, page, totals[index], seen[index], at(number)))
        made.append(turn)
    return made


def _look(
    pod: Target,
    engine: str,
    page: dict,
    total: Counter[str],
    seen: list[float],
    when: Instant,  # type: ignore[type-arg]
) -> Reading | Failure:
    if page["fails"]:
        return failure(pod, when)
    told = values(
        counts(generation_tokens=total["tokens"], prefix_cache_hit_tokens=total["hits"],
               prefix_cache_query_tokens=total["queries"], requests={"stop": total["stop"], "error": total["error"]}),
        {TTFT: observe(LADDERS[engine], seen)}, adapters=Adapters(frozenset(page["adapters"]), None, 4),
        progress=float(page["progress"]), **page["gauges"],
    )  # fmt: skip
    return reading(pod, told, when, engine=engine)


def play(order: Sequence[int], turns: Sequence[Sequence[Reading | Failure]]) -> State:
    core = state(*(PODS[index] for index in order))
    for turn in turns:
        for index in order:
            core.absorb(turn[index])
    return core


@settings(deadline=None, max_examples=60)
@given(rounds, st.permutations(range(6)), st.floats(0, 100))
def test_order_of_pods_and_of_arrival_does_not_matter(
    history: list[list[dict]],
    order: list[int],
    later: float,  # type: ignore[type-arg]
) -> None:
    turns = outcomes(history)
    straight, shuffled = play(range(6), turns), play(order, turns)
    now = at(len(turns) - 1 + later)
    assert straight.snapshot(now) == shuffled.snapshot(now)
    assert straight.endpoints(now) == shuffled.endpoints(now)
    assert straight.tally == shuffled.tally


@settings(deadline=None, max_examples=60)
@given(rounds)
def test_pods_add_up_to_their_pool_and_pools_to_the_cluster(history: list[list[dict]]) -> None:  # type: ignore[type-arg]
    core = play(range(6), outcomes(history))
    cut = core.snapshot(at(len(history) - 1))
    for pool in cut.pools:
        members = [row for row in cut.pods if row.labels[:3] == pool.labels]
        _same_counters(pool.counters, [row.counters for row in members])
    _same_counters(cut.cluster.counters, [row.counters for row in cut.pools])
    for key, pool in core.pools.items():
        pods = [totals for pod, totals in core.pods.items() if pod[:2] == key]
        assert _ladders([pool.totals]) == _ladders(pods)
        assert pool.totals.sums == dict(sum((Counter(pod.sums) for pod in pods), Counter())) | dict.fromkeys(
            (name for name, total in pool.totals.sums.items() if not total), 0)  # fmt: skip
    assert _ladders([core.totals]) == _ladders([pool.totals for pool in core.pools.values()])
    _same_histograms(cut)


def _same_counters(above: object, parts: Sequence[object]) -> None:
    added: Counter[tuple[str, str]] = Counter()
    for part in parts:
        added.update(part)  # type: ignore[call-overload]
    assert dict(added) == above


def _ladders(many: Sequence[object]) -> dict[tuple[str, Ladder], tuple[int, ...]]:
    added: dict[tuple[str, Ladder], tuple[int, ...]] = {}
    for totals in many:
        for signal, ladders in totals.ladders.items():  # type: ignore[attr-defined]
            for bounds, buckets in ladders.items():
                before = added.get((signal, bounds), (0,) * len(buckets))
                added[signal, bounds] = tuple(map(sum, zip(before, buckets, strict=True)))
    return added


def _same_histograms(cut: Snapshot) -> None:
    """On the published ladder: count, sum and bounds shared by all engines exactly, others up to the rounding of each part."""
    whole_of = cut.cluster.histograms.get(TTFT)
    parts = [row.histograms[TTFT] for row in cut.pools if TTFT in row.histograms]
    if whole_of is None:
        assert not parts
        return
    added = [sum(column) for column in zip(*(part.cumulative for part in parts), strict=True)]
    assert whole_of.sum_fixed == sum(part.sum_fixed for part in parts)
    assert whole_of.cumulative[-1] == added[-1]
    assert all(0 <= above - below <= 3 * len(parts) for above, below in zip(whole_of.cumulative, added, strict=True))


@settings(deadline=None)
@given(st.lists(gauges, max_size=8), st.randoms(use_true_random=False))
def test_any_grouping_rolls_up_to_the_same(pods: list[dict[str, float]], random: object) -> None:
    parts = [parts_of(one) for one in pods]
    groups: list[list[dict[str, object]]] = [[], [], []]
    for part in parts:
        groups[random.randrange(3)].append(part)  # type: ignore[attr-defined, arg-type]
    random.shuffle(groups)  # type: ignore[attr-defined]
    grouped = combine(combine(group) for group in groups)  # type: ignore[arg-type]
    assert grouped == combine(parts)
    assert finish(grouped) == finish(combine(parts))


@settings(deadline=None)
@given(st.lists(gauges, min_size=1, max_size=8))
def test_rolled_up_values_stay_inside_their_parts(pods: list[dict[str, float]]) -> None:
    whole_of = finish(combine(map(parts_of, pods)))
    assert whole_of.keys() == {name for one in pods for name in one}
    for name, value in whole_of.items():
        single = [one[name] for one in pods if name in one]
        match row_of(name).fold:
            case Fold.SUM:
                assert value == sum(single)
            case Fold.MAX:
                assert abs(value - max(single)) < 1e-15
            case _:
                assert min(single) - 1e-15 <= value <= max(single) + 1e-15


def test_the_gauges_here_are_of_every_fold() -> None:
    assert {row.fold for row in ROLLED_UP} == {Fold.SUM, Fold.WEIGHTED_MEAN, Fold.MEAN, Fold.MAX}
    assert any("/" in key for key in KEYS)
