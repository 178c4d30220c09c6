"""Alerts of single pods: silent, stuck, full."""

from alerts.model import SUBJECT, AlertRule, Check, Group, How, RecordingRule, Value, recorded
from alerts.promql import braces, fold_of, on, rate_of, selector
from alerts.slo import Settings, Severity
from collector.naming import LEVEL_LABELS
from collector.signals import REPORTING, Level, State

_POD = Level.POD
_WHO = SUBJECT[_POD]
_SILENT = "=~stale|down"
_SPEAKING = "=~" + "|".join(state for state in State if state in REPORTING)
_REMEMBERED_SECONDS = 3600


def groups(settings: Settings) -> tuple[Group, ...]:
    """Freshness often, since it promises a time of detection; the rest as often as load changes."""
    freshness = Group(name="llm_pod_freshness", level=_POD, interval_seconds=5, rules=(_known(settings), _stale(settings)))
    load = (_never(settings), _partly(settings), _stuck(settings), _kv_cache(settings), _queue(settings),
            _preempting(settings), _adapters(settings))  # fmt: skip
    return freshness, Group(name="llm_pod_load", level=_POD, interval_seconds=15, rules=load)


def _fold(how: str, name: str, settings: Settings, **matchers: str) -> str:
    return fold_of(how, name, _POD, **settings.chosen(_POD), **matchers)


_KNOWN = recorded(_POD, "llm_last_sample_timestamp_seconds", "known")


def _known(settings: Settings) -> RecordingRule:
    # `time() - timestamp > limit` alone ends with its series, that is, at the very moment the exporter dies. A look back with
    # last_over_time(...[1h]) outlives the exporter, but brings back each pod that was removed within the hour. So the list of
    # pods is carried. While an exporter speaks of a pod, it is what it says, and what is known of before where it has not
    # reached the pod yet. While nobody speaks of a pod, it was removed if its exporter (or the one that took over) lives; a
    # standby that never listed a pod is no witness of that, nor is another shard. The hour ends the alerts of a cluster that
    # was dismantled. A pod told to go falls silent before it leaves the list and reads `down` by then, hence the look back.
    chosen, pod, part = settings.chosen(_POD), on(_POD), "on (cluster, shard)"
    listed = fold_of("max", "last_sample_timestamp_seconds", _POD, by=(*LEVEL_LABELS[_POD], "shard"), **chosen)
    known = _KNOWN + braces(chosen)
    unreached = f"{known} and {pod} {_fold('max', 'state', settings, state=_SILENT)} == 1"
    cluster = selector("pods", Level.CLUSTER, **settings.chosen(Level.CLUSTER))
    witness = f"({cluster} and max_over_time({cluster}[1h]) > 0)"
    orphaned = f"{known} unless {pod} {selector('state', _POD, **chosen)}\n    unless {part} {witness}"
    leaving = f"{fold_of('max', 'state', _POD, over='5m', **chosen, state='terminating')} == 1"
    carried = f"(\n    {unreached}\n    or\n    {orphaned}\n  ) > time() - {_REMEMBERED_SECONDS}"
    return RecordingRule(name=_KNOWN, expression=f"(\n  {listed}\n  or\n  {carried}\n)\nunless {pod}\n{leaving}", kept=("shard",))


def _stale(settings: Settings) -> AlertRule:
    known = _KNOWN + braces(settings.chosen(_POD))
    return AlertRule(
        name="LLMPodMetricsStale",
        level=_POD,
        expression=f"time() - max by ({', '.join(LEVEL_LABELS[_POD])}) ({known}) > {settings.thresholds.stale_seconds}",
        severity=Severity.TICKET,
        summary="A pod's metrics are no longer current.",
        description=(
            f"{_WHO} gave its last good sample {{{{ $value | humanizeDuration }}}} ago: "
            "the pod, the way to it or the exporter is silent."
        ),
    )


def _never(settings: Settings) -> AlertRule:
    # One that spoke to the exporter before this one is stale, not unheard of.
    sampled = _fold("max", "last_sample_timestamp_seconds", settings)
    known = f"max by ({', '.join(LEVEL_LABELS[_POD])}) ({_KNOWN}{braces(settings.chosen(_POD))})"
    return AlertRule(
        name="LLMPodNeverReported",
        level=_POD,
        expression=f"{_fold('max', 'state', settings, state=_SILENT)} == 1\nunless {on(_POD)}\n({sampled} or {known})",
        severity=Severity.TICKET,
        pending_seconds=900,
        summary="A pod is listed and has never given a good sample.",
        description=f"{_WHO} has been listed for a while and none of its pages could be read.",
    )


def _partly(settings: Settings) -> AlertRule:
    silent = _fold("sum", "targets", settings, state=_SILENT)
    return AlertRule(
        name="LLMPodPartlySilent",
        level=_POD,
        expression=f"{silent} > 0\nand {on(_POD)}\n{_fold('max', 'state', settings, state=_SPEAKING)} == 1",
        severity=Severity.TICKET,
        pending_seconds=120,
        summary="Some ports or ranks of a pod do not answer.",
        description=f"{{{{ $value }}}} targets of {_WHO} are silent while others answer; its numbers are those of the others.",
    )


def _stuck(settings: Settings) -> AlertRule:
    return AlertRule(
        name="LLMPodStuck",
        level=_POD,
        expression=f"{_fold('max', 'state', settings, state='no_progress')} == 1",
        severity=Severity.PAGE,
        pending_seconds=60,
        summary="A pod holds requests and does not advance them.",
        description=f"{_WHO} shows work, and its engine's step counter stands still: requests on it hang.",
        told=Check(values=(Value(signal="state", children=("no_progress",)),), comparison=">=", limit=1),
    )


def _kv_cache(settings: Settings) -> AlertRule:
    limit = settings.thresholds.pod_kv_cache_ratio
    usage, waiting = (_fold("max", name, settings) for name in ("kv_cache_usage_ratio", "requests_waiting"))
    queued = Check(values=(Value(signal="requests_waiting"),), comparison=">", limit=0)
    return AlertRule(
        name="LLMPodKVCacheSaturated",
        level=_POD,
        expression=f"{usage} >= {limit:g}\nand {on(_POD)}\n{waiting} > 0",
        severity=Severity.TICKET,
        pending_seconds=300,
        summary="A pod's KV cache is full and requests wait for it.",
        description=f"{_WHO} holds {{{{ $value | humanizePercentage }}}} of its KV cache and has requests waiting.",
        told=Check(values=(Value(signal="kv_cache_usage_ratio"),), comparison=">=", limit=limit, also=(queued,)),
    )


def _queue(settings: Settings) -> AlertRule:
    limit = settings.thresholds.pod_requests_waiting
    return AlertRule(
        name="LLMPodQueueLong",
        level=_POD,
        expression=f"{_fold('max', 'requests_waiting', settings)} > {limit}",
        severity=Severity.TICKET,
        pending_seconds=300,
        summary="Requests have queued in a pod for minutes.",
        description=f"{_WHO} has {{{{ $value }}}} requests waiting, and has had more than {limit} for a while.",
        told=Check(values=(Value(signal="requests_waiting"),), comparison=">", limit=limit),
    )


def _preempting(settings: Settings) -> AlertRule:
    limit = settings.thresholds.pod_preemption_rate
    lately = Value(signal="preemptions", how=How.INCREASE, window_seconds=300)
    return AlertRule(
        name="LLMPodPreempting",
        level=_POD,
        expression=f"{rate_of('preemptions', _POD, window='5m', **settings.chosen(_POD))} > {limit:g}",
        severity=Severity.TICKET,
        pending_seconds=300,
        summary="A pod pushes running requests back for want of KV cache.",
        description=f"{_WHO} preempts {{{{ $value | humanize }}}} requests a second; each computes its prompt again.",
        told=Check(values=(lately,), comparison=">", limit=round(limit * 300, 9)),
    )


def _adapters(settings: Settings) -> AlertRule:
    # vLLM from 0.11.1 counts adapters with running or waiting work together; before, waiting ones apart.
    running, waiting, most = (_fold("max", f"adapters_{what}", settings) for what in ("running", "waiting", "max"))
    apart = f"({waiting} > 0 and {on(_POD)} {running} >= {on(_POD)} {most})"
    return AlertRule(
        name="LLMPodAdaptersWaiting",
        level=_POD,
        expression=f"{running} > {on(_POD)} {most}\nor\n{apart}",
        severity=Severity.TICKET,
        pending_seconds=600,
        summary="More LoRA adapters have work on a pod than fit into a batch.",
        description=f"On {_WHO} adapters wait for each other: more are asked for than one batch holds ({{{{ $value }}}}).",
    )
