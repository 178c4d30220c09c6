"""Gauges upward: exact additive parts, so that the order and grouping of what is combined never matter. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from collector.fixed import from_fixed, to_fixed
from collector.signals import Fold, row_of


class Part(NamedTuple):
    """What one or many values of a gauge add up to; values in fixed point, weights in whole units."""

    n: int
    total: int
    weighted: int
    weight: int
    n_weighted: int
    top: int

    @property
    def mean(self) -> float:
        """Weighted by capacity where every part has one, else plain."""
        if self.weight and self.n_weighted == self.n:
            return from_fixed(self.weighted, self.weight)
        return from_fixed(self.total, self.n)


def part_of(value: float, weight: float | None = None) -> Part:
    """One value; `weight` is the capacity behind it where it is known."""
    fixed = to_fixed(value)
    units = round(weight) if weight else 0
    return Part(1, fixed, fixed * units, units, 1 if units else 0, fixed)


Parts = Mapping[str, Part]


def combine(many: Iterable[Parts]) -> dict[str, Part]:
    """Sum of parts by signal."""
    by_name: dict[str, list[Part]] = {}
    for parts in many:
        for name, part in parts.items():
            by_name.setdefault(name, []).append(part)
    return {name: some[0] if len(some) == 1 else _sum(some) for name, some in by_name.items()}


def _sum(parts: Iterable[Part]) -> Part:
    *summed, tops = zip(*parts, strict=True)
    return Part._make([*map(sum, summed), max(tops)])


def parts_of(gauges: Mapping[str, float]) -> dict[str, Part]:
    """Parts of one target's gauges, as its engine printed them."""
    capacity = gauges.get("kv_cache_capacity_tokens")
    return {name: part_of(value, capacity if row_of(name).fold is Fold.WEIGHTED_MEAN else None)
            for name, value in gauges.items()}  # fmt: skip


def finish(parts: Parts) -> dict[str, float]:
    """Gauge values of a level."""
    values: dict[str, float] = {}
    for name, part in parts.items():
        match row_of(name).fold:
            case Fold.SUM:
                values[name] = from_fixed(part.total)
            case Fold.MAX:
                values[name] = from_fixed(part.top)
            case Fold.WEIGHTED_MEAN | Fold.MEAN:
                values[name] = part.mean
    return values


def without_means(parts: Parts) -> dict[str, Part]:
    """Parts that still count in sums and maxima, but in no mean."""
    return {name: part for name, part in parts.items() if row_of(name).fold not in (Fold.WEIGHTED_MEAN, Fold.MEAN)}
