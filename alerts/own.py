"""Alerts of the watchers themselves: exporters, their back ends, the rules, and a watchdog that always fires."""

from alerts.durations import show
from alerts.model import SUBJECT, AlertRule, Check, Group, How, Value
from alerts.promql import braces, fold_of, increase_of, selector, within_of
from alerts.slo import Settings, Severity
from collector.signals import Level

_OWN = Level.EXPORTER
_WHO = SUBJECT[_OWN]
_BY_SINK = ("job", "instance", "sink")
_ON_SINK = f"on ({', '.join(_BY_SINK)})"
_RULE_FAILURES = "prometheus_rule_evaluation_failures_total"
"""Prometheus' own, where it scrapes itself."""


def groups(settings: Settings) -> tuple[Group, ...]:
    """The exporter, what it pushes to, and what judges it."""
    exporter = (_absent(settings), _down(settings), _config(), _source(), _slow(settings), _unstable(), _caps(), _families())
    sinks = (_sink_silent(settings), _sink_dropping(), _sink_rejecting())
    return tuple(
        Group(name=f"llm_exporter_{name}", level=_OWN, interval_seconds=30, rules=rules)
        for name, rules in (("health", exporter), ("sinks", sinks), ("rules", (_rules(), _watchdog())))
    )


def _absent(settings: Settings) -> AlertRule:
    return AlertRule(
        name="LLMExporterAbsent",
        level=_OWN,
        expression=f"absent({selector('build_info', _OWN)}{braces({'job': settings.exporter_job})})",
        severity=Severity.PAGE,
        pending_seconds=300,
        kept=("job",),
        summary="There is no exporter at all.",
        description="Prometheus has no sample of any exporter of job {{ $labels.job }}: nothing of the fleet is watched.",
    )


def _down(settings: Settings) -> AlertRule:
    return AlertRule(
        name="LLMExporterDown",
        level=_OWN,
        expression=f"up{braces({'job': settings.exporter_job})} == 0",
        severity=Severity.TICKET,
        pending_seconds=120,
        kept=("job", "instance"),
        summary="An exporter cannot be scraped.",
        description=f"{_WHO} does not answer Prometheus. LLMClusterSilent says whether another stands in.",
    )


def _plain(name: str, expression: str, severity: Severity, *, pending_seconds: int, summary: str, description: str,
           kept: tuple[str, ...] = ("job", "instance"), told: Check | None = None) -> AlertRule:  # fmt: skip
    return AlertRule(name=name, level=_OWN, expression=expression, severity=severity, pending_seconds=pending_seconds, kept=kept,
                     summary=summary, description=description, told=told)  # fmt: skip


def _config() -> AlertRule:
    return _plain(
        "LLMExporterConfigReloadFailed",
        f"{fold_of('min', 'config_last_reload_successful', _OWN)} == 0",
        Severity.TICKET,
        pending_seconds=300,
        summary="An exporter could not read its new configuration.",
        description=f"{_WHO} goes on with the configuration that it had before.",
        told=Check(values=(Value(signal="config_last_reload_successful"),), comparison="<=", limit=0),
    )


def _source() -> AlertRule:
    return _plain(
        "LLMExporterTargetSourceFailing",
        f"{fold_of('min', 'target_source_last_read_successful', _OWN, by=('job', 'instance', 'source'))} == 0",
        Severity.TICKET,
        pending_seconds=300,
        kept=("job", "instance", "source"),
        summary="A list of targets cannot be read whole.",
        description=f"{_WHO} cannot read all of {{{{ $labels.source }}}}; it keeps the targets that it had.",
    )


def _slow(settings: Settings) -> AlertRule:
    bound, limit = settings.thresholds.slow_read_seconds, settings.thresholds.slow_read_ratio
    quick = within_of("scrape_duration_seconds", _OWN, bound, window="5m")
    whole = increase_of("scrape_duration_seconds", _OWN, window="5m")
    return _plain(
        "LLMExporterReadsSlow",
        f"1 - {quick} / ({whole} > 0)\n> {limit:g}",
        Severity.TICKET,
        pending_seconds=600,
        summary="An exporter takes long to read its targets.",
        description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} of the reads of 5 minutes took longer than {bound:g} s.",
    )


def _unstable() -> AlertRule:
    return _plain(
        "LLMExporterUnstableTargets",
        f"{fold_of('max', 'unstable_targets', _OWN)} > 0",
        Severity.TICKET,
        pending_seconds=600,
        summary="Several servers seem to answer behind one target.",
        description=f"{_WHO}: the counters of {{{{ $value }}}} targets jump back and forth and are not counted.",
        told=Check(values=(Value(signal="unstable_targets"),), comparison=">", limit=0),
    )


def _caps() -> AlertRule:
    dropped = f"{fold_of('max', 'pods_dropped', _OWN)} > 0"
    return _plain(
        "LLMExporterCapReached",
        f"{dropped}\nor\n{increase_of('label_values_capped', _OWN, window='15m')} > 0",
        Severity.NOTE,
        pending_seconds=600,
        summary="An exporter leaves out pods or label values because there are too many.",
        description=f"{_WHO} reached a cap ({{{{ $value | humanize }}}} left out). Levels above stay whole.",
        told=Check(values=(Value(signal="pods_dropped"),), comparison=">", limit=0),
    )


def _families() -> AlertRule:
    return _plain(
        "LLMExporterUnknownFamilies",
        f"{fold_of('max', 'unknown_families', _OWN)} > 0",
        Severity.NOTE,
        pending_seconds=1800,
        summary="Engines publish metrics that this version knows nothing of.",
        description=f"{_WHO} sees {{{{ $value }}}} unknown families: an engine is newer, and names may have changed.",
        told=Check(values=(Value(signal="unknown_families"),), comparison=">", limit=0),
    )


def _sink_silent(settings: Settings) -> AlertRule:
    limit = settings.thresholds.sink_silent_seconds
    last = fold_of("max", "sink_last_success_timestamp_seconds", _OWN, by=_BY_SINK)
    failing = f"{increase_of('sink_failures', _OWN, window='10m', by=_BY_SINK)} > 0"
    return _plain(
        "LLMExporterSinkFailing",
        f"time() - {last} > {limit}\nor\n({failing} unless {_ON_SINK} {last})",
        Severity.TICKET,
        pending_seconds=120,
        kept=_BY_SINK,
        summary="A back end takes nothing from an exporter.",
        description=f"{_WHO}: {{{{ $labels.sink }}}} has taken no batch for more than {show(limit)}, or never one.",
    )


def _sink_dropping() -> AlertRule:
    lost = Value(signal="sink_batches", how=How.INCREASE, children=("dropped",), window_seconds=300)
    return _plain(
        "LLMExporterSinkDropping",
        f"{increase_of('sink_batches', _OWN, window='5m', by=_BY_SINK, outcome='dropped')} > 0",
        Severity.TICKET,
        pending_seconds=0,
        kept=_BY_SINK,
        summary="An exporter drops what a back end should get.",
        description=f"{_WHO} dropped {{{{ $value | humanize }}}} batches for {{{{ $labels.sink }}}} in 5 minutes; they are lost.",
        told=Check(values=(lost,), comparison=">", limit=0),
    )


def _sink_rejecting() -> AlertRule:
    by = (*_BY_SINK, "reason")
    return _plain(
        "LLMExporterSinkRejecting",
        f"{increase_of('sink_points_rejected', _OWN, window='15m', by=by)} > 0",
        Severity.NOTE,
        pending_seconds=900,
        kept=by,
        summary="A back end refuses some of an exporter's data points.",
        description=f"{_WHO}: {{{{ $value | humanize }}}} points for {{{{ $labels.sink }}}} were left out in 15 minutes: "
        "{{ $labels.reason }}.",
    )


def _rules() -> AlertRule:
    ours = f"{_RULE_FAILURES}{braces({'rule_group': '=~.*;llm_.*'})}"
    return _plain(
        "LLMRulesFailing",
        f"sum by (job, instance, rule_group) (increase({ours}[5m])) > 0",
        Severity.TICKET,
        pending_seconds=0,
        kept=("job", "instance", "rule_group"),
        summary="Rules of this set fail in Prometheus.",
        description="{{ $labels.rule_group }} failed {{ $value | humanize }} times in 5 minutes on {{ $labels.instance }}; "
        "what it judges is not judged.",
    )


def _watchdog() -> AlertRule:
    return AlertRule(
        name="LLMFleetWatchdog",
        level=_OWN,
        expression="vector(1)",
        severity=Severity.NONE,
        summary="Always fires, so that its absence tells that alerts do not arrive.",
        description="Route it to a service that calls when it stops coming.",
    )
