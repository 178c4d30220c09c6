"""Records to snapshot: pods from their targets, pools from pods, the cluster from pools. Reads only, changes nothing."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from collector import picking, scoring
from collector.caps import FirstOnes
from collector.clock import Instant
from collector.health import Limits
from collector.held import Held
from collector.model import Adapters
from collector.rollup import Parts, combine, finish, parts_of, without_means
from collector.scoring import Full
from collector.sight import Sight
from collector.signals import REPORTING, SHARES, SIGNALS, WINDOWED, Lane, Level, State, row_of
from collector.snapshot import Endpoint, Row, Snapshot
from collector.totals import Child, Totals

_STATE_ORDER = (State.FRESH, State.WARMING, State.NO_PROGRESS, State.STALE, State.TERMINATING, State.DOWN)
"""A pod is in the best state of its targets: it can serve as long as one of them can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod at the moment of the cut, with the parts that roll up."""

    sights: tuple[Sight, ...]
    state: State
    states: Counter[State]
    parts: Parts
    gauges: Mapping[str, float]
    adapters: tuple[Adapters, ...]


def endpoint(sight: Sight, now: Instant, limits: Limits) -> Endpoint:
    """One target as the picker sees it."""
    state = sight.state(now.mono, limits)
    carries = state in REPORTING
    return Endpoint(
        target=sight.target, state=state, engine=sight.engine, model=sight.model,
        sampled_at=sight.last_good.wall if sight.last_good else None,
        age_seconds=now.mono - sight.last_good.mono if sight.last_good else None,
        gauges=sight.gauges(now.mono, limits) if carries else {},
        adapters=sight.adapters() if carries else None,
        prefix_cache_hit_ratio=sight.totals.share("prefix_cache_hit_ratio", now.mono, limits.window) if carries else None,
        failure=sight.failure,
    )  # fmt: skip


def make_pod(sights: Sequence[Sight], now: float, limits: Limits) -> Pod:
    """Fold the targets of one pod; only reporting ones carry values."""
    by_sight = [(sight, sight.state(now, limits)) for sight in sights]
    state = min((state for _, state in by_sight), key=_STATE_ORDER.index)
    reporting = [sight for sight, state in by_sight if state in REPORTING]
    parts = combine(parts_of(sight.gauges(now, limits)) for sight in reporting)
    return Pod(sights=tuple(sights), state=state, states=Counter(state for _, state in by_sight), parts=parts,
               gauges=finish(parts), adapters=tuple(one for sight in reporting if (one := sight.adapters()) is not None),
               )  # fmt: skip


def _adapter_counts(adapters: Iterable[Adapters], *, of_one_pod: bool = False) -> dict[str, float]:
    """Sizes of the unions of names; where an engine tells numbers only, the pod's own is known and no union above it."""
    known = list(adapters)
    sets = {
        "adapters_running": [one.running for one in known if one.running is not None],
        "adapters_waiting": [one.waiting for one in known if one.waiting is not None],
        "adapters_loaded": [one.loaded for one in known if one.loaded is not None],
    }
    counts = {name: float(len(frozenset().union(*some))) for name, some in sets.items() if some}
    used = [one.used for one in known if one.used is not None]
    return {"adapters_running": float(max(used)), **counts} if of_one_pod and used else counts


def _of_level(level: Level, gauges: Mapping[str, float]) -> dict[Child, float]:
    return {child: value for key, value in gauges.items() if (child := _child_at(level, key)) is not None}


@cache
def _child_at(level: Level, key: str) -> Child | None:
    """A gauge as readings name it to a child of the table; None where the level has no such signal."""
    name, _, child = key.partition("/")
    return (name, child) if level in row_of(key).levels else None


def _windows(level: Level, totals: Totals, now: float, window: float) -> dict[Child, float]:
    """Quantiles of the windowed histograms; the child is quantile and window."""
    gauges: dict[Child, float] = {}
    for name in WINDOWED:
        shown = name.replace("_seconds", "_window_seconds")
        if level in SIGNALS[shown].levels:
            for point, value in totals.window_quantiles(name, now, window).items():
                gauges[shown, f"{point:g}|{window:g}s"] = value
    return gauges


def _projected(totals: Totals) -> dict[Child, float]:
    shares = ((name, totals.projected_share(name)) for name in totals.ladders)
    return {("projected_ratio", name): share for name, share in shares if share is not None}


def _adapter_pods(pods: Sequence[Pod], names: FirstOnes) -> dict[Child, float]:
    counts = Counter(names.shown(name) for pod in pods for name in _working(pod.adapters))
    return {("adapter_pods", name): float(count) for name, count in counts.items()}


def _working(adapters: Iterable[Adapters]) -> list[str]:
    return sorted(frozenset().union(*((one.running or frozenset()) | (one.waiting or frozenset()) for one in adapters)))


def _picker_scores(pods: Iterable[Pod]) -> dict[str, dict[Child, float]]:
    """By the name of the pod, of one pool."""
    told = {pod.sights[0].target.pod: pod.gauges for pod in pods if pod.state in REPORTING}
    return {name: {("picker_score_ratio", scorer): score for scorer, score in by_scorer.items()}
            for name, by_scorer in picking.scores(told).items()}  # fmt: skip


def _picker_saturation(pods: Iterable[Pod], full: Full) -> float:
    """A pod that is about to go has left the picker's pool."""
    staying = (pod for pod in pods if pod.state is not State.TERMINATING)
    return picking.saturation((pod.gauges if pod.state in REPORTING else None for pod in staying), full)


def _shares(level: Level, totals: Totals, now: float, window: float) -> dict[Child, float]:
    ratios = ((name, totals.share(name, now, window)) for name in SHARES if level in SIGNALS[name].levels)
    return {(name, ""): ratio for name, ratio in ratios if ratio is not None}


def _one_hot(signal: str, counts: Mapping[State, int]) -> dict[Child, float]:
    return {(signal, state): float(counts.get(state, 0)) for state in State}


def pod_row(
    pod: Pod, totals: Totals, cluster: str, now: Instant, limits: Limits, scores: Mapping[Child, float] = MappingProxyType({})
) -> Row:  # fmt: skip
    """A pod's row. Load gauges only while it reports; state, age and info always."""
    target = pod.sights[0].target
    gauges: dict[Child, float] = _one_hot("state", {pod.state: 1}) | _one_hot("targets", pod.states)
    if pod.state in REPORTING:
        gauges |= _of_level(Level.POD, {**pod.gauges} | _adapter_counts(pod.adapters, of_one_pod=True))
        gauges |= _shares(Level.POD, totals, now.mono, limits.window) | dict(scores)
    last = max((sight.last_good.wall for sight in pod.sights if sight.last_good), default=None)
    if last is not None:
        gauges["last_sample_timestamp_seconds", ""] = last
    for lane in Lane:
        ages = [age for sight in pod.sights if (age := sight.age(lane, now.mono)) is not None]
        if ages:
            gauges["signal_age_seconds", lane] = min(ages)
    seen = max(pod.sights, key=lambda sight: bool(sight.engine))
    info = {"engine": seen.engine, "version": seen.details.version, "model": seen.model, "role": seen.role, "node": target.node,
            "accelerator": target.accelerator, "cost_tier": target.cost_tier}  # fmt: skip
    return Row(level=Level.POD, labels=(cluster, target.namespace, target.pool, target.pod), gauges=gauges,
               counters=dict(totals.counters), histograms=totals.histograms(), info=info, began=totals.began)  # fmt: skip


def newest(pods: Mapping[tuple[str, str, str], Pod]) -> dict[tuple[str, str, str], Pod]:
    """Of pods with equal labels the newest that stays: a successor can stand beside its namesake, a series only once."""
    best: dict[tuple[str, str, str], tuple[bool, float, tuple[str, str, str]]] = {}
    for key, pod in pods.items():
        shown_as = (*key[:2], pod.sights[0].target.pod)
        stays = any(not sight.target.terminating for sight in pod.sights)
        rank = (stays, max(sight.joined.mono for sight in pod.sights), key)
        best[shown_as] = max(best.get(shown_as, rank), rank)
    return {key: pods[key] for *_, key in best.values()}


def load_parts(pods: Iterable[Pod]) -> Parts:
    """What pods add to the levels above: reporting ones, in means only those past their warm-up."""
    reporting = (pod for pod in pods if pod.state in REPORTING)
    return combine(pod.parts if pod.state is not State.WARMING else without_means(pod.parts) for pod in reporting)


def load_gauges(
    level: Level, pods: Sequence[Pod], parts: Parts, totals: Totals, now: float, *, limits: Limits, full: Full
) -> dict[Child, float]:
    """Gauges of a pool or cluster from its pods."""
    reporting = [pod for pod in pods if pod.state in REPORTING]
    settled = [pod for pod in reporting if pod.state is not State.WARMING]
    gauges = finish(parts) | _adapter_counts(one for pod in reporting for one in pod.adapters)
    fills = [fill for pod in settled if (fill := scoring.saturation(pod.gauges, full)) is not None]
    if fills:
        gauges["saturation_ratio"] = math.fsum(fills) / len(fills)
    loads = [load for pod in settled if (load := scoring.load(pod.gauges)) is not None]
    for name, spread in (("imbalance_ratio", scoring.imbalance(loads)), ("load_variation_ratio", scoring.variation(loads))):
        if spread is not None:
            gauges[name] = spread
    # A pod told to go need not speak: else a pool that is scaled down would read as one that fell silent.
    if staying := sum(pod.state is not State.TERMINATING for pod in pods):
        gauges["reporting_ratio"] = len(reporting) / staying
    return (
        _of_level(level, gauges)
        | _one_hot("pods", Counter(pod.state for pod in pods))
        | _shares(level, totals, now, limits.window)
        | _windows(level, totals, now, limits.window)
        | _projected(totals)
    )


def cut(held: Held) -> Snapshot:
    """Everything as it was when it was held."""
    now, limits, cluster = held.at, held.limits, held.cluster
    by_pod: dict[tuple[str, str, str], list[Sight]] = defaultdict(list)
    for sight in sorted(held.sights, key=lambda one: one.target.key):
        by_pod[sight.target.pod_key].append(sight)
    pods = {key: make_pod(group, now.mono, limits) for key, group in sorted(by_pod.items())}
    by_pool: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for key, pod in pods.items():
        by_pool[key[:2]].append(pod)
    shown = newest(pods)
    seen: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for key, pod in shown.items():
        seen[key[:2]].append(pod)
    scores = {pool_key: _picker_scores(members) for pool_key, members in seen.items()}
    pod_rows = tuple(
        pod_row(pod, held.pods.get(key, Totals()), cluster, now, limits, scores[key[:2]].get(pod.sights[0].target.pod, {}))
        for key, pod in shown.items())  # fmt: skip
    parts = {pool_key: load_parts(members) for pool_key, members in by_pool.items()}
    pool_rows = []
    for pool_key, (totals, model) in sorted(held.pools.items()):
        members = by_pool[pool_key]
        engines = sorted({sight.engine for pod in members for sight in pod.sights if sight.engine})
        pool_parts = parts.get(pool_key, {})
        gauges = load_gauges(Level.POOL, members, pool_parts, totals, now.mono, limits=limits, full=held.full)
        gauges["picker_saturation_ratio", ""] = _picker_saturation(members, held.full)
        gauges |= _adapter_pods([pod for pod in members if pod.state in REPORTING], held.adapter_names)
        pool_rows.append(Row(
            level=Level.POOL, labels=(cluster, *pool_key), counters=dict(totals.counters), histograms=totals.histograms(),
            gauges=gauges, began=totals.began,
            info={"model": model, "engine": ",".join(engines)},
        ))  # fmt: skip
    whole_parts = combine(parts.values())
    gauges = load_gauges(Level.CLUSTER, list(pods.values()), whole_parts, held.totals, now.mono, limits=limits, full=held.full)
    whole = Row(
        level=Level.CLUSTER,
        labels=(cluster,),
        gauges=gauges,
        counters=dict(held.totals.counters),
        histograms=held.totals.histograms(),
        info=held.info,
        began=held.totals.began,
    )
    endpoints = tuple(endpoint(sight, now, limits) for group in by_pod.values() for sight in group)
    return Snapshot(at=now, cluster=whole, pools=tuple(pool_rows), pods=pod_rows, endpoints=endpoints)
