"""The board of the exporter itself: can the other boards be believed?"""

from alerts.promql import RATE_INTERVAL, braces, fold_of, selector
from alerts.slo import Settings
from collector.naming import find, label_names, metric
from collector.signals import Level
from dashboards.kinds import alerts, how_to_read, number, reloads
from dashboards.limits import BAD, GOOD, WARN, Limits
from dashboards.model import Board, Draw, Limit, Named, Panel, Query, Row, Variable
from dashboards.queries import Scope, chosen

_HERE = Scope(Level.EXPORTER)
_CHOSEN = chosen(Level.EXPORTER)
_NO_SINK = "no data: nothing is pushed, Prometheus only reads"
_ANY = (Limit(1, WARN),)


def _now(limits: Limits) -> Row:
    good = _HERE.gauge("min", "config_last_reload_successful", by=())
    up = f"sum({selector('target_up', Level.EXPORTER, **_CHOSEN)}) / count({selector('target_up', Level.EXPORTER, **_CHOSEN)})"
    failures = _HERE.rate("target_failures", by=())
    lost = _HERE.rate("increase_discarded", by=())
    series = _HERE.gauge("sum", "series", by=())
    slow = _HERE.quantile(0.99, "scrape_duration_seconds", by=())
    exporters = Query(f"count({selector('build_info', Level.EXPORTER, **_CHOSEN)})")
    read = (Named(0, "refused", BAD), Named(1, "valid", GOOD))
    return Row(
        title="Now",
        panels=(
            number("Exporters", "Exporters that are scraped.", "exporter", exporters),
            number("Configuration", "Whether all could read their configuration when it last changed; a refused one "
                   "leaves the old in force.", "exporter", good, named=read),
            number("Targets up", "Share of targets whose last reading was good.", "targets", Query(up), unit="percentunit",
                   limits=(Limit(0.9, WARN), Limit(1, GOOD)), below="red"),
            number("Failures", "Failed attempts to read a target, per second.", "targets", failures, unit="ops",
                   limits=(Limit(0.1, WARN), Limit(1, BAD)), below="green"),
            number("Scrape p99", "99 of 100 readings of a target take at most this.", "targets", slow, unit="s",
                   limits=limits.read,
                   below="green"),
            number("Unknown", "Engine families that this version knows nothing of: a newer engine, most likely.",
                   "oddities", _HERE.gauge("sum", "unknown_families", by=()), limits=_ANY, below="green"),
            number("Not counted", "Increase of engine counters that was seen and not published, per second.", "discarded", lost,
                   limits=(Limit(1e-9, WARN),), below="green"),
            number("Series", "Samples on the pages served, own ones apart.", "exporter", series),
        ),
    )  # fmt: skip


def _reading() -> Row:
    by = ("instance", *find("target_up", Level.EXPORTER).labels)
    down = Query(f"{_HERE.gauge('max', 'target_up', by=by).expression} == 0")
    lanes = _HERE.quantile(0.99, "scrape_duration_seconds", "{{instance}} {{lane}}", by=("instance", "lane"))
    reasons = _HERE.rate("target_failures", "{{reason}}", by=("reason",))
    known = (_HERE.gauge("max", "targets", "targets"), _HERE.gauge("max", "unstable_targets", "unstable"))
    sources = _HERE.gauge("min", "target_source_last_read_successful", "{{instance}} {{source}}", by=("instance", "source"))
    return Row(
        title="Reading: are the engines heard",
        panels=(
            Panel("Time to read a target", "All readings by how long they took.", "targets", draw=Draw.HEATMAP,
                  queries=(_HERE.buckets("scrape_duration_seconds"),), unit="s"),
            Panel("Time to read, p99 by lane", "fast asks for the picker's signals, full for all.", "targets", queries=(lanes,),
                  unit="s"),
            Panel("Failures by reason", "Failed attempts to read a target, per second.", "targets", draw=Draw.STACK,
                  queries=(reasons,), unit="ops"),
            Panel("Targets", "Targets known, and those behind which several servers seem to answer, which are not counted.",
                  "targets", queries=known),
            Panel("Sources of targets", "1 if all targets of the source were last read without error; else the old ones hold.",
                  "targets", queries=(sources,), top=1.0),
            Panel("Targets down", "Targets whose last reading failed.", "targets", draw=Draw.TABLE, queries=(down,),
                  first=("pod", "pool", "address"),
                  silent="none: every target answers"),
        ),
    )  # fmt: skip


def _truth() -> Row:
    discarded = _HERE.rate("increase_discarded", "{{signal}} {{reason}}", by=("signal", "reason"))
    projected = Query(fold_of("max", "projected_ratio", Level.POOL, by=("signal",), cluster="=~$cluster"), "{{signal}}")
    capped = (_HERE.rate("label_values_capped", "{{label}}", by=("label",)), _HERE.gauge("max", "pods_dropped", "pods left out"))
    return Row(
        title="Truth: what is left out, and why",
        panels=(
            Panel("Not counted", "Increase of engine counters that was seen and not published, per second: truth = published + "
                  "discarded. first_sample at the start is normal.", "discarded", queries=(discarded,)),
            Panel("Oddities on pages", "Lines and values on engine pages that were left out, per second.", "oddities",
                  draw=Draw.STACK, queries=(_HERE.rate("page_oddities", "{{kind}}", by=("kind",)),), unit="ops"),
            Panel("Unknown families", "Engine families on the last pages that this version knows nothing of.", "oddities",
                  queries=(_HERE.gauge("max", "unknown_families"),)),
            Panel("Caps at work", "Label values shown as `other` per second, and pods left out of the pod level by its cap.",
                  "caps", queries=capped, width=12),
            Panel("Projected histograms", "Largest share, over all pools, of a histogram's observations that came on other "
                  "buckets "
                  "than the published ones and were spread over them.", "projected", queries=(projected,), unit="percentunit",
                  top=1.0, width=12),
        ),
    )  # fmt: skip


def _sinks(limits: Limits) -> Row:
    def of(name: str, *more: str) -> Query:
        by = ("sink", *more)
        return _HERE.rate(name, " ".join(f"{{{{{label}}}}}" for label in by), by=by)

    last = _HERE.gauge("max", "sink_last_success_timestamp_seconds", by=("instance", "sink")).expression
    points = (of("sink_points_sent"), of("sink_points_rejected", "reason"))
    age = Query(f"time() - {last}", "{{instance}} {{sink}}")
    queued = _HERE.gauge("max", "sink_queued_batches", "{{instance}} {{sink}}", by=("instance", "sink"))
    return Row(
        title="Sinks: does what is pushed arrive",
        collapsed=True,
        panels=(
            Panel("Batches", "Batches per second: sent, or dropped unsent.", "sinks", queries=(of("sink_batches", "outcome"),),
                  unit="ops",
                  silent=_NO_SINK),
            Panel("Failed attempts", "Attempts to send that failed, per second; a batch may be tried again.", "sinks",
                  queries=(of("sink_failures", "reason"),), unit="ops", silent=_NO_SINK),
            Panel("Points", "Data points that the back end took, and that were left out or refused, per second.", "sinks",
                  queries=points, unit="ops", silent=_NO_SINK),
            Panel("Queued", "Batches that wait to be sent. A growing queue ends in dropped batches.", "sinks", queries=(queued,),
                  silent=_NO_SINK, width=12),
            Panel("Age of the last success", "Time since the back end last took a batch.", "sinks", queries=(age,), unit="s",
                  limits=(Limit(limits.settings.thresholds.sink_silent_seconds, BAD),),
                  silent=_NO_SINK, width=12),
        ),
    )  # fmt: skip


def _process(name: str, function: str = "") -> str:
    """A number of the exporter's own process; other programs have it too, hence the join."""
    series = name + braces(_CHOSEN)
    ours = f"max by (instance) ({selector('build_info', Level.EXPORTER, **_CHOSEN)})"
    value = f"{function}({series}[{RATE_INTERVAL}])" if function else series
    return f"max by (instance) ({value}) and on (instance) {ours}"


def _cost() -> Row:
    info = label_names(find("build_info", Level.EXPORTER), Level.EXPORTER)
    versions = (
        Query(f"max by (instance, {', '.join(info)}) ({selector('build_info', Level.EXPORTER, **_CHOSEN)})"),
        Query(f"time() - {_process('process_start_time_seconds')}", "Up for", "dtdurations"),
        Query(f"{_process('process_open_fds')}", "Open files", "short"),
        Query(f"{_process('process_max_fds')}", "Limit", "short"),
    )
    memory = Query(_process("process_resident_memory_bytes"), "{{instance}}")
    return Row(
        title="Cost: what the exporter needs",
        panels=(
            Panel("CPU", "Cores that the process uses.", "exporter", queries=(Query(_process("process_cpu_seconds_total", "rate"),
                  "{{instance}}"),), unit="suffix:cores", width=6),
            Panel("Memory", "Resident memory of the process.", "exporter", queries=(memory,), unit="bytes", width=6),
            Panel("Series kept", "Samples on the page served, own ones apart: what Prometheus has to keep.", "exporter",
                  queries=(_HERE.gauge("max", "series"),), width=6),
            Panel("Exporters", "Each exporter that is scraped.", "exporter", draw=Draw.TABLE, queries=versions,
                  first=("instance", "version"), width=6),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
Green **Now** means that the other boards can be believed. *Targets up* below 100 %: some pods are not heard, see *Failures by
reason*. *Unknown* families: an engine is newer than this exporter, some signals may be missing. *Not counted*: what happened
while a pod was not heard for long is left out rather than guessed.

A silent exporter has no lines here at all; the alert on it is what tells."""


def exporter(settings: Settings) -> Board:
    """The board of the exporter itself."""
    limits = Limits(settings)
    return Board(
        uid="llm-exporter",
        title="LLM exporter",
        question="Can the other boards be believed?",
        variables=(
            Variable("cluster", f"label_values({selector('info', Level.CLUSTER)}, cluster)"),
            Variable(
                "instance",
                f"label_values({metric('info', Level.CLUSTER)}{braces({'cluster': '=~$cluster'})}, instance)",
                label="Exporter",
                spelled_out=True,
            ),
        ),
        rows=(_now(limits), _reading(), _truth(), _sinks(limits), _cost(), how_to_read(_HOW_TO_READ, "exporter")),
        annotations=(reloads(_CHOSEN), alerts(Level.EXPORTER, alertname="=~LLM(Exporter|Rules).*")),
    )
