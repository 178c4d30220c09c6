"""Signal and level to the names and labels that back ends see."""

import difflib

from collector.signals import EXPORTER, INFO, SIGNALS, Kind, Level, Signal

LEVEL_LABELS: dict[Level, tuple[str, ...]] = {
    Level.CLUSTER: ("cluster",),
    Level.POOL: ("cluster", "namespace", "pool"),
    Level.POD: ("cluster", "namespace", "pool", "pod"),
    Level.EXPORTER: (),
}
"""Labels of every series of a level, in order; all else is in info metrics."""


def find(name: str, level: Level) -> Signal:
    """The row of a signal at a level. KeyError names the nearest signal, or the levels it has."""
    if name == "info" and level in INFO:
        return INFO[level]
    table = EXPORTER if level is Level.EXPORTER else SIGNALS
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        raise KeyError(f"no signal {name!r} at level {level}" + (f"; did you mean {near[0]!r}?" if near else ""))
    row = table[name]
    if level not in row.levels:
        raise KeyError(f"signal {name!r} has no level {level}; it has {', '.join(row.levels)}")
    return row


def prometheus_name(signal: Signal, level: Level) -> str:
    """Family name: `llm_<level>_<signal>`, counters with `_total`."""
    return f"llm_{level}_{signal.name}" + ("_total" if signal.kind is Kind.COUNTER else "")


def metric(name: str, level: Level) -> str:
    """Prometheus name of a signal of the table at a level; KeyError when there is none."""
    return prometheus_name(find(name, level), level)


def label_names(signal: Signal, level: Level) -> tuple[str, ...]:
    """Label names of a family: the level's, then the signal's own."""
    return (*LEVEL_LABELS[level], *signal.labels)


def families() -> list[tuple[Signal, Level]]:
    """Every family that can be published, in the order of the table: pod, pool, cluster, then the exporter's own."""
    rows = [(row, level) for level in (Level.POD, Level.POOL, Level.CLUSTER)
            for row in (INFO[level], *SIGNALS.values()) if level in row.levels]  # fmt: skip
    return rows + [(row, Level.EXPORTER) for row in EXPORTER.values()]


def bound_label(bound: float) -> str:
    """A bucket bound as the `le` label spells it: `0.5`, `1.0`, `1.1e+06`, `+Inf`, so that Prometheus 2 and 3 store the same."""
    if bound == float("inf"):
        return "+Inf"
    text = repr(float(bound))
    whole, _, fraction = text.partition(".")
    if "e" in text or len(whole) <= 6:
        return text
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
    return f"{mantissa}e+{len(whole) - 1:02d}"


CLOUDWATCH_NAMESPACE = "LLMFleet"
"""Namespace of our metrics in CloudWatch unless configured."""

CLOUDWATCH_SIGNALS = frozenset({
    "requests_running", "requests_waiting", "kv_cache_usage_ratio", "kv_cache_usage_max_ratio", "prefix_cache_hit_ratio",
    "saturation_ratio", "imbalance_ratio", "reporting_ratio", "pods", "error_ratio", "requests", "rejected_requests",
    "preemptions", "prompt_tokens", "generation_tokens", "time_to_first_token_seconds", "inter_token_latency_seconds",
    "end_to_end_latency_seconds", "queue_time_seconds",
})  # fmt: skip
"""Signals that CloudWatch gets unless configured: each costs money there, by the metric and month."""

EXACT = "_exact"
"""Suffix of the statistic set beside a histogram in CloudWatch: its Sum, SampleCount and Average are exact."""

OVERFLOW = "_overflow"
"""Suffix of the count of a histogram's observations above its highest bound."""

_CLOUDWATCH_UNITS = {"seconds": "Seconds", "bytes": "Bytes", "ratio": "None", "": "None"}


def cloudwatch_name(name: str, level: Level) -> str:
    """CloudWatch name of a signal at a level: Prometheus' without `_total`, since the values are increases of one period."""
    return metric(name, level).removesuffix("_total")


def cloudwatch_unit(name: str, level: Level) -> str:
    """Unit in CloudWatch's closed list; part of a metric's identity there, so it never changes."""
    return _CLOUDWATCH_UNITS.get(find(name, level).unit, "Count")


_OTLP_UNITS = {"": "", "seconds": "s", "bytes": "By", "ratio": "1"}
_SINGULAR = {"batches": "batch", "families": "family", "oddities": "oddity", "series": "series"}


def otlp_name(signal: Signal, level: Level) -> str:
    """OTLP name: Prometheus' own, `_total` included, so that every translation strategy leads to the same series."""
    return prometheus_name(signal, level)


def otlp_unit(signal: Signal) -> str:
    """OTLP unit of a signal, in UCUM: `s`, `By`, `1`, or what is counted, as `{request}`.

    A translation to Prometheus adds a suffix for `s`, `By` and, to gauges, for `1`, unless the name has it; braces add none. So
    `1` is for ratios only: it would make another name of any other gauge.
    """
    unit = signal.unit
    return _OTLP_UNITS[unit] if unit in _OTLP_UNITS else f"{{{_SINGULAR.get(unit, unit.removesuffix('s'))}}}"


EXPORTER_UNITS_BY_NAME: dict[str, str] = {
    otlp_name(row, Level.EXPORTER): otlp_unit(row) for row in EXPORTER.values()
}  # fmt: skip
"""Units of what the exporter says of itself, by the names that it publishes."""


GEN_AI: dict[str, str] = {
    "end_to_end_latency_seconds": "gen_ai.server.request.duration",
    "time_to_first_token_seconds": "gen_ai.server.time_to_first_token",
    "time_per_output_token_seconds": "gen_ai.server.time_per_output_token",
}
"""Histograms that OpenTelemetry's conventions for generative AI have a name for (status: development), by our signal."""
