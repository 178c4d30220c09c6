"""Page to values: one engine's families in the vocabulary of the table, folded over the ranks on the page. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from collector.engines.spec import CounterRule, Engine, Lookup
from collector.ladders import RawHistogram, from_cumulative
from collector.model import SeriesKey, Values
from collector.page import Labels, Sample
from collector.reasons import Oddity
from collector.signals import READ_SIGNALS, SIGNALS, Fold

_HARMLESS_EXCESS = 1.5
"""A ratio up to this is a rounding or accounting fault and means full; beyond it the number means something else."""


def extract(engine: Engine, page: Lookup, covers: frozenset[str] = READ_SIGNALS) -> Values:
    """Values of the covered signals; what the page does not say is absent."""
    gauges: dict[str, float] = {}
    for name, aliases in engine.gauges.items():
        if name in covers:
            gauges |= _fold_gauge(engine, page, name, page.first(aliases))
    if "kv_cache_capacity_tokens" in covers and (sizes := engine.capacity(page)):
        gauges["kv_cache_capacity_tokens"] = math.fsum(sizes.values())
    adapters = engine.adapters(page)
    if adapters is not None and adapters.max is not None:
        gauges["adapters_max"] = float(adapters.max)
    counters: dict[SeriesKey, int] = {}
    for rule in engine.counters:
        if rule.signal in covers and rule.unless not in page.samples:
            counters |= _count(engine, page, rule)
    histograms: dict[SeriesKey, RawHistogram] = {}
    for name, aliases in engine.histograms.items():
        if name in covers:
            histograms |= _read_histogram(engine, page, name, aliases)
    return Values(
        gauges=MappingProxyType(gauges), counters=MappingProxyType(counters), histograms=MappingProxyType(histograms),
        adapters=adapters, progress=_progress(engine, page), started_at=_started_at(page), model=_model(engine, page),
    )  # fmt: skip


def _source(engine: Engine, labels: Labels, *dropped: str) -> str:
    """Which of the engine's own series a row is: its labels without copies and those in `dropped`."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items())
                    if name not in engine.copy_labels and name not in dropped)  # fmt: skip


def _without_parts(engine: Engine, rows: Sequence[Sample]) -> Sequence[Sample]:
    """Rows without those that only split up a total row which stands beside them (label present, value empty)."""
    label = engine.total_row_label
    totals = [row for row in rows if label and row.labels.get(label) == ""]
    return totals or rows


def _by_source(engine: Engine, rows: Iterable[Sample], *dropped: str) -> dict[str, float]:
    """Value by source: copies of one number are one, their maximum."""
    values: dict[str, float] = {}
    for row in rows:
        source = _source(engine, row.labels, *dropped)
        values[source] = max(values.get(source, row.value), row.value)
    return values


def _fold_gauge(engine: Engine, page: Lookup, name: str, rows: Sequence[Sample]) -> dict[str, float]:
    usable = _without_parts(engine, rows)
    if SIGNALS[name].fold is Fold.SUM:
        kept = [row for row in usable if row.value >= 0]
        if len(kept) < len(usable):
            page.oddities[Oddity.NEGATIVE_COUNT] += len(usable) - len(kept)
        return {name: math.fsum(_by_source(engine, kept).values())} if kept else {}
    by_rank: dict[str, float] = {}
    for row in usable:
        if (ratio := _as_ratio(row.value, page.oddities)) is not None:
            rank = row.labels.get(engine.rank_label, "")
            by_rank[rank] = max(by_rank.get(rank, 0.0), ratio)
    if not by_rank:
        return {}
    sizes = engine.capacity(page)
    known = [sizes[rank] for rank in by_rank if sizes.get(rank)]
    if len(known) == len(by_rank):
        mean = math.fsum(r * w for r, w in zip(by_rank.values(), known, strict=True)) / math.fsum(known)
    else:
        mean = math.fsum(by_rank.values()) / len(by_rank)
    return {"kv_cache_usage_ratio": mean, "kv_cache_usage_max_ratio": max(by_rank.values())}


def _as_ratio(value: float, oddities: Counter[Oddity]) -> float | None:
    if 0.0 <= value <= 1.0:
        return value
    oddities[Oddity.OUT_OF_RANGE] += 1
    if value > _HARMLESS_EXCESS:
        return None
    return min(max(value, 0.0), 1.0)


def _count(engine: Engine, page: Lookup, rule: CounterRule) -> dict[SeriesKey, int]:
    rows = page.first(rule.aliases)
    if rule.only:
        label, kept = rule.only
        rows = [row for row in rows if row.labels.get(label) in kept]
    if rule.zero_beside in page.samples and not any(alias in page.samples for alias in rule.aliases):
        return {(rule.signal, rule.child, ""): 0}
    counts: dict[SeriesKey, int] = {}
    for row in _without_parts(engine, rows):
        if row.value < 0:
            page.oddities[Oddity.NEGATIVE_COUNT] += 1
            continue
        child = rule.child
        if rule.child_label:
            child = rule.children.get(row.labels.get(rule.child_label, ""), rule.other_child)
        if child or not rule.child_label:
            key = (rule.signal, child, f"{rule.aliases[0]}|{_source(engine, row.labels)}")
            counts[key] = max(counts.get(key, 0), round(row.value))
    return counts


def _read_histogram(engine: Engine, page: Lookup, name: str, aliases: tuple[str, ...]) -> dict[SeriesKey, RawHistogram]:
    alias = next((alias for alias in aliases if f"{alias}_bucket" in page.samples), None)
    if alias is None:
        return {}
    sums = {(_source(engine, row.labels), _copy(engine, row.labels)): row.value for row in page.samples.get(f"{alias}_sum", ())}
    histograms: dict[SeriesKey, RawHistogram] = {}
    for source, by_copy in _buckets(engine, page, f"{alias}_bucket").items():
        copy = min(by_copy)
        total = sums.get((source, copy))
        histogram = None if total is None else from_cumulative(by_copy[copy], total)
        if histogram is None:
            page.oddities[Oddity.BROKEN_HISTOGRAM] += 1
        else:
            histograms[(name, "", f"{alias}|{source}")] = histogram
    return histograms


def _buckets(engine: Engine, page: Lookup, name: str) -> dict[str, dict[str, dict[float, float]]]:
    """Cumulative counts by bound, of each copy of each source.

    A family with a bucket lost is left out whole: short of a bound it would look like another ladder, and count its past again.
    """
    rows = _without_parts(engine, page.samples[name])
    bounds = [_bound(row.labels.get("le", "")) for row in rows]
    if name in page.damaged or any(map(math.isnan, bounds)):
        page.oddities[Oddity.BROKEN_HISTOGRAM] += 1
        return {}
    buckets: dict[str, dict[str, dict[float, float]]] = {}
    for row, bound in zip(rows, bounds, strict=True):
        copies = buckets.setdefault(_source(engine, row.labels, "le"), {})
        copies.setdefault(_copy(engine, row.labels), {}).setdefault(bound, row.value)
    return buckets


def _copy(engine: Engine, labels: Labels) -> str:
    return ",".join(labels.get(name, "") for name in sorted(engine.copy_labels))


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _progress(engine: Engine, page: Lookup) -> float | None:
    """Sum of the counters that move with every step; None where the engine or version has none."""
    rows = [row for name in engine.progress for row in page.samples.get(name, ())]
    return math.fsum(row.value for row in rows) if rows else None


def _started_at(page: Lookup) -> float | None:
    rows = page.samples.get("process_start_time_seconds", ())
    return rows[0].value if rows else None


def _model(engine: Engine, page: Lookup) -> str:
    rows = page.first(engine.gauges["requests_running"])
    return rows[0].labels.get("model_name", "") if rows else ""
