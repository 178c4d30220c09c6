"""The board of LoRA adapters: which are in use, where, and is there room for them?"""

from alerts.promql import RATE_INTERVAL, fold_of, quantile_of, selector
from alerts.slo import Settings
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import TO_POD, alerts, how_to_read, number, restarts
from dashboards.limits import BAD, WARN, Limits
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row, Variable
from dashboards.queries import FIRST_TOKEN, Scope, choices, chosen, who, worst

_HERE = Scope(Level.POOL)
_CHOSEN = chosen(Level.POOL)
_ADAPTER = {"adapter": "=~$adapter"}
_OF_POOL = LEVEL_LABELS[Level.POOL]
_FULL = (Limit(0.8, WARN), Limit(1, BAD))
_IDLE = "none has work at this moment"
_NOT_APART = "no data: the engine does not tell what waits apart from what runs (vLLM from 0.11.1)"


def _filled(by: tuple[str, ...]) -> str:
    """Adapters with work over the slots of each pod; 1 is full."""
    working, slots = (fold_of("max", f"adapters_{what}", Level.POD, **_CHOSEN) for what in ("running", "max"))
    return f"max by ({', '.join(by)}) ({working} / ({slots} > 0))" if by else f"max({working} / ({slots} > 0))"


def _now(limits: Limits) -> Row:
    working = Query(f"count(count by (adapter) ({selector('adapter_pods', Level.POOL, **_CHOSEN, **_ADAPTER)}))")
    slots = _HERE.gauge("sum", "adapters_max", by=())
    deferred = _HERE.gauge("sum", "requests_waiting_by_reason", by=(), reason="deferred")
    loaded = _HERE.gauge("max", "adapters_loaded", by=())
    return Row(
        title="Now",
        panels=(
            number("In use", "Different adapters with work at this moment.", "adapters", working, width=4,
                   silent=_IDLE),
            number("Loaded", "Adapters that the servers have loaded, in the pool with the most.", "adapters", loaded, width=4),
            number("Slots", "Adapters that fit into the batches of all pods that report.", "adapters", slots, width=4),
            number("Fullest pod", "Adapters with work over slots, in the fullest pod: at 100% others have to wait.", "adapters",
                   Query(_filled(())), unit="percentunit", limits=_FULL, below="green", width=4),
            number("Held back", "Requests waiting because they are deferred: for an adapter's slot, or for a transfer.",
                   "internals",
                   deferred, limits=(Limit(1, WARN), Limit(10, BAD)), below="green", width=4),
            number("Reporting", "Share of known pods whose numbers are current, in the worst pool.", "reporting",
                   worst("min", _HERE.reporting()), unit="percentunit", limits=limits.reporting,
                   below="red", width=4),
        ),
    )  # fmt: skip


def _where() -> Row:
    pods = fold_of("max", "adapter_pods", Level.POOL, by=(*_OF_POOL, "adapter"), **_CHOSEN, **_ADAPTER)
    reporting = fold_of("sum", "pods", Level.POOL, state="=~fresh|warming|no_progress", **_CHOSEN)
    of_all = f"{pods} / on ({', '.join(_OF_POOL)}) group_left () {reporting}"
    columns = (Query(pods, "Pods", "short"), Query(of_all, "Share of pods", "percentunit"))
    changes = selector("adapter_pods", Level.POOL, **_CHOSEN, **_ADAPTER)
    moves = f"sum by (adapter) (changes({changes}[10m]))"
    to_pool = Link(title="This pool", board="llm-pool", column="pool")
    return Row(
        title="Where: which adapter is on which pods",
        panels=(
            Panel("Adapters now", "Adapters with work, and on how many of the reporting pods.", "adapters", draw=Draw.TABLE,
                  queries=columns, links=(to_pool,), first=("adapter",), sort="Pods", silent=_IDLE),
            Panel("Pods with the adapter", "Reporting pods on which the adapter has work: more pods, more copies in memory.",
                  "adapters", draw=Draw.STACK, queries=(Query(pods, "{{pool}} {{adapter}}"),), silent=_IDLE),
            Panel("Moves", "How often the number of an adapter's pods changed within 10 minutes: churn is loading and evicting.",
                  "adapters", queries=(Query(moves, "{{adapter}}"),), silent=_IDLE),
        ),
    )  # fmt: skip


def _room(limits: Limits) -> Row:
    by = LEVEL_LABELS[Level.POD]
    used = (
        _HERE.gauge("max", "adapters_running", "with work"),
        _HERE.gauge("max", "adapters_loaded", "loaded"),
        _HERE.gauge("sum", "adapters_max", "slots"),
    )
    waiting = _HERE.gauge("max", "adapters_waiting", "adapters")
    held = _HERE.gauge("sum", "requests_waiting_by_reason", "deferred requests", reason="deferred")
    return Row(
        title="Room: do they fit",
        panels=(
            Panel("Slots in use, by pod", "Adapters with work over those that fit into one batch. On the line, requests for "
                  "another adapter wait although there is room otherwise.", "adapters", queries=(Query(_filled(by),
                  who(Level.POD)),),
                  unit="percentunit", limits=(_FULL[-1],), links=(TO_POD,)),
            Panel("Adapters in the pool", "Different adapters with work, loaded, and slots of all pods.", "adapters",
                  queries=used),
            Panel("Held back", "Requests that are deferred although there is room otherwise.", "internals", queries=(held,)),
            Panel("Adapters that wait", "Adapters with waiting work, where the engine tells it apart.", "adapters",
                  queries=(waiting,), silent=_NOT_APART),
            Panel("Time to first token", "Of the pool, at 99 %: what waiting for a slot does to users.", "time-to-first-token",
                  queries=(Query(quantile_of(0.99, FIRST_TOKEN, Level.POOL, window=RATE_INTERVAL, **_CHOSEN), who(Level.POOL)),),
                  unit="s", limits=limits.bound(FIRST_TOKEN)),
            Panel("Prefix-cache hits", "An adapter's cache entries are its own: spreading it over pods thins them out.",
                  "prefix-cache", queries=(_HERE.share("prefix_cache_hit_ratio"),), unit="percentunit", top=1.0),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
A pod serves only so many adapters in one batch (its slots). When all are taken, a request for another adapter waits although
the pod has room otherwise: *Fullest pod* at 100 % with *Held back* above zero. Then more slots (`--max-loras`), or a picker that
keeps an adapter on few pods. An adapter on all pods costs memory and cache hits everywhere.

vLLM names the adapters with work; SGLang tells only how many slots are used, TGI nothing."""


def adapters(settings: Settings) -> Board:
    """The board of LoRA adapters."""
    limits = Limits(settings)
    return Board(
        uid="llm-adapters",
        title="LLM adapters",
        question="Which LoRA adapters are in use, where, and is there room for them?",
        variables=(
            *choices(Level.POOL),
            Variable("adapter", f"label_values({selector('adapter_pods', Level.POOL, **_CHOSEN)}, adapter)"),
        ),
        rows=(_now(limits), _where(), _room(limits), how_to_read(_HOW_TO_READ, "adapters")),
        annotations=(alerts(Level.POOL), *restarts(Level.POOL)),
    )
