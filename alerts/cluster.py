"""Alerts of whole clusters: nobody speaks for it, no pod answers, clocks differ."""

from alerts.model import SUBJECT, AlertRule, Check, Group, Rules, Value
from alerts.promql import fold_of, on
from alerts.records import load, load_records
from alerts.slo import Settings, Severity
from collector.signals import Level

_CLUSTER = Level.CLUSTER
_WHO = SUBJECT[_CLUSTER]


def groups(settings: Settings) -> tuple[Group, ...]:
    """Load of clusters with the series that it is judged by."""
    rules: Rules = (
        *load_records(_CLUSTER, settings),
        _silent(settings),
        _no_pods(settings),
        _reporting(settings),
        _skew(settings),
    )
    return (Group(name="llm_cluster_load", level=_CLUSTER, interval_seconds=15, rules=rules),)


def _recorded(what: str, settings: Settings) -> str:
    return load(what, _CLUSTER, **settings.chosen(_CLUSTER))


def _silent(settings: Settings) -> AlertRule:
    # The other rules fall silent with the exporter: this one is their companion. A day ends it for a dismantled cluster.
    known = _recorded("pods_known", settings)
    return AlertRule(
        name="LLMClusterSilent",
        level=_CLUSTER,
        expression=f"last_over_time({known}[1d])\nunless {on(_CLUSTER)}\n{known}",
        severity=Severity.PAGE,
        pending_seconds=30,
        summary="No exporter speaks for a cluster.",
        description=f"{_WHO} had {{{{ $value }}}} pods when it was last heard of. Nothing is known of it now, and no other rule "
        "can judge it.",
        hides=True,
    )


def _no_pods(settings: Settings) -> AlertRule:
    speaking, known = (_recorded(f"pods_{what}", settings) for what in ("reporting", "known"))
    return AlertRule(
        name="LLMClusterNoReportingPods",
        level=_CLUSTER,
        expression=f"{speaking} == 0\nand {on(_CLUSTER)}\n{known} > 0",
        severity=Severity.PAGE,
        pending_seconds=30,
        summary="No pod of a cluster answers.",
        description=f"{_WHO} has pods, and not one of them gives current numbers: network, credentials or the cluster itself.",
        hides=True,
        told=Check(values=(Value(signal="reporting_ratio"),), comparison="<=", limit=0),
    )


def _reporting(settings: Settings) -> AlertRule:
    limit = settings.thresholds.cluster_reporting_ratio
    return AlertRule(
        name="LLMClusterReportingLow",
        level=_CLUSTER,
        expression=f"{_recorded('reporting', settings)} < {limit:g}",
        severity=Severity.PAGE,
        pending_seconds=300,
        summary="Many pods of a cluster are silent at once.",
        description=f"{_WHO}: only {{{{ $value | humanizePercentage }}}} of the pods are current.",
        told=Check(values=(Value(signal="reporting_ratio"),), comparison="<", limit=limit),
    )


def _skew(settings: Settings) -> AlertRule:
    # Ahead: a sample from the future. Behind: the exporter calls pods fresh, and its newest sample is old by our clock.
    limit, chosen = settings.thresholds.clock_skew_seconds, settings.chosen(_CLUSTER)
    newest = fold_of("max", "last_sample_timestamp_seconds", Level.POD, by=("cluster",), **settings.chosen(Level.POD))
    fresh = fold_of("sum", "pods", _CLUSTER, **chosen, state="fresh")
    behind = f"time() - {newest} > {limit + settings.thresholds.stale_seconds}\nand {on(_CLUSTER)}\n{fresh} > 0"
    return AlertRule(
        name="LLMClusterClockSkew",
        level=_CLUSTER,
        expression=f"{newest} - time() > {limit}\nor\n({behind})",
        severity=Severity.TICKET,
        pending_seconds=300,
        summary="The clocks of an exporter and of Prometheus differ.",
        description=f"{_WHO}: its exporter's clock and Prometheus' differ by about {{{{ $value | humanizeDuration }}}}; "
        "ages and the alerts on them are wrong by that.",
    )
