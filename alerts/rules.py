"""Every rule there is. Files, annotations and links are made of them by `alerts.render`."""

from alerts.burn import burn_groups
from alerts.model import AlertRule, Check, Group, RecordingRule, Value, recorded
from alerts.promql import fold_of, on, selector
from alerts.slo import DEFAULTS, THRESHOLDS, Settings, Severity
from collector.naming import metric
from collector.signals import Level


def _freshness() -> Group:
    # `time() - timestamp > limit` alone ends with its series, that is, at the very moment the exporter
    # dies. A look back with last_over_time(...[1h]) outlives the exporter, but brings back each pod that
    # was removed within the hour, at the latest when the exporter dies. So the list of pods is carried:
    # while the exporter speaks of a cluster, it is what the exporter lists, and a removed pod leaves it at
    # once; while nothing speaks of the cluster, it is the last list there was. The hour ends the alerts of
    # a cluster that was dismantled. A pod told to go falls silent before it leaves the list and reads
    # `down` by then, hence the look back; one that hangs there for longer does alert.
    name = "last_sample_timestamp_seconds"
    known = recorded(Level.POD, metric(name, Level.POD), "known")
    leaving = fold_of("max", "state", Level.POD, over="5m", state="terminating") + " == 1"
    listed = f"{fold_of('max', name, Level.POD)}\nunless {on(Level.POD)}\n{leaving}"
    carried = f"({known} unless on (cluster) {selector('pods', Level.CLUSTER)}) > time() - 3600"
    stale = AlertRule(
        name="LLMPodMetricsStale",
        level=Level.POD,
        expression=f"time() - {known} > {THRESHOLDS.stale_seconds}",
        severity=Severity.TICKET,
        summary="A pod's metrics are no longer current.",
        description=(
            "{{ $labels.namespace }}/{{ $labels.pod }} of pool {{ $labels.pool }} in {{ $labels.cluster }} "
            "gave its last good sample {{ $value | humanizeDuration }} ago: "
            "the pod, the way to it or the exporter is silent."
        ),
    )
    record = RecordingRule(name=known, expression=f"{listed}\nor\n{carried}")
    return Group(name="llm_pod_freshness", level=Level.POD, interval_seconds=5, rules=(record, stale))


def _saturation() -> Group:
    # Overloaded pods fall silent and then leave the mean, which sinks as things get worse. So a pool that was
    # full within 5 minutes and has lost reporting pods since counts as full.
    limit = f"{THRESHOLDS.saturation_ratio:g}"
    full = f"{fold_of('max', 'saturation_ratio', Level.POOL)} >= {limit}"
    was_full = f"{fold_of('max', 'saturation_ratio', Level.POOL, over='5m')} >= {limit}"
    reporting = fold_of("min", "reporting_ratio", Level.POOL)
    reported = fold_of("max", "reporting_ratio", Level.POOL, over="5m")
    saturated = AlertRule(
        name="LLMPoolSaturated",
        level=Level.POOL,
        expression=f"{full}\nor\n(\n  {was_full}\n  and {on(Level.POOL)}\n  {reporting} < {reported}\n)",
        severity=Severity.PAGE,
        pending_seconds=120,
        keep_firing_seconds=120,
        told=Check(values=(Value(signal="saturation_ratio"),), comparison=">=", limit=THRESHOLDS.saturation_ratio),
        summary="A pool has no room: requests queue in the engines.",
        description=(
            "Pool {{ $labels.namespace }}/{{ $labels.pool }} in {{ $labels.cluster }} is loaded to "
            "{{ $value | humanizePercentage }} of what it can take."
        ),
    )
    return Group(name="llm_pool_saturation", level=Level.POOL, interval_seconds=15, rules=(saturated,))


def groups(settings: Settings) -> tuple[Group, ...]:
    """All rules as settings have them."""
    burns = (group for objective in settings.objectives for group in burn_groups(objective, settings))
    return (_freshness(), _saturation(), *burns)


GROUPS: tuple[Group, ...] = groups(DEFAULTS)
"""The rules that ship."""
