"""The board of a pool: how is this model served?"""

from alerts.burn import error_ratio
from alerts.promql import RATE_INTERVAL, braces, fold_of, quantile_of, rate_of, share_of
from alerts.slo import BUDGET_WINDOW, THRESHOLDS, TTFT
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.model import Board, Draw, Limit, Panel, Query, Row
from dashboards.queries import choices, chosen, gauge, quantiles, who

_LEVEL = Level.POOL
_CHOSEN = chosen(_LEVEL)
_WHO = who(_LEVEL)

_BOUND = Limit(TTFT.bound_seconds, "red")
_FULL = Limit(THRESHOLDS.saturation_ratio, "red")

_PODS = Query(fold_of("sum", "pods", _LEVEL, by=("state",), **_CHOSEN), "{{state}}")


def _number(title: str, text: str, anchor: str, query: str, unit: str, below: str, *limits: Limit) -> Panel:
    return Panel(
        title,
        text,
        anchor,
        draw=Draw.STAT,
        queries=(Query(query),),
        unit=unit,
        below=below,
        limits=limits,
        width=3,
        height=4,
    )


def _requests() -> Panel:
    query = rate_of("requests", _LEVEL, window=RATE_INTERVAL, by=(), **_CHOSEN)
    return _number("Requests", "Requests finished per second.", "requests", query, "reqps", "text")


def _ttft() -> Panel:
    query = quantile_of(0.99, TTFT.signal, _LEVEL, window=RATE_INTERVAL, by=(), **_CHOSEN)
    text = f"99 of 100 requests have their first token by then; red above {TTFT.bound_seconds:g} s."
    return _number("TTFT p99", text, "time-to-first-token", query, "s", "green", _BOUND)


def _errors() -> Panel:
    query = share_of("error_ratio", _LEVEL, window=RATE_INTERVAL, by=(), **_CHOSEN)
    text = "Share of finished requests that ended in an error; no data without traffic."
    limits = (Limit(0.01, "orange"), Limit(0.05, "red"))
    return _number("Errors", text, "errors", query, "percentunit", "green", *limits)


def _saturation() -> Panel:
    query = fold_of("max", "saturation_ratio", _LEVEL, by=(), **_CHOSEN)
    text = "Load of the fullest pool over what it can take, of pods that report: read it beside Reporting."
    limits = (Limit(0.8 * THRESHOLDS.saturation_ratio, "orange"), _FULL)
    return _number("Saturation", text, "saturation", query, "percentunit", "green", *limits)


def _reporting() -> Panel:
    query = fold_of("min", "reporting_ratio", _LEVEL, by=(), **_CHOSEN)
    text = "Share of known pods whose numbers are current, in the worst pool. Overloaded pods fall silent."
    limits = (Limit(0.8, "orange"), Limit(1, "green"))
    return _number("Reporting", text, "reporting", query, "percentunit", "red", *limits)


def _budget() -> Panel:
    query = f"1 - max({error_ratio(TTFT, BUDGET_WINDOW, **_CHOSEN)}) / {TTFT.budget:g}"
    text = f"Error budget of {TTFT.title} left over {BUDGET_WINDOW}, in the worst pool; overspent below 0."
    limits = (Limit(0, "orange"), Limit(0.25, "green"))
    return _number("TTFT budget left", text, "error-budget", query, "percentunit", "red", *limits)


def _states() -> Panel:
    text = "Known pods by what their numbers are worth at this moment."
    return Panel("Pods by state", text, "pods", draw=Draw.STAT, queries=(_PODS,), below="text", width=6, height=4)


def _latency(title: str, name: str, text: str, anchor: str, *limits: Limit) -> Panel:
    queries = quantiles(name, _LEVEL, 0.5, 0.95, 0.99)
    return Panel(title, text, anchor, queries=queries, unit="s", limits=limits)


def _latencies() -> Row:
    first = f"Arrival to first token. The objective: {TTFT.objective * 100:g}% of requests below the line."
    between = "Gap between successive outputs of one request."
    whole = "Arrival to last token; grows with the length of answers."
    return Row(
        title="Latency: what users feel",
        panels=(
            _latency("Time to first token", TTFT.signal, first, "time-to-first-token", _BOUND),
            _latency("Inter-token latency", "inter_token_latency_seconds", between, "inter-token-latency"),
            _latency("End-to-end latency", "end_to_end_latency_seconds", whole, "end-to-end-latency"),
        ),
    )


def _requests_held() -> Panel:
    text = "Requests in the engines' batches, and queued for room, of the pods that report."
    running, waiting = (gauge("max", f"requests_{what}", _LEVEL, what) for what in ("running", "waiting"))
    return Panel("Running and waiting", text, "running-and-waiting", queries=(running, waiting), width=6)


def _kv_cache() -> Panel:
    text = "Share of the KV cache that live requests hold: mean over capacity, and the fullest rank or pod."
    mean = gauge("max", "kv_cache_usage_ratio", _LEVEL, "mean")
    fullest = gauge("max", "kv_cache_usage_max_ratio", _LEVEL, "max")
    return Panel("KV cache in use", text, "kv-cache", queries=(mean, fullest), unit="percentunit", width=6)


def _load() -> Row:
    full = "Mean over reporting pods of the larger of queue and KV cache over their limits. The line is full."
    heard = "Share of known pods behind the numbers to the left. When it falls, they understate the load."
    saturation = (gauge("max", "saturation_ratio", _LEVEL),)
    reporting = (gauge("min", "reporting_ratio", _LEVEL),)
    return Row(
        title="Load: how full it is",
        panels=(
            _requests_held(),
            _kv_cache(),
            Panel(
                "Saturation",
                full,
                "saturation",
                queries=saturation,
                unit="percentunit",
                limits=(_FULL,),
                width=6,
            ),
            Panel("Reporting", heard, "reporting", queries=reporting, unit="percentunit", width=6),
        ),
    )


def _outcomes() -> Panel:
    query = rate_of("requests", _LEVEL, window=RATE_INTERVAL, by=("outcome",), **_CHOSEN)
    text = "Requests finished per second, by how they ended."
    queries = (Query(query, "{{outcome}}"),)
    return Panel("Requests by outcome", text, "requests", draw=Draw.STACK, queries=queries, unit="reqps")


def _tokens() -> Panel:
    text = "Prompt tokens taken in (cached ones included) and tokens generated, per second."
    queries = tuple(
        Query(rate_of(f"{way}_tokens", _LEVEL, window=RATE_INTERVAL, **_CHOSEN), f"{_WHO} {way}")
        for way in ("prompt", "generation")
    )
    return Panel("Tokens", text, "tokens", queries=queries, unit="suffix: tokens/s")


def _prefix_cache() -> Panel:
    text = "Share of looked-up prompt tokens found in the engines' prefix caches; no line without look-ups."
    query = share_of("prefix_cache_hit_ratio", _LEVEL, window=RATE_INTERVAL, **_CHOSEN)
    return Panel("Prefix-cache hits", text, "prefix-cache", queries=(Query(query, _WHO),), unit="percentunit")


def _pods_now() -> Panel:
    text = "Each pod's state, load and age of its last good sample. A silent pod keeps state and age only."
    by = (*LEVEL_LABELS[Level.POD], "state")
    sampled = fold_of("max", "last_sample_timestamp_seconds", Level.POD, **_CHOSEN)
    columns = (
        Query(f"{fold_of('max', 'state', Level.POD, by=by, **_CHOSEN)} == 1"),
        Query(fold_of("max", "requests_running", Level.POD, **_CHOSEN), "Running"),
        Query(fold_of("max", "requests_waiting", Level.POD, **_CHOSEN), "Waiting"),
        Query(fold_of("max", "kv_cache_usage_ratio", Level.POD, **_CHOSEN), "KV cache", "percentunit"),
        Query(f"time() - {sampled}", "Age", "s"),
    )
    return Panel("Pods now", text, "pods", draw=Draw.TABLE, queries=columns, width=16)


def _pods() -> Row:
    text = "Known pods by state. Only fresh, warming and no_progress ones carry load numbers."
    over_time = Panel("Pods over time", text, "pods", draw=Draw.STACK, queries=(_PODS,))
    return Row(title="Pods: who serves it", panels=(over_time, _pods_now()))


def _internals() -> Row:
    parts = (
        ("Queue time", "queue_time_seconds", "Time requests waited in the engine."),
        ("Prefill time", "prefill_time_seconds", "Per finished request: scheduled to first token."),
        ("Decode time", "decode_time_seconds", "Per finished request: first to last token."),
    )
    silent = "No line where the engine does not say."
    panels = (_latency(title, name, f"{text} {silent}", "internals") for title, name, text in parts)
    return Row(title="Inside the engines", panels=tuple(panels), collapsed=True)


_HOW_TO_READ = """\
**Now** says whether users are served well, **Latency** what they feel, **Load** why, **Traffic** what is
asked, **Pods** by whom.

Look at *Reporting* first: load numbers are of the pods that report, overloaded pods fall silent, and then
the numbers look better than things are. Latency up with saturation near 100 % is too little room; latency up
without it is the engine, the model or longer prompts. No data is not zero: an engine that does not state a
number has no line."""


def _how_to_read() -> Row:
    panel = Panel("Reading", _HOW_TO_READ, "pool", draw=Draw.TEXT, width=24, height=5)
    return Row(title="How to read this board", panels=(panel,))


POOL = Board(
    uid="llm-pool",
    title="LLM pool",
    question="How is this model served?",
    variables=choices(_LEVEL, "pods"),
    rows=(
        Row(
            title="Now",
            panels=(_requests(), _ttft(), _errors(), _saturation(), _reporting(), _budget(), _states()),
        ),
        _latencies(),
        _load(),
        Row(title="Traffic: what it does", panels=(_outcomes(), _tokens(), _prefix_cache())),
        _pods(),
        _internals(),
        _how_to_read(),
    ),
    annotations=(Query("ALERTS" + braces({"alertstate": "firing", **_CHOSEN}), "Firing alerts"),),
)
