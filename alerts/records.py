"""Recording rules for boards and for the tier above: counts, rates and buckets to be added further, and what is read often."""

from collections.abc import Iterator

from alerts.model import Group, RecordingRule, recorded
from alerts.parts import known_pods, reporting_pods, weighted
from alerts.promql import braces, bucket_rates_of, fold_of, rate_of, share_of
from alerts.slo import Settings
from collector.naming import LEVEL_LABELS
from collector.signals import WINDOWED, Level

_WINDOW = "5m"
_COUNTED = ("prompt_tokens", "generation_tokens", "preemptions", "rejected_requests")
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_LEVELS = (Level.POOL, Level.CLUSTER)


def load(what: str, level: Level, **matchers: str) -> str:
    """Selector of a series of `load_records`: `pods_known`, `requests_running`, ... , or a ratio by its bare name."""
    operation = "ratio" if what in ("reporting", "saturation", "kv_cache_usage") else "sum"
    return recorded(level, f"llm_{what}", operation) + braces(matchers)


def load_records(level: Level, settings: Settings) -> Iterator[RecordingRule]:
    """How loaded a level is, over all its exporters."""
    chosen = settings.chosen(level)
    known, speaking = load("pods_known", level), load("pods_reporting", level)
    yield RecordingRule(name=known, expression=known_pods(level, **chosen))
    yield RecordingRule(name=speaking, expression=reporting_pods(level, **chosen))
    share = f"{load('pods_reporting', level, **chosen)} / ({load('pods_known', level, **chosen)} > 0)"
    yield RecordingRule(name=load("reporting", level), expression=share)
    for name in ("requests_running", "requests_waiting"):
        yield RecordingRule(name=load(name, level), expression=fold_of("sum", name, level, **chosen))
    for name in ("saturation", "kv_cache_usage"):
        yield RecordingRule(name=load(name, level), expression=weighted(f"{name}_ratio", level, **chosen))


def groups(settings: Settings) -> tuple[Group, ...]:
    """Traffic and latency of pools and clusters, and the clusters' objectives."""
    traffic = tuple(
        Group(
            name=f"llm_{level}_traffic",
            level=level,
            interval_seconds=30,
            rules=(*_rates(level, settings), *_latencies(level, settings)),
        )
        for level in _LEVELS
    )
    return (*traffic, _cluster_objectives(settings))


def _rates(level: Level, settings: Settings) -> Iterator[RecordingRule]:
    chosen, rate = settings.chosen(level), f"rate{_WINDOW}"
    requests = rate_of("requests", level, window=_WINDOW, by=(*LEVEL_LABELS[level], "outcome"), **chosen)
    yield RecordingRule(name=recorded(level, "llm_requests", rate), expression=requests, kept=("outcome",))
    for name in _COUNTED:
        yield RecordingRule(name=recorded(level, f"llm_{name}", rate), expression=rate_of(name, level, window=_WINDOW, **chosen))
    for name in ("error", "abort", "prefix_cache_hit"):
        share = share_of(f"{name}_ratio", level, window=_WINDOW, **chosen)
        yield RecordingRule(name=recorded(level, f"llm_{name}", f"ratio_{rate}"), expression=share)


def _latencies(level: Level, settings: Settings) -> Iterator[RecordingRule]:
    for name in WINDOWED:
        buckets = recorded(level, f"llm_{name}_bucket", f"rate{_WINDOW}")
        rates = bucket_rates_of(name, level, window=_WINDOW, **settings.chosen(level))
        yield RecordingRule(name=buckets, expression=rates, kept=("le",))
        for word, quantile in _QUANTILES.items():
            yield RecordingRule(
                name=recorded(level, f"llm_{name}", f"{word}_rate{_WINDOW}"),
                expression=f"histogram_quantile({quantile:g}, {buckets}{braces(settings.chosen(level))})",
            )


def _cluster_objectives(settings: Settings) -> Group:
    """Good and all events of a cluster's pools added up, those of other rule files with their own objectives included."""
    rules: list[RecordingRule] = []
    for window in dict.fromkeys((_WINDOW, settings.windows[0].long, settings.budget_window)):
        for part in ("good", "total"):
            of_pools = recorded(Level.POOL, f"llm_slo_{part}", f"increase{window}")
            name = recorded(Level.CLUSTER, f"llm_slo_{part}", f"increase{window}")
            rules.append(RecordingRule(name=name, expression=f"sum by (cluster, slo) ({of_pools})", kept=("slo",)))
        good, total = (recorded(Level.CLUSTER, f"llm_slo_{part}", f"increase{window}") for part in ("good", "total"))
        share = recorded(Level.CLUSTER, "llm_slo_error", f"ratio{window}")
        rules.append(RecordingRule(name=share, expression=f"1 - {good} / ({total} > 0)", kept=("slo",)))
    return Group(name="llm_cluster_slo", level=Level.CLUSTER, interval_seconds=30, rules=tuple(rules))
