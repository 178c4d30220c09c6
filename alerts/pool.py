"""Alerts of pools: no room, no answers, wrong answers, uneven load. Budgets are in `alerts.burn`."""

from alerts.durations import show
from alerts.model import SUBJECT, AlertRule, Check, Group, How, Rules, Value
from alerts.promql import fold_of, increase_of, increases_of, on, selector
from alerts.records import load, load_records
from alerts.slo import Settings, Severity
from collector.naming import LEVEL_LABELS
from collector.signals import Level

_POOL = Level.POOL
_WHO = SUBJECT[_POOL]
_WINDOW = "5m"
_WINDOW_SECONDS = 300


def groups(settings: Settings) -> tuple[Group, ...]:
    """Load with the series that it is judged by, requests, and what changes slowly."""
    load_rules: Rules = (*load_records(_POOL, settings), _silent(settings), _reporting(settings), _saturated(settings),
                  _kv_headroom(settings), _imbalanced(settings))  # fmt: skip
    requests = (_errors(settings), _aborts(settings), _rejecting(settings))
    slow = (_prefix_hits(settings), _versions(settings))
    return (
        Group(name="llm_pool_load", level=_POOL, interval_seconds=15, rules=load_rules),
        Group(name="llm_pool_requests", level=_POOL, interval_seconds=15, rules=requests),
        Group(name="llm_pool_slow", level=_POOL, interval_seconds=60, rules=slow),
    )


def _recorded(what: str, settings: Settings) -> str:
    return load(what, _POOL, **settings.chosen(_POOL))


def held(above: str, settings: Settings, series: str) -> str:
    """`series above`, or it was so within 5 minutes and pods fell silent since: the mean sinks when overloaded ones leave it."""
    reporting = _recorded("reporting", settings)
    fewer = f"{reporting} < max_over_time({reporting}[{_WINDOW}])"
    return f"{series} {above}\nor\n(max_over_time({series}[{_WINDOW}]) {above} and {on(_POOL)} {fewer})"


def _silent(settings: Settings) -> AlertRule:
    return AlertRule(
        name="LLMPoolNoReportingPods",
        level=_POOL,
        expression=f"{_recorded('pods_reporting', settings)} == 0\nand {on(_POOL)}\n{_recorded('pods_known', settings)} > 0",
        severity=Severity.PAGE,
        pending_seconds=30,
        summary="No pod of a pool answers.",
        description=f"{_WHO} has pods, and not one of them gives current numbers.",
        hides=True,
        told=Check(values=(Value(signal="reporting_ratio"),), comparison="<=", limit=0),
    )


def _reporting(settings: Settings) -> AlertRule:
    limit = settings.thresholds.reporting_ratio
    return AlertRule(
        name="LLMPoolReportingLow",
        level=_POOL,
        expression=f"{_recorded('reporting', settings)} < {limit:g}",
        severity=Severity.TICKET,
        pending_seconds=300,
        summary="Part of a pool is silent.",
        description=f"{_WHO}: only {{{{ $value | humanizePercentage }}}} of the pods are current; they carry the load of all.",
        told=Check(values=(Value(signal="reporting_ratio"),), comparison="<", limit=limit),
    )


def _saturated(settings: Settings) -> AlertRule:
    limit = settings.thresholds.saturation_ratio
    return AlertRule(
        name="LLMPoolSaturated",
        level=_POOL,
        expression=held(f">= {limit:g}", settings, _recorded("saturation", settings)),
        severity=Severity.PAGE,
        pending_seconds=120,
        keep_firing_seconds=120,
        summary="A pool has no room: requests queue in the engines.",
        description=f"{_WHO} is loaded to {{{{ $value | humanizePercentage }}}} of what it can take.",
        told=Check(values=(Value(signal="saturation_ratio"),), comparison=">=", limit=limit),
    )


def _kv_headroom(settings: Settings) -> AlertRule:
    limit, ahead = settings.thresholds.kv_cache_ratio, settings.thresholds.kv_cache_full_within_seconds
    usage = _recorded("kv_cache_usage", settings)
    # A cache that fills from nothing looks as if it were full soon; half full is where a trend begins to mean something.
    soon = f"({usage} > 0.5 and {on(_POOL)} predict_linear({usage}[15m], {ahead}) >= 1)"
    return AlertRule(
        name="LLMPoolKVHeadroomLow",
        level=_POOL,
        expression=f"{held(f'> {limit:g}', settings, usage)}\nor\n{soon}",
        severity=Severity.TICKET,
        pending_seconds=600,
        summary="A pool's KV cache is nearly full, or will be soon.",
        description=(
            f"{_WHO} holds {{{{ $value | humanizePercentage }}}} of its KV cache: above {limit * 100:g}%, "
            f"or full within {show(ahead)} as it grows now."
        ),
        told=Check(values=(Value(signal="kv_cache_usage_ratio"),), comparison=">", limit=limit),
    )


def _imbalanced(settings: Settings) -> AlertRule:
    # From the pods' own loads: the ratios of two shards say nothing of the two together.
    chosen, limit = settings.chosen(Level.POD), settings.thresholds.imbalance_ratio
    load_of = " + ".join(selector(f"requests_{what}", Level.POD, **chosen) for what in ("running", "waiting"))
    by = f"by ({', '.join(LEVEL_LABELS[_POOL])})"
    waiting = f"{_recorded('requests_waiting', settings)} / {_recorded('pods_reporting', settings)}"
    queued = f"{waiting} > {settings.thresholds.imbalance_requests_waiting:g}"
    return AlertRule(
        name="LLMPoolImbalanced",
        level=_POOL,
        expression=f"max {by} ({load_of}) / (avg {by} ({load_of}) > 0) > {limit:g}\nand {on(_POOL)}\n{queued}",
        severity=Severity.TICKET,
        pending_seconds=600,
        summary="One pod of a pool carries far more than the others while requests wait.",
        description=f"{_WHO}: the fullest pod has {{{{ $value | humanize }}}} times the mean load.",
        told=Check(values=(Value(signal="imbalance_ratio"),), comparison=">", limit=limit),
    )


def _share(settings: Settings, outcome: str) -> tuple[str, Check]:
    """Finished requests of an outcome over all, where enough were finished; and the same without PromQL, less its comparison."""
    chosen, least = settings.chosen(_POOL), settings.thresholds.minimum_requests
    limit = settings.thresholds.error_ratio if outcome == "error" else settings.thresholds.abort_ratio
    part = increase_of("requests", _POOL, window=_WINDOW, **chosen, outcome=outcome)
    whole = increase_of("requests", _POOL, window=_WINDOW, **chosen)
    parts = Value(signal="requests", how=How.INCREASE, children=(outcome,), window_seconds=_WINDOW_SECONDS)
    wholes = Value(signal="requests", how=How.INCREASE, window_seconds=_WINDOW_SECONDS)
    enough = Check(values=(wholes,), comparison=">=", limit=least)
    told = Check(values=(parts,), over=(wholes,), comparison=">", limit=limit, also=(enough,))
    return f"{part}\n/\n({whole} >= {least})\n> {limit:g}", told


def _errors(settings: Settings) -> AlertRule:
    expression, told = _share(settings, "error")
    return AlertRule(
        name="LLMPoolErrorRateHigh",
        level=_POOL,
        expression=expression,
        severity=Severity.PAGE,
        pending_seconds=300,
        summary="Many requests to a pool fail.",
        description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} of the requests finished in 5 minutes failed.",
        told=told,
    )


def _aborts(settings: Settings) -> AlertRule:
    expression, told = _share(settings, "abort")
    return AlertRule(
        name="LLMPoolAbortRateHigh",
        level=_POOL,
        expression=expression,
        severity=Severity.TICKET,
        pending_seconds=600,
        summary="Many requests to a pool are broken off.",
        description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} of the requests finished in 5 minutes were broken off.",
        told=told,
    )


def _rejecting(settings: Settings) -> AlertRule:
    chosen, limit, least = settings.chosen(_POOL), settings.thresholds.rejected_ratio, settings.thresholds.minimum_requests
    refused = increase_of("rejected_requests", _POOL, window=_WINDOW, **chosen)
    asked = increases_of(("requests", chosen), ("rejected_requests", chosen), level=_POOL, window=_WINDOW)
    refusals, finished = (Value(signal=name, how=How.INCREASE, window_seconds=_WINDOW_SECONDS)
                          for name in ("rejected_requests", "requests"))  # fmt: skip
    enough = Check(values=(finished, refusals), comparison=">=", limit=least)
    return AlertRule(
        name="LLMPoolRejecting",
        level=_POOL,
        expression=f"{refused}\n/\n({asked} >= {least})\n> {limit:g}",
        severity=Severity.PAGE,
        pending_seconds=120,
        summary="Engines of a pool refuse requests because they are full.",
        description=f"{_WHO} refused {{{{ $value | humanizePercentage }}}} of the requests of the last 5 minutes.",
        told=Check(values=(refusals,), over=(finished, refusals), comparison=">", limit=limit, also=(enough,)),
    )


def _prefix_hits(settings: Settings) -> AlertRule:
    chosen, drop = settings.chosen(_POOL), settings.thresholds.prefix_hit_drop_ratio
    hits, asked = (increase_of(f"prefix_cache_{what}_tokens", _POOL, window="1h", **chosen) for what in ("hit", "query"))
    enough = f"({asked} >= {settings.thresholds.prefix_query_tokens})"
    yesterday = f"{hits.replace('[1h]', '[1h] offset 1d')} / {enough.replace('[1h]', '[1h] offset 1d')}"
    return AlertRule(
        name="LLMPoolPrefixHitDrop",
        level=_POOL,
        expression=f"{hits} / {enough}\n< {drop:g} * (\n  {yesterday}\n)",
        severity=Severity.NOTE,
        pending_seconds=1800,
        summary="Prefix-cache hits of a pool fell far below those of a day before.",
        description=f"{_WHO} found {{{{ $value | humanizePercentage }}}} of its prompt tokens in the cache in the last hour; "
        f"that is less than {drop * 100:g}% of the share at the same hour a day before.",
    )


def _versions(settings: Settings) -> AlertRule:
    chosen = settings.chosen(Level.POD)
    labels = ", ".join(LEVEL_LABELS[_POOL])
    told = selector("info", Level.POD, **chosen, version="!=")
    versions = f"count by ({labels}) (count by ({labels}, engine, version) ({told}))"
    sizes = [fold_of(how, "kv_cache_block_size_tokens", Level.POD, by=LEVEL_LABELS[_POOL], **chosen) for how in ("max", "min")]
    return AlertRule(
        name="LLMPoolVersionsDiffer",
        level=_POOL,
        expression=f"{versions} > 1\nor\n{sizes[0]} > {sizes[1]}",
        severity=Severity.NOTE,
        pending_seconds=3600,
        summary="Pods of one pool run different engines, versions or block sizes.",
        description=f"{_WHO}: the same request is served in different ways, and prefix caches cannot be compared.",
    )
