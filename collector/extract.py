"""Page to values: one engine's families in the vocabulary of the table, folded over the ranks on the page. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from collector.engines.spec import HARMLESS_EXCESS, HISTOGRAM_PARTS, Engine, Lookup, Rule
from collector.ladders import RawHistogram, from_cumulative
from collector.model import SeriesKey, Values
from collector.page import Labels, Sample
from collector.reasons import Oddity
from collector.signals import READ_SIGNALS, SIGNALS, Fold, Kind, Role

_LOAD = ("requests_running", "requests_waiting", "kv_cache_usage_ratio")
"""What every rank tells at each look."""


def extract(engine: Engine, page: Lookup, covers: frozenset[str] = READ_SIGNALS) -> Values:
    """Values of the covered signals; what the page does not say is absent."""
    gauges: dict[str, float] = {name: value for name, value in engine.computed(page).items() if name in covers}
    counters: dict[SeriesKey, int] = {}
    histograms: dict[SeriesKey, RawHistogram] = {}
    short = _short_of_ranks(engine, page)
    for rule in engine.rules:
        if rule.signal not in covers or rule.unless in page.samples:
            continue
        match SIGNALS[rule.signal].kind:
            case Kind.COUNTER:
                counters |= _count(engine, page, rule)
            case Kind.HISTOGRAM:
                histograms |= _read_histogram(engine, page, rule)
            case _:
                gauges |= _whole_gauge(engine, page, rule, short)
    if "kv_cache_capacity_tokens" in covers and (sizes := _capacity(engine, page)):
        gauges["kv_cache_capacity_tokens"] = math.fsum(sizes.values())
    adapters = engine.adapters(page)
    if adapters is not None and adapters.max is not None:
        gauges["adapters_max"] = float(adapters.max)
    role = _role(engine, page)
    if engine.role_label and not role:
        # Such an engine prints its hand-over queues always, as zeros where it hands over to nobody.
        gauges = {name: value for name, value in gauges.items() if not name.startswith("disaggregation_queue_requests")}
    started_at = _started_at(page)
    if started_at is not None and "process_start_timestamp_seconds" in covers:
        gauges["process_start_timestamp_seconds"] = started_at
    return Values(
        gauges=MappingProxyType(gauges),
        counters=MappingProxyType(counters),
        histograms=MappingProxyType(histograms),
        adapters=adapters,
        progress=_progress(engine, page),
        started_at=started_at,
        model=_label(engine, page, "model_name"),
        role=role,
        damaged=short.union(rule.signal for rule in engine.rules if _lost(page, rule)),
    )


def _lost(page: Lookup, rule: Rule) -> bool:
    return any(name in page.damaged for alias in rule.aliases for name in (alias, *(alias + part for part in HISTOGRAM_PARTS)))


def _short_of_ranks(engine: Engine, page: Lookup) -> frozenset[str]:
    """Signals of the load without a rank that another of them shows on the same page."""
    ranks: dict[str, set[str]] = {}
    for rule in engine.rules if engine.rank_label else ():
        if rule.signal in _LOAD:
            told = {row.labels.get(engine.rank_label, "") for row in page.first(rule.aliases)}
            if told and "" not in told:
                ranks[rule.signal] = told
    every = set().union(*ranks.values())
    return frozenset(signal for signal, told in ranks.items() if told != every)


def _source(engine: Engine, labels: Labels, *dropped: str, keep_copies: bool = False) -> str:
    """Which of the engine's own series a row is: its labels without those of copies and those in `dropped`."""
    left_out = {*dropped} if keep_copies else engine.copy_labels.union(dropped)
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()) if name not in left_out)


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


def _whole_gauge(engine: Engine, page: Lookup, rule: Rule, short: frozenset[str]) -> dict[str, float]:
    """The gauge of a rule, unless a row or a rank of it is lost: the rest would be taken for the whole."""
    folded = {} if _lost(page, rule) else _fold_gauge(engine, page, rule)
    return {} if rule.signal in short else folded


def _fold_gauge(engine: Engine, page: Lookup, rule: Rule) -> dict[str, float]:
    rows = _without_parts(engine, page.first(rule.aliases))
    if rule.signal == "kv_cache_usage_ratio":
        return _fold_usage(engine, page, rows)
    if negative := sum(row.value < 0 for row in rows):
        page.oddities[Oddity.NEGATIVE_COUNT] += negative
        return {}
    by_child: dict[str, list[Sample]] = {}
    for row in rows:
        if (child := _child(rule, row.labels)) is not None:
            by_child.setdefault(f"{rule.signal}/{child}" if SIGNALS[rule.signal].labels else rule.signal, []).append(row)
    mean = SIGNALS[rule.signal].fold is Fold.MEAN
    folded: dict[str, float] = {}
    for key, some in by_child.items():
        values = _by_source(engine, some).values()
        folded[key] = math.fsum(values) / (len(values) if mean else 1) * rule.scale
    return folded


def _child(rule: Rule, labels: Labels) -> str | None:
    """The child a row belongs to; None when it is not to be counted."""
    if not rule.child_label:
        return rule.child
    return rule.children.get(labels.get(rule.child_label, ""), rule.other_child) or None


def _fold_usage(engine: Engine, page: Lookup, rows: Sequence[Sample]) -> dict[str, float]:
    by_rank: dict[str, float] = {}
    for row in rows:
        if (ratio := _as_ratio(row.value, page.oddities)) is None:
            return {}
        rank = row.labels.get(engine.rank_label, "")
        by_rank[rank] = max(by_rank.get(rank, 0.0), ratio)
    if not by_rank:
        return {}
    sizes = _capacity(engine, page)
    weights = [sizes.get(rank, sizes.get("") if len(by_rank) == 1 else None) for rank in by_rank]
    known = [weight for weight in weights if weight]
    if len(known) == len(by_rank):
        mean = math.fsum(r * w for r, w in zip(by_rank.values(), known, strict=True)) / math.fsum(known)
    else:
        mean = math.fsum(by_rank.values()) / len(by_rank)
    return {"kv_cache_usage_ratio": mean, "kv_cache_usage_max_ratio": max(by_rank.values())}


def _capacity(engine: Engine, page: Lookup) -> Mapping[str, float]:
    """KV-cache tokens by rank; none where a rank claims to have no room."""
    sizes = engine.capacity(page)
    return sizes if all(size > 0 for size in sizes.values()) else {}


def _as_ratio(value: float, oddities: Counter[Oddity]) -> float | None:
    if 0.0 <= value <= 1.0:
        return value
    oddities[Oddity.OUT_OF_RANGE] += 1
    if value > HARMLESS_EXCESS:
        return None
    return min(max(value, 0.0), 1.0)


def _count(engine: Engine, page: Lookup, rule: Rule) -> dict[SeriesKey, int]:
    rows = page.first(rule.aliases)
    factor = rule.scale if rule.factor is None else rule.factor(page)
    if factor is None:
        return {}
    chosen = [row for row in rows if _chosen(rule, row.labels)]
    if rule.zero_beside in page.samples and not chosen and _says_nothing(page, rule, rows):
        return {(rule.signal, rule.child, ""): 0}
    counts: dict[SeriesKey, int] = {}
    for row in _without_parts(engine, chosen):
        if row.value < 0:
            page.oddities[Oddity.NEGATIVE_COUNT] += 1
            continue
        if (child := _child(rule, row.labels)) is not None:
            source = _source(engine, row.labels, keep_copies=rule.parts)
            key = (rule.signal, child, f"{rule.aliases[0]}|{source}")
            counts[key] = max(counts.get(key, 0), round(row.value * factor))
    return counts


def _chosen(rule: Rule, labels: Labels) -> bool:
    return all(labels.get(name) in values for name, values in rule.only.items())


def _says_nothing(page: Lookup, rule: Rule, rows: Sequence[Sample]) -> bool:
    """True when a counter is missing because nothing was counted, not because its rows were lost."""
    present = [alias for alias in rule.aliases if alias in page.samples]
    return not present or (bool(rows) and not page.damaged & set(present))


def _read_histogram(engine: Engine, page: Lookup, rule: Rule) -> dict[SeriesKey, RawHistogram]:
    alias = next((alias for alias in rule.aliases if f"{alias}_bucket" in page.samples), None)
    if alias is None:
        return {}
    sums = {(_source(engine, row.labels), _copy(engine, row.labels)): row.value for row in page.samples.get(f"{alias}_sum", ())}
    histograms: dict[SeriesKey, RawHistogram] = {}
    for source, by_copy in _buckets(engine, page, f"{alias}_bucket", rule).items():
        copy = min(by_copy)
        total = sums.get((source, copy))
        histogram = None if total is None else from_cumulative(by_copy[copy], total * rule.scale)
        if histogram is None:
            page.oddities[Oddity.BROKEN_HISTOGRAM] += 1
        else:
            histograms[(rule.signal, "", f"{alias}|{source}")] = histogram
    return histograms


def _buckets(engine: Engine, page: Lookup, name: str, rule: Rule) -> dict[str, dict[str, dict[float, float]]]:
    """Cumulative counts by bound, of each copy of each source.

    A family with a bucket lost is left out whole: short of a bound it would look like another ladder, and count its past again.
    """
    rows = [row for row in _without_parts(engine, page.samples[name]) if _chosen(rule, row.labels)]
    bounds = [_bound(row.labels.get("le", "")) for row in rows]
    if name in page.damaged or any(map(math.isnan, bounds)):
        page.oddities[Oddity.BROKEN_HISTOGRAM] += 1
        return {}
    buckets: dict[str, dict[str, dict[float, float]]] = {}
    for row, bound in zip(rows, bounds, strict=True):
        copies = buckets.setdefault(_source(engine, row.labels, "le"), {})
        copies.setdefault(_copy(engine, row.labels), {}).setdefault(_scaled(bound, rule.scale), row.value)
    return buckets


def _scaled(bound: float, scale: float) -> float:
    # Twelve digits: 250 ms times 0.001 is to be 0.25, as the published ladder spells it.
    return bound if scale == 1 or math.isinf(bound) else float(f"{bound * scale:.12g}")


def _copy(engine: Engine, labels: Labels) -> str:
    return ",".join(labels.get(name, "") for name in sorted(engine.copy_labels))


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _progress(engine: Engine, page: Lookup) -> float | None:
    """Sum of the counters that move with every step; None where the engine or version has none, or a part was lost."""
    if page.damaged & set(engine.progress):
        return None
    rows = [row for name in engine.progress for row in page.samples.get(name, ())]
    return math.fsum(row.value for row in rows) if rows else None


def _started_at(page: Lookup) -> float | None:
    rows = page.samples.get("process_start_time_seconds", ())
    return rows[0].value if rows else None


def _label(engine: Engine, page: Lookup, name: str) -> str:
    rows = next((rows for rule in engine.of("requests_running") if (rows := page.first(rule.aliases))), ())
    return rows[0].labels.get(name, "") if rows else ""


def _role(engine: Engine, page: Lookup) -> str:
    """The role the page itself tells, where prefill and decode are apart."""
    told = _label(engine, page, engine.role_label) if engine.role_label else ""
    return told if told in (Role.PREFILL, Role.DECODE) else ""
