"""The board of pools: how is this model served?"""

from collections.abc import Iterator

from alerts.burn import budget_left
from alerts.promql import RATE_INTERVAL, fold_of, increase_of, within_of
from alerts.slo import LatencyObjective, Settings
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import (
    OUTCOME_COLORS,
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
)
from dashboards.limits import BUDGET, GOOD, Limits
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.pool_engines import INSIDE
from dashboards.queries import BETWEEN_TOKENS, FIRST_TOKEN, QUANTILE, WHOLE, Scope, choices, chosen, who, worst

_HERE = Scope(Level.POOL)
_CHOSEN = chosen(Level.POOL)


def _now(limits: Limits) -> Row:
    requests = _HERE.rate("requests", by=())
    ttft = _HERE.quantile(0.99, FIRST_TOKEN, by=())
    errors = _HERE.share("error_ratio", by=())
    saturation = worst("max", _HERE.mean("saturation_ratio"))
    reporting = worst("min", _HERE.reporting())
    return Row(
        title="Now",
        panels=(
            number("Requests", "Requests finished per second.", "requests", requests, unit="reqps"),
            number("TTFT p99", "99 of 100 requests have their first token by then; red above the objective's bound.",
                   "time-to-first-token", ttft, unit="s", limits=limits.bound(FIRST_TOKEN), below="green"),
            number("Errors", "Share of finished requests that ended in an error; no data without traffic.", "errors", errors,
                   unit="percentunit", limits=limits.errors, below="green"),
            number("Saturation", "Load of the fullest pool over what it can take, of pods that report: read it beside Reporting.",
                   "saturation", saturation, unit="percentunit", limits=limits.saturation, below="green"),
            number("Reporting", "Share of known pods whose numbers are current, in the worst pool. Overloaded pods fall silent.",
                   "reporting", reporting, unit="percentunit", limits=limits.reporting, below="red"),
            *_budget(limits),
            states(_HERE, "pods", "Known pods by what their numbers are worth at this moment."),
        ),
    )  # fmt: skip


def _budget(limits: Limits) -> Iterator[Panel]:
    objective, window = limits.objective(FIRST_TOKEN), limits.settings.budget_window
    if objective is not None:
        query = Query(f"min({budget_left(objective, **_CHOSEN)})")
        text = f"Error budget of {objective.title} left over {window}, in the worst pool; overspent below 0."
        yield number("TTFT budget", text, "error-budget", query, unit="percentunit", limits=BUDGET, below="red")


def _latency(limits: Limits, title: str, name: str, text: str) -> Panel:
    objective = limits.objective(name)
    asked = "" if objective is None else f" The objective: {objective.objective * 100:g}% below the line."
    anchor = title.lower().replace(" ", "-")
    return Panel(title, text + asked, anchor, queries=(_HERE.quantile("$quantile", name),), unit="s", limits=limits.bound(name))


def _goodput(limits: Limits) -> Iterator[Panel]:
    judged = [one for one in limits.settings.objectives if isinstance(one, LatencyObjective)]
    shares = []
    for one in judged:
        within = within_of(one.signal, Level.POOL, one.bound_seconds, window=RATE_INTERVAL, **_CHOSEN)
        whole = increase_of(one.signal, Level.POOL, window=RATE_INTERVAL, **_CHOSEN)
        shares.append(Query(f"{within} / ({whole} > 0)", f"{who(Level.POOL)} {one.slug}"))
    told = ", ".join(f"{one.title} {one.bound_seconds:g} s" for one in judged)
    lines = tuple(Limit(share, GOOD) for share in sorted({one.objective for one in judged}))
    if judged:
        yield Panel("Goodput", f"Share of events within the bounds of the objectives ({told}). The lines are the objectives.",
                    "goodput", queries=tuple(shares), unit="percentunit", limits=lines, top=1.0, width=12)  # fmt: skip


def _latencies(limits: Limits) -> Row:
    spread = "How many requests had their first token how soon: two bands are two kinds of requests, which a quantile hides."
    parts = (
        ("Time to first token", FIRST_TOKEN, "Arrival to first token."),
        ("Inter-token latency", BETWEEN_TOKENS, "Gap between successive outputs of one request."),
        ("End-to-end latency", WHOLE, "Arrival to last token; grows with the length of answers."),
    )
    return Row(
        title="Latency: what users feel",
        panels=(
            *(_latency(limits, title, name, text) for title, name, text in parts),
            Panel("Time to first token, all requests", spread, "time-to-first-token", draw=Draw.HEATMAP,
                  queries=(_HERE.buckets(FIRST_TOKEN),), unit="s", width=12),
            *_goodput(limits),
        ),
    )  # fmt: skip


def _load(limits: Limits) -> Row:
    held = (*(_HERE.gauge("sum", f"requests_{what}", what) for what in ("running", "waiting")),
            _HERE.gauge("sum", "requests_max", "limit"))  # fmt: skip
    kv_cache = (_HERE.mean("kv_cache_usage_ratio", "mean"), _HERE.gauge("max", "kv_cache_usage_max_ratio", "max"))
    full = "Mean over reporting pods of the larger of queue and KV cache over their limits. The line is full."
    heard = "Share of known pods behind all these numbers. When it falls, they understate the load."
    balance = (_HERE.gauge("max", "imbalance_ratio", "busiest / mean"), _HERE.gauge("max", "load_variation_ratio", "variation"))
    refused = (_HERE.rate("rejected_requests", "rejected"), _HERE.rate("preemptions", "preempted"))
    flow = "How fast the queue grows (above 0) or drains (below), in requests per second."
    return Row(
        title="Load: how full it is",
        panels=(
            Panel("Saturation", full, "saturation", queries=(_HERE.mean("saturation_ratio"),), unit="percentunit",
                  limits=(limits.full,), width=6),
            Panel("Reporting", heard, "reporting", queries=(_HERE.reporting(),), unit="percentunit", width=6),
            Panel("Queue growth", flow, "running-and-waiting", queries=(_HERE.slope("requests_waiting"),), unit="reqps",
                  signed=True, width=6),
            Panel("Rejected and preempted", "Requests that full engines refused, and running ones pushed back for want of KV "
                  "cache, per second.", "preemptions", queries=refused, unit="ops", width=6),
            Panel("Running and waiting", "Requests in the engines' batches, and queued for room, of the pods that report; and "
                  "how many the servers take at most, where they say.", "running-and-waiting", queries=held),
            Panel("KV cache in use", "Share of the KV cache that live requests hold: mean over capacity, and the fullest rank or "
                  "pod.", "kv-cache", queries=kv_cache, unit="percentunit"),
            Panel("Evenness", "Load of the busiest pod over the mean (1 is even; an alert fires at the upper line), and standard "
                  "deviation over mean.", "balance", queries=balance, limits=limits.imbalance),
        ),
    )  # fmt: skip


def _traffic(limits: Limits) -> Row:
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
                  "errors", queries=broken, unit="percentunit", limits=limits.errors, width=12),
            Panel("Tokens", "Prompt tokens taken in (cached ones included) and tokens generated, per second.", "tokens",
                  queries=tokens, unit=TOKENS_PER_SECOND, width=12),
            Panel("Length of prompts and answers", "Tokens per request, at the chosen quantile. Longer ones cost more of "
                  "everything.", "tokens", queries=sizes, unit=TOKENS, width=12),
        ),
    )  # fmt: skip


def _pods_now(limits: Limits) -> Panel:
    text = "Each pod's state, load and age of its last good sample. A silent pod keeps state and age only. Click a pod to see it."
    by = (*LEVEL_LABELS[Level.POD], "state")
    sampled = fold_of("max", "last_sample_timestamp_seconds", Level.POD, **_CHOSEN)
    columns = (
        Query(f"{fold_of('max', 'state', Level.POD, by=by, **_CHOSEN)} == 1"),
        Query(fold_of("max", "requests_running", Level.POD, **_CHOSEN), "Running", "short"),
        Query(fold_of("max", "requests_waiting", Level.POD, **_CHOSEN), "Waiting", "short"),
        Query(fold_of("max", "kv_cache_usage_ratio", Level.POD, **_CHOSEN), "KV cache", "percentunit", limits.kv_cache, "green"),
        Query(f"time() - {sampled}", "Age", "s", limits.age, "green"),
    )
    link = Link(title=TO_POD.title, board=TO_POD.board, level=Level.POD, column="pod")
    return Panel("Pods now", text, "pods", draw=Draw.TABLE, queries=columns, links=(link,), first=("pod", "state"),
                 sort="Waiting", colors=STATE_COLORS, width=16)  # fmt: skip


def _pods(limits: Limits) -> Row:
    text = "Known pods by state. Only fresh, warming and no_progress ones carry load numbers."
    over_time = _HERE.gauge("sum", "pods", "{{state}}", by=("state",))
    legend = who(Level.POD)
    use = Query(fold_of("max", "kv_cache_usage_ratio", Level.POD, **_CHOSEN), legend)
    waiting = Query(fold_of("max", "requests_waiting", Level.POD, **_CHOSEN), legend)
    return Row(
        title="Pods: who serves it",
        panels=(
            Panel("Pods over time", text, "pods", draw=Draw.STACK, queries=(over_time,), colors=STATE_COLORS),
            _pods_now(limits),
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


def pool(settings: Settings) -> Board:
    """The board of pools."""
    limits = Limits(settings)
    return Board(
        uid="llm-pool",
        title="LLM pool",
        question="How is this model served?",
        variables=(*choices(Level.POOL), QUANTILE),
        rows=(
            _now(limits),
            _latencies(limits),
            _load(limits),
            _traffic(limits),
            _pods(limits),
            *INSIDE,
            how_to_read(_HOW_TO_READ, "pool"),
        ),
        annotations=(alerts(Level.POOL), *restarts(Level.POOL), reloads({})),
    )
