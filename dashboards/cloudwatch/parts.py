"""Panels that the boards of pools and of clusters share, at the level of the board."""

from collections.abc import Sequence

from alerts.slo import LatencyObjective
from collector.naming import EXACT, OVERFLOW
from collector.signals import OUTCOMES, Level, State
from dashboards.cloudwatch.lines import Line, line
from dashboards.limits import BAD, Limits
from dashboards.model import Draw, Limit, Panel, Row

FIRST_TOKEN = "time_to_first_token_seconds"

_GAP, _WHOLE, _QUEUE = "inter_token_latency_seconds", "end_to_end_latency_seconds", "queue_time_seconds"
_POINTS = ("p50", "p95", "p99")


def number(title: str, text: str, shown: Line, unit: str, *limits: Limit, below: str = "green") -> Panel:
    """One number for everything chosen."""
    return Panel(title, text, "now", draw=Draw.STAT, queries=(shown,), unit=unit, limits=limits, below=below, width=4, height=4)


def numbers(level: Level, limits: Limits) -> Row:
    """What is so now, of everything chosen: rates added, the rest of the worst."""
    first = "99 of 100 requests have their first token by then, where it is worst; red above the objective's bound."
    heard = "Share of known pods whose numbers are current, where it is lowest. Overloaded pods fall silent: read it first."
    return Row(
        title="Now",
        panels=(
            number("Reporting", heard, line("reporting_ratio", level, "Minimum", fold="MIN"), "percentunit",
                   *limits.reporting, below=BAD),
            number("Requests", "Requests finished per second.",
                   line("requests", level, "Sum", per_second=True, fold="SUM"), "reqps", below="text"),
            number("TTFT p99", first, line(FIRST_TOKEN, level, "p99", fold="MAX"), "s", *limits.bound(FIRST_TOKEN)),
            number("Errors", "Share of finished requests that ended in an error, where it is worst.",
                   line("error_ratio", level, "Average", fold="MAX"), "percentunit", *limits.errors),
            number("Saturation", "Load over what can be taken, where it is worst; of the pods that report.",
                   line("saturation_ratio", level, "Average", fold="MAX"), "percentunit", *limits.saturation),
            number("Waiting", "Requests queued in the engines.",
                   line("requests_waiting", level, "Average", fold="SUM"), "short", below="text"),
        ),
    )  # fmt: skip


def latency(level: Level, title: str, name: str, text: str, *limits: Limit, width: int = 8) -> Panel:
    """Quantiles of a histogram; percentiles need its values, which is why they are sent with counts."""
    points = tuple(line(name, level, point, point) for point in _POINTS)
    return Panel(title, text, "latency", queries=points, unit="s", limits=limits, width=width)


def latencies(level: Level, limits: Limits) -> Row:
    """What users feel, beside what was asked for."""
    shown = (
        ("Time to first token", FIRST_TOKEN, "Arrival to first token."),
        ("Inter-token latency", _GAP, "Gap between successive outputs of one request."),
        ("End-to-end latency", _WHOLE, "Arrival to last token; grows with the length of answers."),
    )
    panels = (
        latency(level, title, name, f"{text} The line is the bound asked for.", *limits.bound(name))
        for title, name, text in shown
    )
    asked = [one for one in limits.settings.objectives if isinstance(one, LatencyObjective)]
    within = (_within(level, asked),) if asked else ()
    return Row(title="Latency: what users feel", panels=(*panels, *within, _means(level), _beyond(level)))


def _within(level: Level, objectives: Sequence[LatencyObjective]) -> Panel:
    bounds = ", ".join(f"{objective.title} {objective.bound_seconds:g} s" for objective in objectives)
    shares = tuple(
        line(objective.signal, level, f"PR(0:{objective.bound_seconds:g})", objective.slug.upper()) for objective in objectives
    )
    limits = tuple(Limit(100 * share, BAD) for share in sorted({objective.objective for objective in objectives}))
    text = f"Share that came within the objective's bound ({bounds}). A line is a share asked for."
    return Panel("Within the objectives", text, "latency", queries=shares, unit="percent", limits=limits)


def _means(level: Level) -> Panel:
    shown = ((FIRST_TOKEN, "first token"), (_WHOLE, "whole answer"), (_QUEUE, "queue"))
    means = tuple(line(name, level, "Average", word, suffix=EXACT) for name, word in shown)
    return Panel("Means", "Mean over requests, from the exact sum and count.", "latency", queries=means, unit="s")


def _beyond(level: Level) -> Panel:
    shown = ((FIRST_TOKEN, "first token"), (_GAP, "gap"), (_WHOLE, "whole answer"), (_QUEUE, "queue"))
    counts = tuple(line(name, level, "Sum", word, suffix=OVERFLOW, per_second=True) for name, word in shown)
    text = "Observations per second above the highest bucket bound: percentiles that fall there are too low."
    return Panel("Beyond measuring", text, "latency", queries=counts, unit="suffix: per second")


def room(level: Level) -> Row:
    """What happens where there is none."""
    waited = "Time requests waited in the engine. No line where the engine does not say."
    refused = "Requests pushed back for want of KV cache, and refused because the engine was full."
    pushed = (
        line("preemptions", level, "Sum", "preempted", per_second=True),
        line("rejected_requests", level, "Sum", "refused", per_second=True),
    )
    return Row(
        title="Want of room",
        panels=(
            latency(level, "Queue time", _QUEUE, waited, width=12),
            Panel("Preempted and refused", refused, "load", queries=pushed, unit="reqps", width=12),
        ),
    )


def load(level: Level, limits: Limits) -> Row:
    """How full it is."""
    full = "Mean over reporting pods of the larger of queue and KV cache over their limits. The line is full."
    heard = "Share of known pods behind these numbers. When it falls, they understate the load."
    cache = "Share of the KV cache that live requests hold: mean over capacity, and the fullest pod."
    held = tuple(line(f"requests_{what}", level, "Average", what) for what in ("running", "waiting"))
    used = (
        line("kv_cache_usage_ratio", level, "Average", "mean"),
        line("kv_cache_usage_max_ratio", level, "Maximum", "max"),
    )
    return Row(
        title="Load: how full it is",
        panels=(
            Panel("Saturation", full, "load", queries=(line("saturation_ratio", level, "Average"),), unit="percentunit",
                  limits=(limits.full,), width=6),
            Panel("Reporting", heard, "load", queries=(line("reporting_ratio", level, "Minimum"),), unit="percentunit", width=6),
            Panel("Running and waiting", "Requests in the engines' batches, and queued for room.", "load", queries=held, width=6),
            Panel("KV cache in use", cache, "load", queries=used, unit="percentunit", width=6),
        ),
    )  # fmt: skip


def traffic(level: Level) -> Row:
    """What is asked of it, and how it ends."""
    outcomes = tuple(line("requests", level, "Sum", child, child=child, per_second=True) for child in OUTCOMES)
    return Row(
        title="Traffic: what it does",
        panels=(
            Panel("Requests by outcome", "Requests finished per second, by how they ended.", "traffic", draw=Draw.STACK,
                  queries=outcomes, unit="reqps"),
            Panel("Tokens", "Prompt tokens taken in (cached ones included) and tokens generated, per second.", "traffic",
                  queries=(line("prompt_tokens", level, "Sum", "prompt", per_second=True),
                           line("generation_tokens", level, "Sum", "generation", per_second=True)), unit="suffix: tokens/s"),
            Panel("Prefix-cache hits", "Share of looked-up prompt tokens found in the engines' prefix caches.", "traffic",
                  queries=(line("prefix_cache_hit_ratio", level, "Average"),), unit="percentunit"),
        ),
    )  # fmt: skip


def pods(level: Level) -> Row:
    """Who serves."""
    states = tuple(line("pods", level, "Average", state, child=state) for state in State)
    return Row(
        title="Pods: who serves it",
        panels=(
            Panel("Pods by state", "Known pods. Only fresh, warming and no_progress ones carry load numbers.", "pods",
                  draw=Draw.STACK, queries=states, width=12),
            Panel("Imbalance", "Highest load of a pod over the mean load; 1 is even, no line when idle.", "pods",
                  queries=(line("imbalance_ratio", level, "Average"),), width=12),
        ),
    )  # fmt: skip
