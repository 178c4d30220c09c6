"""Why a picker would choose a pod or pass it over: its scores beside those of its pool. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from collector import picking
from collector.model import Target
from collector.picking import KV_CACHE, QUEUE, RUNNING
from collector.signals import PICKER_WEIGHTS, REPORTING
from collector.snapshot import Endpoint

_GAUGES = {QUEUE: "requests_waiting", KV_CACHE: "kv_cache_usage_max_ratio", RUNNING: "requests_running"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The place of a pod among those of its pool: 1 is chosen, several can share a place. `total` of at most `best`."""

    place: int | None
    of: int
    total: float | None
    best: float
    scores: Mapping[str, float]
    why: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "scores": dict(self.scores)}


def standing(target: Target, endpoints: Iterable[Endpoint], weights: Mapping[str, float] = PICKER_WEIGHTS) -> Standing:
    """How the target stands in its pool by the picker's default weights; without what depends on a request (prefix, adapter)."""
    pool = [one for one in endpoints if one.target.pool_key == target.pool_key]
    told = {one.target.key: one.gauges for one in pool if one.state in REPORTING}
    scores = picking.scores(told)
    counted = {scorer: weight for scorer, weight in weights.items() if scorer in _GAUGES}
    best = sum(counted.values())
    mine = next((one for one in pool if one.target.key == target.key), None)
    if mine is None or target.key not in told:
        state = "unknown" if mine is None else mine.state.value
        why = (f"{state}: no current values. Its saturation counts as full, its scorers keep what they read last",)
        return Standing(place=None, of=len(pool), total=None, best=best, scores={}, why=why)
    totals = {key: picking.total(_as_it_reads(by_scorer, counted), counted) for key, by_scorer in scores.items()}
    total = totals[target.key]
    return Standing(
        place=1 + sum(other > total + 1e-9 for other in totals.values()), of=len(pool), total=total, best=best,
        scores=scores[target.key],
        why=tuple(_why(scorer, told[target.key], [*told.values()], scores[target.key]) for scorer in counted),
    )  # fmt: skip


def _as_it_reads(by_scorer: Mapping[str, float], counted: Mapping[str, float]) -> dict[str, float]:
    """A picker takes what it has not read for 0, which scores best."""
    return {scorer: by_scorer.get(scorer, 1.0) for scorer in counted}


def _why(scorer: str, gauges: Mapping[str, float], pool: Sequence[Mapping[str, float]], scores: Mapping[str, float]) -> str:
    gauge = _GAUGES[scorer]
    if scorer not in scores:
        return f"{scorer} 1: {gauge} is not told, the picker takes 0"
    others = [one[gauge] for one in pool if gauge in one]
    return f"{scorer} {scores[scorer]:.3g}: {gauge} {gauges[gauge]:.4g}, in the pool {min(others):.4g} to {max(others):.4g}"


def as_text(found: Standing) -> list[tuple[str, str]]:
    """Lines for people, each with the name of its style."""
    if found.place is None or found.total is None:
        head = "picker: passed over, or chosen blindly"
    else:
        verdict = "would be chosen" if found.place == 1 else "would be passed over"
        head = (
            f"picker: {verdict}, place {found.place} of {found.of}, {found.total:.4g} of {found.best:.4g} by its default weights"
        )
    return [(head, "bold"), *((f"  {line}", "") for line in found.why)]
