"""PromQL built from the table of signals: a query that the table does not bear out raises, not draws nothing.

Matchers are keywords; a value may begin with its operator: `pool="=~$pool"`, `state="!=fresh"`, else `=`.
Windows are PromQL durations or Grafana's `$__rate_interval`, `$__interval`, `$__range`.
"""

import json
import re
from collections.abc import Iterable, Mapping

from collector.naming import LEVEL_LABELS, bound_label, find, label_names, metric
from collector.signals import Fold, Kind, Level, Signal

RATE_INTERVAL = "$__rate_interval"

SCRAPE_LABELS = ("job", "instance", "shard")
"""Labels that the scrape may add to every series: whose page it was, and which part of a cluster that exporter reads."""

_WINDOW = re.compile(r"(\d+(ms|[smhdwy]))+|\$__(rate_interval|interval|range)")

# Escapes and sets of characters, in which all else means nothing; then what Python knows and RE2, which Prometheus has, does not.
_PLAIN = re.compile(r"\\[^1-9Z]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_NOT_RE2 = re.compile(r"\\[1-9Z]|\(\?(?:[=!>(#]|<[=!]|P=|[a-zL]*[axuL])|(?:[*+?]|\{\d+(?:,\d*)?\})\+")


def check_pattern(text: str) -> None:
    """ValueError for what is no regular expression of Prometheus."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    if found := _NOT_RE2.search(_PLAIN.sub("x", text)):
        raise ValueError(f"{text!r} is no regular expression of Prometheus: it has no {found[0]!r}")


def selector(name: str, level: Level, **matchers: str) -> str:
    """Instant selector of a gauge or info family. TypeError for what only grows."""
    row = find(name, level)
    if row.kind not in (Kind.GAUGE, Kind.INFO):
        raise _wrong_kind("selector", "a gauge or info", row, level)
    return metric(name, level) + _braces(row, level, matchers)


def braces(matchers: Mapping[str, str]) -> str:
    """Matchers as PromQL; "" for none. For series that are not of the table: those take no checks."""
    pairs = ((label, *_matcher(text)) for label, text in matchers.items())
    parts = [f"{label}{operator}{json.dumps(value, ensure_ascii=False)}" for label, operator, value in pairs]
    return f"{{{', '.join(parts)}}}" if parts else ""


def on(level: Level) -> str:
    """Vector matching on the labels of a level."""
    return f"on ({', '.join(_default_labels(level))})"


def fold_of(how: str, name: str, level: Level, *, by: Iterable[str] | None = None, over: str = "", **matchers: str) -> str:
    """A gauge folded by `sum`, `max`, `min` or `avg` to the labels `by` (the level's), first over time."""
    row = find(name, level)
    if row.kind is not Kind.GAUGE:
        raise _wrong_kind("fold_of", "a gauge", row, level)
    if how == "sum" and (over or not _summable(row)):
        raise TypeError(f"{metric(name, level)} is a {row.unit} ({row.fold}): its values do not add up")
    series = selector(name, level, **matchers)
    return _aggregate(how, row, level, by, f"{how}_over_time({series}[{_window(over)}])" if over else series)


def rate_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """Events per second of a counter, or observations per second of a histogram."""
    return _grown("rate", name, level, window, by, matchers)


def increase_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """Events of a counter, or observations of a histogram, over the window."""
    return _grown("increase", name, level, window, by, matchers)


def increases_of(*parts: tuple[str, Mapping[str, str]], level: Level, window: str, by: Iterable[str] | None = None) -> str:
    """Events of several counters together, each with its matchers; one that is absent adds nothing."""
    rows = [find(name, level) for name, _ in parts]
    if len({row.labels for row in rows}) < len(rows):
        # `or` would drop what stands under the same labels on its left.
        raise TypeError(f"increases_of wants counters whose own labels differ: {', '.join(row.name for row in rows)}")
    grown = [_growing("increase", name, level, window, matchers) for name, matchers in parts]
    return _aggregate("sum", rows[0], level, by, " or ".join(grown))


def within_of(name: str, level: Level, bound: float, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """Observations at or below a bound over the window. ValueError for a bound off the published ladder."""
    row = _histogram("within_of", name, level)
    if bound not in row.ladder:
        bounds = ", ".join(map(str, row.ladder))
        raise ValueError(f"{bound} is no bucket bound of {metric(name, level)}; it has {bounds}")
    series = f"{metric(name, level)}_bucket{_braces(row, level, {**matchers, 'le': _le(bound)})}"
    return _aggregate("sum", row, level, by, f"increase({series}[{_window(window)}])")


def bucket_rates_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """Observations per second at or below each bound of a histogram, by `le` and the labels `by` (the level's)."""
    return _buckets("rate", name, level, window, by, matchers)


def buckets_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """Observations at or below each bound of a histogram over the window, by `le` and the labels `by` (the level's)."""
    return _buckets("increase", name, level, window, by, matchers)


def quantile_of(
    quantile: float | str, name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str
) -> str:
    """Quantile of a histogram over the window, a number or a variable of Grafana; buckets are added first, as quantiles
    cannot be combined."""
    _histogram("quantile_of", name, level)
    buckets = bucket_rates_of(name, level, window=window, by=by, **matchers)
    return f"histogram_quantile({quantile if isinstance(quantile, str) else format(quantile, 'g')}, {buckets})"


def slope_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """How fast an additive gauge grows over the window, per second."""
    row = find(name, level)
    if row.kind is not Kind.GAUGE or not _summable(row):
        raise _wrong_kind("slope_of", "a gauge that adds up", row, level)
    series = selector(name, level, **matchers)
    return _aggregate("sum", row, level, by, f"deriv({series}[{_window(window)}])")


def share_of(name: str, level: Level, *, window: str, by: Iterable[str] | None = None, **matchers: str) -> str:
    """A ratio of the table recomputed from its counters; absent, not zero or NaN, without events."""
    share = find(name, level).share
    if share is None:
        raise TypeError(f"{metric(name, level)} is no share of counters")
    kept = _default_labels(level) if by is None else tuple(by)
    child = {find(share.numerator, level).labels[0]: share.child} if share.child else {}
    part = rate_of(share.numerator, level, window=window, by=kept, **matchers, **child)
    whole = rate_of(share.denominator, level, window=window, by=kept, **matchers)
    return f"{part} / ({whole} > 0)"


def _grown(function: str, name: str, level: Level, window: str, by: Iterable[str] | None, matchers: Mapping[str, str]) -> str:
    return _aggregate("sum", find(name, level), level, by, _growing(function, name, level, window, matchers))


def _growing(function: str, name: str, level: Level, window: str, matchers: Mapping[str, str]) -> str:
    row = find(name, level)
    if row.kind not in (Kind.COUNTER, Kind.HISTOGRAM):
        raise _wrong_kind(f"{function}_of", "a counter or histogram", row, level)
    part = "_count" if row.kind is Kind.HISTOGRAM else ""
    return f"{function}({metric(name, level)}{part}{_braces(row, level, matchers)}[{_window(window)}])"


def _buckets(function: str, name: str, level: Level, window: str, by: Iterable[str] | None, matchers: Mapping[str, str]) -> str:
    row = _histogram("the buckets", name, level)
    series = f"{metric(name, level)}_bucket{_braces(row, level, matchers)}"
    kept = ("le", *(_default_labels(level) if by is None else by))
    return _aggregate("sum", row, level, kept, f"{function}({series}[{_window(window)}])")


def _aggregate(how: str, row: Signal, level: Level, by: Iterable[str] | None, series: str) -> str:
    kept = _default_labels(level) if by is None else tuple(by)
    for label in kept:
        if label not in SCRAPE_LABELS:
            _known(label, row, level)
    return f"{how} by ({', '.join(kept)}) ({series})" if kept else f"{how}({series})"


def _default_labels(level: Level) -> tuple[str, ...]:
    """The level's own; of the exporter, which has none, those that tell one from another."""
    return LEVEL_LABELS[level] or SCRAPE_LABELS[:2]


def _braces(row: Signal, level: Level, matchers: Mapping[str, str]) -> str:
    for label, text in matchers.items():
        _known(label, row, level)
        operator, value = _matcher(text)
        if operator in ("=", "!=") and label in row.labels and row.children and value not in row.children:
            raise ValueError(f"{label}={value!r}: {row.name} has {', '.join(row.children)}")
    return braces(matchers)


def _matcher(text: str) -> tuple[str, str]:
    operator = next((operator for operator in ("=~", "!~", "!=", "=") if text.startswith(operator)), "")
    return operator or "=", text.removeprefix(operator)


def _known(label: str, row: Signal, level: Level) -> None:
    labels = label_names(row, level) + (("le",) if row.kind is Kind.HISTOGRAM else ())
    labels += SCRAPE_LABELS if level is Level.EXPORTER else ()
    if label not in labels:
        raise KeyError(f"{row.name} has no label {label!r} at level {level}; it has {', '.join(labels)}")


def _le(bound: float) -> str:
    """Matcher of a bound. Whole ones have two spellings: `1.0` if scraped, `1` if pushed as OTLP."""
    spelled, plain = bound_label(bound), f"{bound:f}".rstrip("0").rstrip(".")
    if spelled == plain:
        return spelled
    return f"=~{plain}|" + spelled.replace(".", "[.]").replace("+", "[+]")


def _histogram(function: str, name: str, level: Level) -> Signal:
    row = find(name, level)
    if row.kind is not Kind.HISTOGRAM:
        raise _wrong_kind(function, "a histogram", row, level)
    return row


def _summable(row: Signal) -> bool:
    return row.additive or (row.fold is Fold.DERIVED and row.unit in ("pods", "targets", ""))


def _window(window: str) -> str:
    if not _WINDOW.fullmatch(window):
        raise ValueError(f"{window!r} is no PromQL duration")
    return window


def _wrong_kind(function: str, wanted: str, row: Signal, level: Level) -> TypeError:
    return TypeError(f"{function} wants {wanted}; {metric(row.name, level)} is a {row.kind}")
