"""The board of pods: can this replica take a request now, and if not, why?"""

from alerts.promql import selector
from alerts.slo import Settings
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import (
    OUTCOME_COLORS,
    STATES,
    TO_POOL,
    TOKENS,
    TOKENS_PER_SECOND,
    alerts,
    how_to_read,
    number,
    reloads,
    restarts,
    state_code,
)
from dashboards.limits import Limits
from dashboards.links import LOGS, TRACES
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.queries import Scope, choices, chosen

_HERE = Scope(Level.POD)
_CHOSEN = chosen(Level.POD)
_OF_POD = LEVEL_LABELS[Level.POD]


def _now(limits: Limits) -> Row:
    sampled = _HERE.gauge("min", "last_sample_timestamp_seconds", by=()).expression
    trouble = (
        f"sum({_HERE.gauge('max', 'state', by=(*_OF_POD, 'state'), state='=~stale|down|no_progress|terminating').expression})"
    )
    tokens = _HERE.rate("generation_tokens", by=())
    return Row(
        title="Now",
        panels=(
            number("In trouble", "Pods that are silent, stuck or leaving.", "pods", Query(trouble), limits=(Limit(1, "red"),),
                   below="green"),
            number("Oldest sample", "Age of the last good sample, of the pod that is longest silent.", "age",
                   Query(f"time() - {sampled}"), unit="s", limits=limits.age, below="green"),
            number("Running", "Requests in the engines' batches.", "running-and-waiting",
                   _HERE.gauge("sum", "requests_running", by=())),
            number("Waiting", "Requests queued in the engines.", "running-and-waiting",
                   _HERE.gauge("sum", "requests_waiting", by=())),
            number("KV cache", "Share of the KV cache in use in the fullest pod or rank.", "kv-cache",
                   _HERE.gauge("max", "kv_cache_usage_max_ratio", by=()), unit="percentunit", limits=limits.kv_cache,
                   below="green"),
            number("Tokens", "Tokens generated per second.", "tokens", tokens, unit=TOKENS_PER_SECOND),
            number("Errors", "Requests with outcome error, per second.", "errors",
                   _HERE.rate("requests", by=(), outcome="error"), unit="reqps", limits=(Limit(1e-9, "red"),), below="green"),
            number("Preemptions", "Running requests pushed back for want of KV cache, per second.", "preemptions",
                   _HERE.rate("preemptions", by=()), unit="ops", limits=limits.preemptions,
                   below="green"),
        ),
    )  # fmt: skip


def _states(limits: Limits) -> Row:
    text = "fresh is current; warming has not served yet; no_progress holds work and stands still; stale and down are silent."
    ages = (
        _HERE.gauge("max", "signal_age_seconds", "{{namespace}}/{{pod}}", by=_OF_POD, lane="fast"),
        _HERE.gauge("max", "signal_age_seconds", "oldest in the full lane", by=(), lane="full"),
    )
    return Row(
        title="State: is it heard, does it work",
        panels=(
            Panel("State over time", text, "pods", draw=Draw.TIMELINE, queries=(state_code(_HERE),), named=STATES, width=16),
            Panel("Age of its numbers", "Time since the last good sample of the fast lane (the picker's signals); and the oldest "
                  "of the full lane (all signals). The line is where an alert fires.", "age", queries=ages, unit="s",
                  limits=(limits.age[-1],)),
        ),
    )  # fmt: skip


def _load(limits: Limits) -> Row:
    held = tuple(_HERE.gauge("max", f"requests_{what}", what) for what in ("running", "waiting", "max"))
    kv_cache = (
        _HERE.gauge("max", "kv_cache_usage_ratio", "mean"),
        _HERE.gauge("max", "kv_cache_usage_max_ratio", "fullest rank"),
    )
    reasons = _HERE.gauge("sum", "requests_waiting_by_reason", "{{reason}}", by=("reason",))
    refused = (_HERE.rate("rejected_requests", "rejected"), _HERE.rate("preemptions", "preempted"))
    pool = Scope(Level.POOL)
    return Row(
        title="Load: how full it is",
        panels=(
            Panel("Running and waiting", "Requests in the batch and in the queue, and how many the server takes at most, where "
                  "it "
                  "says.", "running-and-waiting", queries=held),
            Panel("KV cache in use", "Share of the KV cache that live requests hold; near 100 % the engine preempts.", "kv-cache",
                  queries=kv_cache, unit="percentunit", limits=limits.kv_cache, top=1.0),
            Panel("Its pool's saturation", "How full the pool is: whether others could take over. The line is full.",
                  "saturation",
                  queries=(pool.mean("saturation_ratio"), pool.reporting("reporting")),
                  unit="percentunit", limits=(limits.full,), links=(TO_POOL,)),
            Panel("Waiting by reason", "capacity: no room. deferred: held back, for an adapter's slot or a transfer. grammar: "
                  "waiting for a grammar to be compiled.", "internals", queries=(reasons,), width=12),
            Panel("Rejected and preempted", "Requests that the full engine refused, and running ones pushed back for want of KV "
                  "cache, per second.", "preemptions", queries=refused, unit="ops", width=12),
        ),
    )  # fmt: skip


def _traffic() -> Row:
    outcomes = _HERE.rate("requests", "{{outcome}}", by=("outcome",))
    tokens = tuple(_HERE.rate(f"{way}_tokens", way) for way in ("prompt", "generation"))
    hits = (_HERE.share("prefix_cache_hit_ratio"),)
    return Row(
        title="Traffic: what it does",
        panels=(
            Panel("Requests by outcome", "Requests finished per second, by how they ended.", "requests", draw=Draw.STACK,
                  queries=(outcomes,), unit="reqps", colors=OUTCOME_COLORS),
            Panel("Tokens", "Prompt tokens taken in (cached ones included) and tokens generated, per second.", "tokens",
                  queries=tokens, unit=TOKENS_PER_SECOND),
            Panel("Prefix-cache hits", "Share of looked-up prompt tokens found in the engine's own prefix cache.", "prefix-cache",
                  queries=hits, unit="percentunit", top=1.0),
        ),
    )  # fmt: skip


def _what() -> Row:
    info = selector("info", Level.POD, **_CHOSEN)
    labels = ", ".join((*_OF_POD, "engine", "version", "model", "role", "node", "accelerator", "cost_tier"))
    columns = (
        Query(f"max by ({labels}) ({info})"),
        Query(f"time() - {_HERE.gauge('max', 'process_start_timestamp_seconds').expression}", "Up for", "dtdurations"),
        Query(_HERE.gauge("max", "kv_cache_capacity_tokens").expression, "KV tokens", "short"),
        Query(_HERE.gauge("max", "kv_cache_blocks").expression, "Blocks", "short"),
        Query(_HERE.gauge("max", "kv_cache_block_size_tokens").expression, "Block size", "short"),
        Query(
            f"sum by ({', '.join(_OF_POD)}) ({_HERE.gauge('max', 'targets', by=(*_OF_POD, 'state')).expression})",
            "Targets",
            "short",
        ),
    )
    links = (
        Link(title="Logs", url=LOGS, level=Level.POD, column="pod"),
        Link(title="Traces", url=TRACES, level=Level.POD, column="pod"),
        Link(title="Its pool", board="llm-pool", column="pool"),
    )
    text = "What each pod is. Pods of one pool that differ in version or block size are worth a look. Click a pod for its logs."
    table = Panel(
        "Pods", text, "what-a-pod-is", draw=Draw.TABLE, queries=columns, links=links, first=("pod",), width=24, height=7
    )
    return Row(title="What it is", panels=(table,))


def _adapters() -> Row:
    slots = tuple(_HERE.gauge("max", f"adapters_{what}", label) for what, label in
                  (("running", "with work"), ("waiting", "waiting"), ("max", "slots"), ("loaded", "loaded")))  # fmt: skip
    targets = _HERE.gauge("max", "targets", "{{namespace}}/{{pod}} {{state}}", by=(*_OF_POD, "state"))
    return Row(
        title="Adapters and ranks",
        collapsed=True,
        panels=(
            Panel("LoRA adapters", "Adapters with work, and how many fit into one batch.", "adapters", queries=slots, width=12),
            Panel("Ranks and ports", "Targets of the pod by state: a pod of several ranks is as good as its worst.", "pods",
                  draw=Draw.STACK, queries=(targets,), width=12),
        ),
    )  # fmt: skip


def _inside() -> Row:
    tokens = (_HERE.gauge("max", "kv_cache_used_tokens", "used"), _HERE.gauge("max", "kv_cache_reserved_ratio", "reserved"))
    odd = (_HERE.gauge("max", "requests_swapped", "swapped out"), _HERE.gauge("max", "engines_asleep", "engines asleep"),
           _HERE.gauge("max", "aborted_requests_estimate", "given up, estimate"))  # fmt: skip
    cached = (_HERE.rate("cached_prompt_tokens", "supplied by a cache"), _HERE.rate("prefix_cache_query_tokens", "looked up"))
    speculation = (_HERE.share("speculative_acceptance_ratio"),)
    return Row(
        title="Inside the engine",
        collapsed=True,
        panels=(
            Panel("Tokens in the KV cache", "Tokens that live requests hold.", "kv-cache", queries=tokens[:1], unit=TOKENS),
            Panel("Reserved", "Share of the token budget that the batch has reserved, where use is not told.", "kv-cache",
                  queries=tokens[1:], unit="percentunit", top=1.0),
            Panel("Prompt tokens and caches", "Prompt tokens looked up in the engine's own cache, and those that any cache "
                  "supplied, per second.", "prefix-cache", queries=cached, unit=TOKENS_PER_SECOND),
            Panel("Swapped, asleep, given up", "Requests moved to host memory (old vLLM), engines put to sleep, and the "
                  "estimate of "
                  "requests that clients gave up and that the engine counts nowhere.", "internals", queries=odd, width=12),
            Panel("Speculation accepted", "Share of proposed tokens that were accepted.", "speculation", queries=speculation,
                  unit="percentunit", top=1.0, silent="no data: nothing is speculated here, or the engine does not tell",
                  width=12),
        ),
    )  # fmt: skip


def _elsewhere() -> Row:
    """What few pods have: caches outside the device, transfers between prefill and decode, speculation."""
    outside = tuple(_HERE.rate(f"external_prefix_cache_{what}_tokens", label) for what, label in
                    (("query", "looked up"), ("hit", "found")))  # fmt: skip
    offloaded = (_HERE.rate("kv_offload_load_bytes", "brought back"), _HERE.rate("kv_offload_store_bytes", "moved out"),
                 _HERE.rate("kv_transfer_bytes", "sent to engines"))  # fmt: skip
    queues = _HERE.gauge("max", "disaggregation_queue_requests", "{{namespace}}/{{pod}} {{queue}}", by=(*_OF_POD, "queue"))
    drafts = (
        _HERE.rate("speculative_drafts", "rounds"),
        _HERE.gauge("max", "speculative_accept_length_tokens", "accepted in one"),
    )
    silent = "no data: the pod has it not, or the engine does not tell"
    return Row(
        title="Caches outside, prefill apart, speculation",
        collapsed=True,
        panels=(
            Panel("Outside the device", "Prompt tokens looked up and found in caches outside the device, per second.",
                  "prefix-cache",
                  queries=outside, unit=TOKENS_PER_SECOND, silent=silent),
            Panel("KV cache moved", "Bytes of KV cache to and from host memory and to other engines, per second.", "split",
                  queries=offloaded, unit="Bps", silent=silent),
            Panel("Failed transfers", "Transfers of KV cache that failed, per second.", "split",
                  queries=(_HERE.rate("kv_transfer_failures"),), unit="ops", silent=silent),
            Panel("Between prefill and decode", "Requests on the way, by the queue they are in.", "split", draw=Draw.STACK,
                  queries=(queues,), silent=silent, width=12),
            Panel("Speculation", "Rounds per second, and tokens accepted in one, as the engine states it.", "speculation",
                  queries=drafts, silent=silent, width=12),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
**State** says whether the pod is heard and does its work; **Load** whether it has room. A pod with *KV cache* near 100 %
preempts, one with *Waiting* above zero makes users wait.

`no_progress` is the state to act on: the engine answers its metrics page and computes nothing. A `stale` or `down` pod has no
load numbers at all, which is not the same as no load. For why, open its logs: click the pod under *What it is*, or the links at
the top."""

_FOLDED = (_adapters(), _inside(), _elsewhere())


def pod(settings: Settings) -> Board:
    """The board of pods."""
    limits = Limits(settings)
    return Board(
        uid="llm-pod",
        title="LLM pod",
        question="Can this replica take a request now, and if not, why?",
        variables=choices(Level.POD),
        rows=(
            _now(limits),
            _states(limits),
            _load(limits),
            _traffic(),
            _what(),
            _adapters(),
            _inside(),
            _elsewhere(),
            how_to_read(_HOW_TO_READ, "pod"),
        ),
        annotations=(alerts(Level.POD), *restarts(Level.POD), reloads({})),
        links=(Link(title="Logs", url=LOGS, level=Level.POD), Link(title="Traces", url=TRACES, level=Level.POD)),
    )
