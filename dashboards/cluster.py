"""The board of clusters: which pool needs attention?"""

from alerts.parts import reporting_share, weighted
from alerts.promql import RATE_INTERVAL, fold_of, quantile_of, rate_of, selector, share_of
from alerts.slo import Settings
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import (
    OUTCOME_COLORS,
    STATE_COLORS,
    TO_POD,
    TO_POOL,
    TOKENS_PER_SECOND,
    alerts,
    how_to_read,
    number,
    reloads,
    restarts,
    states,
)
from dashboards.limits import Limits
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.queries import BETWEEN_TOKENS, FIRST_TOKEN, QUANTILE, WHOLE, Scope, choices, chosen, who, worst

_HERE = Scope(Level.CLUSTER)
_CHOSEN = chosen(Level.CLUSTER)
_POOL = who(Level.POOL)


def _now(limits: Limits) -> Row:
    requests = _HERE.rate("requests", by=())
    ttft = _HERE.quantile("$quantile", FIRST_TOKEN, by=())
    errors = _HERE.share("error_ratio", by=())
    saturation = Query(f"max({weighted('saturation_ratio', Level.POOL, **_CHOSEN)})")
    reporting = worst("min", _HERE.reporting())
    waiting = _HERE.gauge("sum", "requests_waiting", by=())
    return Row(
        title="Now",
        panels=(
            number("Requests", "Requests finished per second.", "requests", requests, unit="reqps"),
            number("TTFT", "Time to first token at the chosen quantile; red above the objective's bound.",
                   "time-to-first-token", ttft, unit="s", limits=limits.bound(FIRST_TOKEN), below="green"),
            number("Errors", "Share of finished requests that ended in an error.", "errors", errors, unit="percentunit",
                   limits=limits.errors, below="green"),
            number("Fullest pool", "Saturation of the fullest pool: at 100% it has no room.", "saturation", saturation,
                   unit="percentunit", limits=limits.saturation, below="green"),
            number("Waiting", "Requests queued in all engines.", "running-and-waiting", waiting),
            number("Reporting", "Share of known pods whose numbers are current. Overloaded pods fall silent.", "reporting",
                   reporting, unit="percentunit", limits=limits.reporting, below="red"),
            states(_HERE, "pods", "Known pods by what their numbers are worth at this moment."),
        ),
    )  # fmt: skip


def _columns(limits: Limits, level: Level, *described: str) -> tuple[Query, ...]:
    """Key numbers of each cluster or pool, and what it is, side by side."""
    labels = ", ".join((*LEVEL_LABELS[level], *described))
    return (
        Query(f"max by ({labels}) ({selector('info', level, **_CHOSEN)})"),
        Query(rate_of("requests", level, window=RATE_INTERVAL, **_CHOSEN), "Requests", "reqps"),
        Query(
            quantile_of("$quantile", FIRST_TOKEN, level, window=RATE_INTERVAL, **_CHOSEN), "TTFT", "s", limits.bound(FIRST_TOKEN)
        ),
        Query(share_of("error_ratio", level, window=RATE_INTERVAL, **_CHOSEN), "Errors", "percentunit", limits.errors),
        Query(weighted("saturation_ratio", level, **_CHOSEN), "Saturation", "percentunit", limits.saturation, "green"),
        Query(fold_of("sum", "requests_waiting", level, **_CHOSEN), "Waiting", "short"),
        Query(weighted("kv_cache_usage_ratio", level, **_CHOSEN), "KV cache", "percentunit", limits.kv_cache, "green"),
        Query(fold_of("max", "imbalance_ratio", level, **_CHOSEN), "Imbalance", "short", limits.imbalance, "green"),
        Query(reporting_share(level, **_CHOSEN), "Reporting", "percentunit", limits.reporting, "red"),
    )


def _tables(limits: Limits) -> Row:
    """A line per cluster and per pool; the worst is found by sorting."""
    text = "at this moment. An empty cell: the engine does not tell, or no traffic."
    to_pool = (
        Link(title="This pool", board="llm-pool", column="pool"),
        Link(title="Its objectives", board="llm-slo", column="pool"),
        Link(title="Its adapters", board="llm-adapters", column="pool"),
    )
    return Row(
        title="Pools: which one needs attention",
        panels=(
            Panel("Pools now", f"Every pool {text} Click a pool's name to see it.", "pools", draw=Draw.TABLE,
                  queries=_columns(limits, Level.POOL, "model", "engine"), links=to_pool,
                  first=("pool",), sort="Saturation", width=24, height=9),
            Panel("Clusters now", f"Every cluster {text} Saturation and imbalance are over all its pods.", "pools",
                  draw=Draw.TABLE, queries=_columns(limits, Level.CLUSTER, "region", "version"), first=("cluster",), width=24,
                  height=5),
        ),
    )  # fmt: skip


def _of_pools(
    title: str, text: str, anchor: str, query: str, *, unit: str, limits: tuple[Limit, ...] = (), width: int = 8
) -> Panel:
    return Panel(title, text, anchor, queries=(Query(query, _POOL),), unit=unit, limits=limits, links=(TO_POOL,), width=width)


def _latency(limits: Limits) -> Row:
    parts = (
        ("Time to first token", FIRST_TOKEN, "Arrival to first token, at the chosen quantile.", "time-to-first-token"),
        ("Inter-token latency", BETWEEN_TOKENS, "Gap between successive outputs.", "inter-token-latency"),
        ("End-to-end latency", WHOLE, "Arrival to last token.", "end-to-end-latency"),
    )
    panels = [
        _of_pools(title, text, anchor, quantile_of("$quantile", name, Level.POOL, window=RATE_INTERVAL, **_CHOSEN), unit="s",
                  limits=limits.bound(name))
        for title, name, text, anchor in parts
    ]  # fmt: skip
    return Row(title="Latency by pool: what users feel", panels=tuple(panels))


def _load(limits: Limits) -> Row:
    level = Level.POOL
    silent_pods = "Read it beside Reporting: pods fall silent when overloaded, and then the rest looks better than it is."
    saturation = weighted("saturation_ratio", level, **_CHOSEN)
    reporting = reporting_share(level, **_CHOSEN)
    imbalance = fold_of("max", "imbalance_ratio", level, **_CHOSEN)
    kv_cache = (_HERE.mean("kv_cache_usage_ratio", "mean"), _HERE.gauge("max", "kv_cache_usage_max_ratio", "max"))
    return Row(
        title="Load by pool: how full, how even",
        panels=(
            _of_pools("Saturation", f"The line is full. {silent_pods}", "saturation", saturation, unit="percentunit",
                      limits=(limits.full,), width=6),
            _of_pools("Reporting", "Share of known pods behind the numbers to the left.", "reporting", reporting,
                      unit="percentunit", width=6),
            _of_pools("Imbalance", "Load of the busiest pod over the mean: 1 is even. At the upper line an alert fires.",
                      "balance", imbalance, unit="short", limits=limits.imbalance, width=6),
            Panel("KV cache in use", "Share of all KV caches that live requests hold: mean over capacity, and the fullest.",
                  "kv-cache", queries=kv_cache, unit="percentunit", width=6),
        ),
    )  # fmt: skip


def _traffic() -> Row:
    by_pool = Query(rate_of("requests", Level.POOL, window=RATE_INTERVAL, **_CHOSEN), _POOL)
    outcomes = _HERE.rate("requests", "{{outcome}}", by=("outcome",))
    tokens = tuple(_HERE.rate(f"{way}_tokens", way) for way in ("prompt", "generation"))
    return Row(
        title="Traffic: where it goes",
        panels=(
            Panel("Requests by pool", "Requests finished per second.", "requests", draw=Draw.STACK, queries=(by_pool,),
                  unit="reqps", links=(TO_POOL,)),
            Panel("Requests by outcome", "Requests finished per second, by how they ended.", "requests", draw=Draw.STACK,
                  queries=(outcomes,), unit="reqps", colors=OUTCOME_COLORS),
            Panel("Tokens", "Prompt tokens taken in (cached ones included) and tokens generated, per second.", "tokens",
                  queries=tokens, unit=TOKENS_PER_SECOND),
        ),
    )  # fmt: skip


def _pods(limits: Limits) -> Row:
    level = Level.POD
    by = (*LEVEL_LABELS[level], "state")
    silent = f"{fold_of('max', 'state', level, by=by, state='=~stale|down|no_progress|terminating', **_CHOSEN)} == 1"
    age = f"time() - {fold_of('max', 'last_sample_timestamp_seconds', level, **_CHOSEN)}"
    only = f"({age}) and on ({', '.join(LEVEL_LABELS[level])}) ({silent})"
    columns = (Query(silent), Query(only, "Age", "s", limits.age))
    over_time = _HERE.gauge("sum", "pods", "{{state}}", by=("state",))
    link = Link(title=TO_POD.title, board=TO_POD.board, level=level, column="pod")
    return Row(
        title="Pods: who is missing",
        panels=(
            Panel("Pods over time", "Known pods by state. Only fresh, warming and no_progress ones carry load numbers.", "pods",
                  draw=Draw.STACK, queries=(over_time,), colors=STATE_COLORS, width=12),
            Panel("Pods in trouble", "Pods that are silent, stuck or leaving, and the age of their last good sample.", "pods",
                  draw=Draw.TABLE, queries=columns, links=(link,), first=("pod", "state"), sort="Age", colors=STATE_COLORS,
                  silent="none: every pod reports", width=12),
        ),
    )  # fmt: skip


def _inside() -> Row:
    held = (*(_HERE.gauge("sum", f"requests_{what}", what) for what in ("running", "waiting")),
            _HERE.gauge("sum", "requests_max", "limit"))  # fmt: skip
    refused = (_HERE.rate("rejected_requests", "rejected"), _HERE.rate("preemptions", "preempted"))
    hits = (_HERE.share("prefix_cache_hit_ratio", "in the engine"),)
    spread = (_HERE.gauge("max", "load_variation_ratio", "variation"), _HERE.gauge("max", "imbalance_ratio", "imbalance"))
    return Row(
        title="All engines together",
        collapsed=True,
        panels=(
            Panel("Running and waiting", "Requests in batches and in queues of the pods that report, and the limit where servers "
                  "state one.", "running-and-waiting", queries=held, width=6),
            Panel("Rejected and preempted", "Requests that full engines refused, and running ones pushed back for want of KV "
                  "cache, "
                  "per second.", "preemptions", queries=refused, unit="ops", width=6),
            Panel("Prefix-cache hits", "Share of looked-up prompt tokens found in the engines' own caches.", "prefix-cache",
                  queries=hits, unit="percentunit", width=6),
            Panel("Evenness", "Over all pods of the cluster: the busiest over the mean, and standard deviation over mean.",
                  "balance", queries=spread, width=6),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
**Now** is the whole choice at once. **Pools** is where to start: sort by a column, click a name. **Latency** and **Load** are
the same pools over time.

Look at *Reporting* first: load numbers are of the pods that report, overloaded pods fall silent, and then the numbers look
better than things are. A pool with high latency and saturation near 100 % lacks room; one with high *Imbalance* lacks a better
spread, not more pods. No data is not zero: an engine that does not state a number has an empty cell and no line."""


def cluster(settings: Settings) -> Board:
    """The board of clusters."""
    limits = Limits(settings)
    return Board(
        uid="llm-cluster",
        title="LLM cluster",
        question="Which pool of this cluster needs attention?",
        variables=(*choices(Level.CLUSTER), QUANTILE),
        rows=(
            _now(limits),
            _tables(limits),
            _latency(limits),
            _load(limits),
            _traffic(),
            _pods(limits),
            _inside(),
            how_to_read(_HOW_TO_READ, "cluster"),
        ),
        annotations=(alerts(Level.CLUSTER), *restarts(Level.CLUSTER), reloads({})),
    )
