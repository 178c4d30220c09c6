"""The board of pools: how is this model served?"""

from alerts.burn import budget_left
from alerts.promql import RATE_INTERVAL, fold_of, increase_of, within_of
from alerts.slo import BUDGET_WINDOW, E2E, ITL, OBJECTIVES, TTFT, LatencyObjective
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import (
    AGE,
    BAD,
    BUDGET,
    ERRORS,
    FULL,
    GOOD,
    IMBALANCE,
    KV_CACHE,
    OUTCOME_COLORS,
    REPORTING,
    SATURATION,
    STATE_COLORS,
    TO_POD,
    TOKENS,
    TOKENS_PER_SECOND,
    alerts,
    how_to_read,
    number,
    reloads,
    restarts,
    states,
)  # fmt: skip
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.pool_engines import INSIDE
from dashboards.queries import QUANTILE, Scope, choices, chosen, who

_HERE = Scope(Level.POOL)
_CHOSEN = chosen(Level.POOL)
_BOUND = Limit(TTFT.bound_seconds, BAD)


def _now() -> Row:
    requests = _HERE.rate("requests", by=())
    ttft = _HERE.quantile(0.99, TTFT.signal, by=())
    errors = _HERE.share("error_ratio", by=())
    saturation = _HERE.gauge("max", "saturation_ratio", by=())
    reporting = _HERE.gauge("min", "reporting_ratio", by=())
    budget = Query(f"min({budget_left(TTFT, **_CHOSEN)})")
    return Row(
        title="Now",
        panels=(
            number("Requests", "Requests finished per second.", "requests", requests, unit="reqps"),
            number("TTFT p99", f"99 of 100 requests have their first token by then; red above {TTFT.bound_seconds:g} s.",
                   "time-to-first-token", ttft, unit="s", limits=(_BOUND,), below="green"),
            number("Errors", "Share of finished requests that ended in an error; no data without traffic.", "errors", errors,
                   unit="percentunit", limits=ERRORS, below="green"),
            number("Saturation", "Load of the fullest pool over what it can take, of pods that report: read it beside Reporting.",
                   "saturation", saturation, unit="percentunit", limits=SATURATION, below="green"),
            number("Reporting", "Share of known pods whose numbers are current, in the worst pool. Overloaded pods fall silent.",
                   "reporting", reporting, unit="percentunit", limits=REPORTING, below="red"),
            number("TTFT budget",
                   f"Error budget of {TTFT.title} left over {BUDGET_WINDOW}, in the worst pool; overspent below 0.",
                   "error-budget", budget, unit="percentunit", limits=BUDGET, below="red"),
            states(_HERE, "pods", "Known pods by what their numbers are worth at this moment."),
        ),
    )  # fmt: skip


def _latency(title: str, name: str, text: str, anchor: str, *limits: Limit) -> Panel:
    return Panel(title, text, anchor, queries=(_HERE.quantile("$quantile", name),), unit="s", limits=limits)


def _latencies() -> Row:
    judged = tuple(one for one in OBJECTIVES if isinstance(one, LatencyObjective))
    bounds = {one.signal: Limit(one.bound_seconds, BAD) for one in judged}
    shares = []
    for one in judged:
        within = within_of(one.signal, Level.POOL, one.bound_seconds, window=RATE_INTERVAL, **_CHOSEN)
        whole = increase_of(one.signal, Level.POOL, window=RATE_INTERVAL, **_CHOSEN)
        shares.append(Query(f"{within} / ({whole} > 0)", f"{who(Level.POOL)} {one.slug}"))
    told = ", ".join(f"{one.title} {one.bound_seconds:g} s" for one in judged)
    spread = "How many requests had their first token how soon: two bands are two kinds of requests, which a quantile hides."
    parts = (
        ("Time to first token", TTFT.signal,
         f"Arrival to first token. The objective: {TTFT.objective * 100:g}% of requests below the line."),
        ("Inter-token latency", ITL.signal, "Gap between successive outputs of one request. The line is the objective's bound."),
        ("End-to-end latency", E2E.signal, "Arrival to last token; grows with the length of answers. The line is the objective's "
         "bound."),
    )  # fmt: skip
    return Row(
        title="Latency: what users feel",
        panels=(
            *(_latency(title, name, text, title.lower().replace(" ", "-"), bounds[name]) for title, name, text in parts),
            Panel("Time to first token, all requests", spread, "time-to-first-token", draw=Draw.HEATMAP,
                  queries=(_HERE.buckets(TTFT.signal),), unit="s", width=12),
            Panel("Goodput", f"Share of events within the bounds of the objectives ({told}). The line is the objective.",
                  "goodput", queries=tuple(shares), unit="percentunit", limits=(Limit(TTFT.objective, GOOD),), top=1.0,
                  width=12),
        ),
    )  # fmt: skip


def _load() -> Row:
    held = (*(_HERE.gauge("max", f"requests_{what}", what) for what in ("running", "waiting")),
            _HERE.gauge("max", "requests_max", "limit"))  # fmt: skip
    kv_cache = (_HERE.gauge("max", "kv_cache_usage_ratio", "mean"), _HERE.gauge("max", "kv_cache_usage_max_ratio", "max"))
    full = "Mean over reporting pods of the larger of queue and KV cache over their limits. The line is full."
    heard = "Share of known pods behind all these numbers. When it falls, they understate the load."
    balance = (_HERE.gauge("max", "imbalance_ratio", "busiest / mean"), _HERE.gauge("max", "load_variation_ratio", "variation"))
    refused = (_HERE.rate("rejected_requests", "rejected"), _HERE.rate("preemptions", "preempted"))
    flow = "How fast the queue grows (above 0) or drains (below), in requests per second."
    return Row(
        title="Load: how full it is",
        panels=(
            Panel("Saturation", full, "saturation", queries=(_HERE.gauge("max", "saturation_ratio"),), unit="percentunit",
                  limits=(FULL,), width=6),
            Panel("Reporting", heard, "reporting", queries=(_HERE.gauge("min", "reporting_ratio"),), unit="percentunit", width=6),
            Panel("Queue growth", flow, "running-and-waiting", queries=(_HERE.slope("requests_waiting"),), unit="reqps",
                  signed=True, width=6),
            Panel("Rejected and preempted", "Requests that full engines refused, and running ones pushed back for want of KV "
                  "cache, per second.", "preemptions", queries=refused, unit="ops", width=6),
            Panel("Running and waiting", "Requests in the engines' batches, and queued for room, of the pods that report; and "
                  "how many the servers take at most, where they say.", "running-and-waiting", queries=held),
            Panel("KV cache in use", "Share of the KV cache that live requests hold: mean over capacity, and the fullest rank or "
                  "pod.", "kv-cache", queries=kv_cache, unit="percentunit"),
            Panel("Evenness", "Load of the busiest pod over the mean (1 is even; an alert fires at the upper line), and standard "
                  "deviation over mean.", "balance", queries=balance, limits=IMBALANCE),
        ),
    )  # fmt: skip


def _traffic() -> Row:
    outcomes = _HERE.rate("requests", "{{outcome}}", by=("outcome",))
    tokens = tuple(_HERE.rate(f"{way}_tokens", way) for way in ("prompt", "generation"))
    broken = (_HERE.share("error_ratio", "errors"), _HERE.share("abort_ratio", "aborted"))
    sizes = tuple(_HERE.quantile("$quantile", f"request_{way}_tokens", what) for way, what in
                  (("prompt", "prompt"), ("generation", "answer")))  # fmt: skip
    return Row(
        title="Traffic: what is asked of it",
        panels=(
            Panel("Requests by outcome", "Requests finished per second, by how they ended.", "requests", draw=Draw.STACK,
                  queries=(outcomes,), unit="reqps", colors=OUTCOME_COLORS, width=12),
            Panel("Errors and aborts", "Share of finished requests that failed, and that were broken off, mostly by the client.",
                  "errors", queries=broken, unit="percentunit", limits=ERRORS, width=12),
            Panel("Tokens", "Prompt tokens taken in (cached ones included) and tokens generated, per second.", "tokens",
                  queries=tokens, unit=TOKENS_PER_SECOND, width=12),
            Panel("Length of prompts and answers", "Tokens per request, at the chosen quantile. Longer ones cost more of "
                  "everything.", "tokens", queries=sizes, unit=TOKENS, width=12),
        ),
    )  # fmt: skip


def _pods_now() -> Panel:
    text = "Each pod's state, load and age of its last good sample. A silent pod keeps state and age only. Click a pod to see it."
    by = (*LEVEL_LABELS[Level.POD], "state")
    sampled = fold_of("max", "last_sample_timestamp_seconds", Level.POD, **_CHOSEN)
    columns = (
        Query(f"{fold_of('max', 'state', Level.POD, by=by, **_CHOSEN)} == 1"),
        Query(fold_of("max", "requests_running", Level.POD, **_CHOSEN), "Running", "short"),
        Query(fold_of("max", "requests_waiting", Level.POD, **_CHOSEN), "Waiting", "short"),
        Query(fold_of("max", "kv_cache_usage_ratio", Level.POD, **_CHOSEN), "KV cache", "percentunit", KV_CACHE, "green"),
        Query(f"time() - {sampled}", "Age", "s", AGE, "green"),
    )
    link = Link(title=TO_POD.title, board=TO_POD.board, level=Level.POD, column="pod")
    return Panel("Pods now", text, "pods", draw=Draw.TABLE, queries=columns, links=(link,), first=("pod", "state"),
                 sort="Waiting", colors=STATE_COLORS, width=16)  # fmt: skip


def _pods() -> Row:
    text = "Known pods by state. Only fresh, warming and no_progress ones carry load numbers."
    over_time = _HERE.gauge("sum", "pods", "{{state}}", by=("state",))
    legend = who(Level.POD)
    use = Query(fold_of("max", "kv_cache_usage_ratio", Level.POD, **_CHOSEN), legend)
    waiting = Query(fold_of("max", "requests_waiting", Level.POD, **_CHOSEN), legend)
    return Row(
        title="Pods: who serves it",
        panels=(
            Panel("Pods over time", text, "pods", draw=Draw.STACK, queries=(over_time,), colors=STATE_COLORS),
            _pods_now(),
            Panel("Waiting by pod", "Requests queued in each pod: one line above the others is uneven routing or a slow pod.",
                  "running-and-waiting", queries=(waiting,), links=(TO_POD,), width=12),
            Panel("KV cache by pod", "Share of its KV cache that live requests of each pod hold.", "kv-cache", queries=(use,),
                  unit="percentunit", links=(TO_POD,), width=12),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
**Now** says whether users are served well, **Latency** what they feel, **Load** why, **Traffic** what is
asked, **Pods** by whom.

Look at *Reporting* first: load numbers are of the pods that report, overloaded pods fall silent, and then
the numbers look better than things are. Latency up with saturation near 100 % is too little room; latency up
without it is the engine, the model or longer prompts. No data is not zero: an engine that does not state a
number has no line."""

POOL = Board(
    uid="llm-pool",
    title="LLM pool",
    question="How is this model served?",
    variables=(*choices(Level.POOL), QUANTILE),
    rows=(_now(), _latencies(), _load(), _traffic(), _pods(), *INSIDE, how_to_read(_HOW_TO_READ, "pool")),
    annotations=(alerts(Level.POOL), *restarts(Level.POOL), reloads({})),
)
