"""Where each signal of one page comes from: raw line > alias > conversion > value > what it rolled into, or why it is absent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from collector.engines.spec import HISTOGRAM_PARTS, Engine, Lookup
from collector.model import ALL_CHILDREN, Reading, Target, Values
from collector.naming import prometheus_name
from collector.read import Body, make_reading, parse, recognise
from collector.signals import READ_SIGNALS, SIGNALS, Fold, Kind, Lane, Level
from collector.snapshot import Row, Snapshot

_LINES_AT_MOST = 4
_COMES_WITH = {"kv_cache_usage_max_ratio": "kv_cache_usage_ratio"}
_BARE = {"process_start_timestamp_seconds": "process_start_time_seconds"}
"""Signals from families that are no engine's own."""
_CONVERSIONS = {
    Fold.SUM: "sum over data-parallel ranks; tensor and pipeline copies count once",
    Fold.WEIGHTED_MEAN: "mean over data-parallel ranks, weighted by capacity where every rank tells it",
    Fold.MAX: "highest of the data-parallel ranks",
    Fold.UNION: "names in the labels of the newest series",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One signal. `lines` as the engine printed them (some of many); `published`: metric names with their present values."""

    signal: str
    tried: tuple[str, ...]
    alias: str = ""
    lines: tuple[str, ...] = ()
    more_lines: int = 0
    conversion: str = ""
    value: Any = None
    published: Mapping[str, Any]
    absent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A whole page."""

    engine: str
    model: str
    page_bytes: int
    signals: tuple[Explained, ...]
    oddities: Mapping[str, int]
    unknown_families: int

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def explain(target: Target, body: Body, reading: Reading, snapshot: Snapshot) -> Explanation:
    """Every signal that an engine could supply, on this page. ReadError when it is no page of an engine."""
    page = parse(body)
    engine, lookup = recognise(page, declared=target.engine)
    values = reading.rows[target]
    text = body.content.decode("utf-8", errors="replace")
    rows = _rows(target, snapshot)
    signals = tuple(_explain(name, engine, lookup, values, text, rows) for name in SIGNALS if name in READ_SIGNALS)
    return Explanation(engine=engine.name, model=values.model, page_bytes=len(body.content), signals=signals,
                       oddities={str(kind): count for kind, count in reading.oddities.items()},
                       unknown_families=reading.unknown_families)  # fmt: skip


def understand_whole(target: Target, body: Body, at: Any) -> Reading:
    """The full reading of a page. ReadError when it is no page of an engine."""
    page = parse(body)
    engine, lookup = recognise(page, declared=target.engine)
    return make_reading(target, Lane.FULL, page, engine, lookup, at=at)


def sources(engine: Engine, signal: str) -> tuple[str, ...]:
    """Families without prefix that can feed a signal, in the order they are tried."""
    name = _COMES_WITH.get(signal, signal)
    aliases = (alias for rule in engine.of(name) for alias in rule.aliases)
    bare = (_BARE[name],) if name in _BARE else ()
    return tuple(dict.fromkeys((*aliases, *engine.special.get(name, ()), *bare)))


def _present(engine: Engine, signal: str, lookup: Lookup) -> list[str]:
    """The families that are taken: of each list of names the first that is on the page."""
    name = _COMES_WITH.get(signal, signal)
    choices = [(*rule.aliases, rule.zero_beside) for rule in engine.of(name) if rule.unless not in lookup.samples]
    taken = [next((one for one in choice if {one, f"{one}_bucket"} & lookup.samples.keys()), "") for choice in choices]
    taken += [_BARE[name]] if _BARE.get(name) in lookup.samples else []
    found = [*taken, *(one for one in engine.special.get(name, ()) if one in lookup.samples or one in lookup.declared)]
    return list(dict.fromkeys(one for one in found if one))


def _explain(
    name: str, engine: Engine, lookup: Lookup, values: Values, text: str, rows: Mapping[Level, Row]
) -> Explained:  # fmt: skip
    tried = sources(engine, name)
    value = _value(name, values)
    published = _published(name, rows)
    present = _present(engine, name, lookup)
    if value is None:
        return Explained(signal=name, tried=tried, alias=", ".join(present), published=published,
                         absent=_why(engine, tried, present))  # fmt: skip
    lines = _lines(engine, present, text)
    return Explained(signal=name, tried=tried, alias=", ".join(present), lines=tuple(lines[:_LINES_AT_MOST]),
                     more_lines=max(len(lines) - _LINES_AT_MOST, 0), conversion=_conversion(name), value=value,
                     published=published)  # fmt: skip


def _value(name: str, values: Values) -> Any:
    row = SIGNALS[name]
    if row.kind is Kind.HISTOGRAM:
        found = [series for (signal, _, _), series in values.histograms.items() if signal == name]
        return sum(series.count for series in found) if found else None
    if row.kind is Kind.COUNTER:
        by_child: dict[str, int] = {}
        for (signal, child, _), count in values.counters.items():
            if signal == name:
                by_child[child] = by_child.get(child, 0) + count
        if not row.children:
            return by_child.get("")
        return {("all" if child == ALL_CHILDREN else child): count for child, count in sorted(by_child.items())} or None
    if row.fold is Fold.UNION:
        names = getattr(values.adapters, name.removeprefix("adapters_"), None)
        if names is None and name == "adapters_running" and values.adapters is not None:
            return values.adapters.used  # their number, where the engine does not name them
        return None if names is None else sorted(names)
    if row.labels:
        return {key.partition("/")[2]: value for key, value in values.gauges.items() if key.startswith(f"{name}/")} or None
    return values.gauges.get(name)


def _conversion(name: str) -> str:
    row = SIGNALS[name]
    if row.kind is Kind.HISTOGRAM:
        return f"buckets of the engine's own ladder, counted on and published on the ladder of {len(row.ladder)} bounds"
    if row.kind is Kind.COUNTER:
        return "whole numbers; what is published is the increase since the exporter began to watch"
    return _CONVERSIONS.get(row.fold, row.fold.value)


def _why(engine: Engine, tried: Iterable[str], present: list[str]) -> str:
    if not tried:
        return f"{engine.name} has no source for it"
    if present:
        return f"{', '.join(present)} is on the page, but does not tell it"
    return f"none of these is on the page: {', '.join(engine.prefixes[0] + name for name in tried)}"


def _lines(engine: Engine, names: Iterable[str], text: str) -> list[str]:
    wanted = "|".join(re.escape(name) for name in names)
    prefixes = "|".join(re.escape(prefix) for prefix in (*engine.prefixes, ""))
    parts = "|".join(HISTOGRAM_PARTS)
    found = re.findall(rf"^(?:{prefixes})(?:{wanted})(?:{parts})?[{{ ].*$", text, re.MULTILINE)
    if not found:  # a family without series is a statement too
        found = re.findall(rf"^# TYPE (?:{prefixes})(?:{wanted}) .*$", text, re.MULTILINE)
    return sorted((line.rstrip("\r") for line in found), key=lambda line: "_bucket{" in line)  # sums and counts say most


def _rows(target: Target, snapshot: Snapshot) -> dict[Level, Row]:
    where = (target.namespace, target.pool, target.pod)
    rows = {Level.CLUSTER: snapshot.cluster}
    for row in (*snapshot.pods, *snapshot.pools):
        if row.labels[1:] == (where if row.level is Level.POD else where[:2]):
            rows[row.level] = row
    return rows


def _published(name: str, rows: Mapping[Level, Row]) -> dict[str, Any]:
    signal = SIGNALS[name]
    found: dict[str, Any] = {}
    for level in signal.levels:
        if (row := rows.get(level)) is None:
            continue
        metric = prometheus_name(signal, level)
        if signal.kind is Kind.HISTOGRAM:
            histogram = row.histograms.get(name)
            found[metric] = None if histogram is None else histogram.cumulative[-1]
            continue
        source: Mapping[tuple[str, str], float] = row.counters if signal.kind is Kind.COUNTER else row.gauges
        children = {child: source.get((name, child)) for child in signal.children or ("",)}
        found[metric] = children if signal.children else children[""]
    return found


def as_text(explanation: Explanation) -> list[tuple[str, str]]:
    """Lines for people, each with the name of its style."""
    lines: list[tuple[str, str]] = []
    for one in explanation.signals:
        head = f"{one.signal} " + ("absent" if one.absent else f"= {_shown(one.value)}")
        lines.append((head, "dim" if one.absent else "bold"))
        if one.absent:
            lines.append((f"  why          {one.absent}", "dim"))
        else:
            lines += [(f"  line         {line}", "") for line in one.lines]
            if one.more_lines:
                lines.append((f"               and {one.more_lines} more lines", "dim"))
            lines.append((f"  alias        {one.alias} (tried in order: {', '.join(one.tried)})", ""))
            lines.append((f"  conversion   {one.conversion}", ""))
        rolled = ", ".join(f"{name} {_shown(value)}" for name, value in one.published.items() if value is not None)
        if rolled:
            lines.append((f"  rolled into  {rolled}", ""))
    if explanation.oddities:
        lines.append((f"left out: {', '.join(f'{count} {kind}' for kind, count in explanation.oddities.items())}", ""))
    if explanation.unknown_families:
        lines.append((f"{explanation.unknown_families} families of the engine are not known to this version", ""))
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items() if part is not None) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
