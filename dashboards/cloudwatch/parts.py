"""Panels that the boards of pools and of clusters share, at the level of the board."""

from alerts.slo import THRESHOLDS, TTFT
from collector.naming import EXACT
from collector.signals import OUTCOMES, Level, State
from dashboards.cloudwatch.lines import Line, line
from dashboards.model import Draw, Limit, Panel, Row

FULL = Limit(THRESHOLDS.saturation_ratio, "red")
BOUND = Limit(TTFT.bound_seconds, "red")

_POINTS = ("p50", "p95", "p99")


def number(title: str, text: str, shown: Line, unit: str, *limits: Limit, below: str = "green") -> Panel:
    """One number for everything chosen."""
    return Panel(title, text, "now", draw=Draw.STAT, queries=(shown,), unit=unit, limits=limits, below=below, width=4, height=4)


def numbers(level: Level) -> Row:
    """What is so now, of everything chosen: rates added, the rest of the worst."""
    first = f"99 of 100 requests have their first token by then, where it is worst; red above {TTFT.bound_seconds:g} s."
    heard = "Share of known pods whose numbers are current, where it is lowest. Overloaded pods fall silent: read it first."
    almost = Limit(0.8 * THRESHOLDS.saturation_ratio, "orange")
    return Row(
        title="Now",
        panels=(
            number("Reporting", heard, line("reporting_ratio", level, "Minimum", fold="MIN"), "percentunit",
                   Limit(0.8, "orange"), Limit(1, "green"), below="red"),
            number("Requests", "Requests finished per second.",
                   line("requests", level, "Sum", per_second=True, fold="SUM"), "reqps", below="text"),
            number("TTFT p99", first, line(TTFT.signal, level, "p99", fold="MAX"), "s", BOUND),
            number("Errors", "Share of finished requests that ended in an error, where it is worst.",
                   line("error_ratio", level, "Average", fold="MAX"), "percentunit", Limit(0.01, "orange"), Limit(0.05, "red")),
            number("Saturation", "Load over what can be taken, where it is worst; of the pods that report.",
                   line("saturation_ratio", level, "Average", fold="MAX"), "percentunit", almost, FULL),
            number("Waiting", "Requests queued in the engines.",
                   line("requests_waiting", level, "Average", fold="SUM"), "short", below="text"),
        ),
    )  # fmt: skip


def latency(level: Level, title: str, name: str, text: str, *limits: Limit) -> Panel:
    """Quantiles of a histogram; percentiles need its values, which is why they are sent with counts."""
    return Panel(
        title, text, "latency", queries=tuple(line(name, level, point, point) for point in _POINTS), unit="s", limits=limits
    )


def latencies(level: Level) -> Row:
    """What users feel."""
    within = f"Share of requests whose first token came within {TTFT.bound_seconds:g} s. The line is the objective."
    share = line(TTFT.signal, level, f"PR(0:{TTFT.bound_seconds:g})")
    return Row(
        title="Latency: what users feel",
        panels=(
            latency(level, "Time to first token", TTFT.signal,
                    "Arrival to first token. The line is the objective's bound.", BOUND),
            latency(level, "Inter-token latency", "inter_token_latency_seconds",
                    "Gap between successive outputs of one request."),
            latency(level, "End-to-end latency", "end_to_end_latency_seconds",
                    "Arrival to last token; grows with the length of answers."),
            Panel("Within the objective", within, "latency", queries=(share,), unit="percent",
                  limits=(Limit(100 * TTFT.objective, "red"),), width=12),
            Panel("Mean time to first token", "Mean over requests, from the exact sum and count.", "latency",
                  queries=(line(TTFT.signal, level, "Average", suffix=EXACT),), unit="s", width=12),
        ),
    )  # fmt: skip


def load(level: Level) -> Row:
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
                  limits=(FULL,), width=6),
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
