"""Kinds of panels, rows and marks that several boards have."""

from alerts.promql import braces, fold_of, selector
from collector.naming import metric
from collector.signals import Level
from dashboards.model import Annotation, Draw, Limit, Link, Named, Panel, Query, Row
from dashboards.queries import Scope, chosen

TOKENS_PER_SECOND, TOKENS = "suffix:tokens/s", "suffix:tokens"
"""Grafana puts the space between."""

STATE_COLORS = (
    ("fresh", "green"),
    ("warming", "blue"),
    ("no_progress", "purple"),
    ("stale", "orange"),
    ("terminating", "gray"),
    ("down", "red"),
)
OUTCOME_COLORS = (("stop", "green"), ("length", "blue"), ("abort", "orange"), ("error", "red"), ("other", "semi-dark-green"))

STATES = tuple(Named(at, name, color) for at, (name, color) in enumerate(STATE_COLORS, start=1))
"""States as numbers, for a timeline."""

TO_POOL = Link(title="This pool", board="llm-pool")
TO_POD = Link(title="This pod", board="llm-pod", level=Level.POD)


def number(
    title: str,
    text: str,
    anchor: str,
    query: Query,
    *,
    unit: str = "short",
    limits: tuple[Limit, ...] = (),
    below: str = "text",
    named: tuple[Named, ...] = (),
    width: int = 3,
    silent: str = "",
) -> Panel:
    """One big number."""
    return Panel(title, text, anchor, draw=Draw.STAT, queries=(query,), unit=unit, limits=limits, below=below,
                 named=named, silent=silent, width=width, height=4)  # fmt: skip


def state_code(scope: Scope) -> Query:
    """Each pod's state as a number of `STATES`."""
    coded = [f"{one.value} * {fold_of('max', 'state', Level.POD, state=one.text, **scope.chosen)}" for one in STATES]
    return Query("\n+ ".join(coded), "{{namespace}}/{{pod}}")


def states(scope: Scope, anchor: str, text: str, *, width: int = 6) -> Panel:
    """How many pods are in each state at this moment; a state that no pod is in would only make the others small."""
    pods = scope.gauge("sum", "pods", "{{state}}", by=("state",))
    some = Query(f"{pods.expression} > 0", pods.legend)
    return Panel("Pods by state", text, anchor, draw=Draw.STAT, queries=(some,), below="text", colors=STATE_COLORS, width=width,
                 height=4)  # fmt: skip


def alerts(level: Level, **matchers: str) -> Annotation:
    """Where what an alert fires for began, of alerts that somebody has to act on.

    Those of exporters are marked whatever is chosen: they are of no cluster, and some of no exporter that there is.

    One mark for each, at its own time, so that none is missed between the points of a long range. A mark from begin to end would
    lie over the graphs for hours, and one for every flap would fence them off: what returns within 15 minutes is not marked.
    """
    chosen_ones = {"severity": "=~critical|warning", **matchers, **({} if level is Level.EXPORTER else chosen(level))}
    began, firing = "ALERTS_FOR_STATE" + braces(chosen_ones), "ALERTS" + braces({"alertstate": "firing", **chosen_ones})
    who = "cluster, namespace, pool, pod, instance, alertname"  # the windows of a burn are one cause
    first = f"1000 * min by ({who}) ({began} and ignoring (alertstate) {firing})"
    expression = f"{first} unless on ({who}) changes({began}[15m]) > 0"
    text = "{{instance}}" if level is Level.EXPORTER else "{{cluster}} {{namespace}}/{{pool}} {{pod}}"
    return Annotation(title="Alerts", expression=expression, color="red", heading="{{alertname}}", text=text, value_is_time=True)


def restarts(level: Level) -> tuple[Annotation, Annotation]:
    """Where an engine's process began, if it says when; and while a pod is new or restarted, whatever its engine."""
    scope = chosen(level)
    began = f"1000 * {selector('process_start_timestamp_seconds', Level.POD, **scope)}"
    warming = f"{selector('state', Level.POD, state='warming', **scope)} == 1"
    text = "{{cluster}} {{namespace}}/{{pod}}"
    return (
        Annotation(
            title="Engine starts", expression=began, color="blue", heading="Engine started", text=text, value_is_time=True
        ),
        Annotation(title="Warming up", expression=warming, color="light-blue", heading="New or restarted", text=text),
    )


def reloads(matchers: dict[str, str]) -> Annotation:
    """Where an exporter started or took a changed configuration."""
    name = metric("config_last_reload_success_timestamp_seconds", Level.EXPORTER)
    return Annotation(title="Exporter reloads", expression=f"1000 * {name}{braces(matchers)}", color="purple",
                      heading="Configuration read", text="{{instance}}", value_is_time=True)  # fmt: skip


def how_to_read(text: str, anchor: str, *, height: int = 6) -> Row:
    """The row at the end that explains the board."""
    panel = Panel("Reading", text, anchor, draw=Draw.TEXT, width=24, height=height)
    return Row(title="How to read this board", panels=(panel,))
