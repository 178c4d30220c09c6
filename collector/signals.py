"""The table of signals: every number this software publishes, spelled once.

Publishers, boards, rules and docs/metrics.md are built from these rows. A row's `name` ends in its unit where the unit has a
suffix in Prometheus (seconds, ratio, tokens); the level prefix and the counter suffix are added by `collector.naming`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from collector import bounds


class Kind(StrEnum):
    """What a number is, and so how it may be combined and queried."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Level(StrEnum):
    """What a number speaks of. EXPORTER is this process itself."""

    POD = "pod"
    POOL = "pool"
    CLUSTER = "cluster"
    EXPORTER = "exporter"


class Fold(StrEnum):
    """How values of several ranks, targets, pods or pools become one value."""

    SUM = "sum"
    WEIGHTED_MEAN = "capacity-weighted mean"
    MEAN = "mean"
    MAX = "max"
    UNION = "size of the union"
    RATIO = "ratio of summed increases"
    DERIVED = "computed at the level"


class Lane(StrEnum):
    """Fast: the picker's signals and the progress counters. Full: everything."""

    FAST = "fast"
    FULL = "full"


class Role(StrEnum):
    """What a pod does where prefill and decode are apart. A pod without a role does both."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


class State(StrEnum):
    """What a target's or pod's numbers are worth at this moment."""

    FRESH = "fresh"
    WARMING = "warming"
    NO_PROGRESS = "no_progress"
    STALE = "stale"
    TERMINATING = "terminating"
    DOWN = "down"


REPORTING = frozenset({State.FRESH, State.WARMING, State.NO_PROGRESS})
"""States that carry load values; the others are left out of every gauge above the pod."""

WINDOWED = ("time_to_first_token_seconds", "inter_token_latency_seconds", "end_to_end_latency_seconds")
"""Histograms whose quantiles over the window are published as gauges, for readers that cannot compute them."""

SCORERS = ("queue-scorer", "kv-cache-utilization-scorer", "running-requests-size-scorer", "load-aware-scorer")
"""Scorers of the endpoint picker that need nothing but the pods' load; the others judge a request as well."""

PICKER_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"queue-scorer": 2.0, "kv-cache-utilization-scorer": 2.0, "prefix-cache-scorer": 3.0}
)
"""Scorers and weights of the picker's default configuration, which is also its chart's."""

OUTCOMES = ("stop", "length", "abort", "error", "other")


@dataclass(frozen=True, slots=True)
class Share:
    """A ratio of increases over the window: numerator child (or all) over denominator, both counters of the table."""

    numerator: str
    denominator: str
    child: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One row: name (with unit suffix), kind, unit, meaning, and how it combines upward."""

    name: str
    kind: Kind
    unit: str
    help: str
    levels: tuple[Level, ...]
    fold: Fold
    labels: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    ladder: tuple[float, ...] = ()
    share: Share | None = None
    role: Role = Role.BOTH
    """Whose increases count above the pod where prefill and decode are apart: one request passes through both."""

    fast: bool = False
    stable: bool = True

    @property
    def additive(self) -> bool:
        """True where parts of different exporters may simply be added."""
        return self.kind in (Kind.COUNTER, Kind.HISTOGRAM) or self.fold is Fold.SUM


_ALL = (Level.POD, Level.POOL, Level.CLUSTER)
_ABOVE = (Level.POOL, Level.CLUSTER)


def _gauge(name: str, unit: str, fold: Fold, help_text: str, **more: object) -> Signal:
    fields: dict[str, object] = {"levels": _ALL, **more}
    return Signal(name=name, kind=Kind.GAUGE, unit=unit, fold=fold, help=help_text, **fields)  # type: ignore[arg-type]


def _counter(name: str, unit: str, help_text: str, **more: object) -> Signal:
    fields: dict[str, object] = {"levels": _ALL, **more}
    return Signal(name=name, kind=Kind.COUNTER, unit=unit, fold=Fold.SUM, help=help_text, **fields)  # type: ignore[arg-type]


def _histogram(name: str, unit: str, ladder: tuple[float, ...], help_text: str, role: Role) -> Signal:
    return Signal(
        name=name, kind=Kind.HISTOGRAM, unit=unit, fold=Fold.SUM, help=help_text, levels=_ABOVE, ladder=ladder, role=role
    )


_READ = (
    _gauge("requests_running", "requests", Fold.SUM, "Requests in the engine's current batch.", fast=True),
    _gauge("requests_waiting", "requests", Fold.SUM, "Requests queued in the engine.", fast=True),
    _gauge("requests_waiting_by_reason", "requests", Fold.SUM,
           "Requests queued, by reason. grammar: waiting for a grammar to be compiled, not part of requests_waiting.",
           labels=("reason",), children=("capacity", "deferred", "grammar")),
    _gauge("requests_swapped", "requests", Fold.SUM, "Requests swapped out to host memory."),
    _gauge("aborted_requests_estimate", "requests", Fold.SUM,
           "Estimate of the requests that were given up and that the engine counts nowhere, since its process began: "
           "first tokens less finished and running requests.", stable=False),
    _gauge("kv_cache_usage_ratio", "ratio", Fold.WEIGHTED_MEAN,
           "Share of the KV cache held by live requests, weighted by capacity where every part states it.", fast=True),
    _gauge("kv_cache_usage_max_ratio", "ratio", Fold.MAX, "Highest share of the KV cache in use over ranks and pods.", fast=True),
    _gauge("kv_cache_reserved_ratio", "ratio", Fold.WEIGHTED_MEAN,
           "Share of the token budget that the batch has reserved, an upper bound of use."),
    _gauge("kv_cache_capacity_tokens", "tokens", Fold.SUM, "Tokens that fit into the KV cache."),
    _gauge("kv_cache_used_tokens", "tokens", Fold.SUM,
           "Tokens of the KV cache held by live requests (vLLM: use times capacity)."),
    _gauge("kv_cache_blocks", "blocks", Fold.SUM, "Blocks (pages) of the KV cache."),
    _gauge("kv_cache_block_size_tokens", "tokens", Fold.MAX, "Tokens in one block (page) of the KV cache.",
           levels=(Level.POD, Level.POOL)),
    _gauge("engines_asleep", "engines", Fold.SUM, "Engines (ranks) that were put to sleep.", stable=False),
    _gauge("adapters_running", "adapters", Fold.UNION,
           "LoRA adapters with work (vLLM from 0.11.1: running or waiting; before: running). SGLang tells only their number, so "
           "that nothing is known above its pods.",
           levels=(Level.POD, Level.POOL), fast=True),
    _gauge("adapters_waiting", "adapters", Fold.UNION, "LoRA adapters with waiting work, where the engine tells it apart.",
           levels=(Level.POD, Level.POOL), fast=True),
    _gauge("adapters_max", "adapters", Fold.SUM, "LoRA adapters that fit into one batch.",
           levels=(Level.POD, Level.POOL), fast=True),
    _gauge("disaggregation_queue_requests", "requests", Fold.SUM,
           "Requests between prefill and decode, by the queue they are in.", labels=("queue",),
           children=("bootstrap", "inflight", "prealloc", "transfer", "host_receive", "fetch_pending", "fetching", "fetched"),
           stable=False),
    _gauge("speculative_accept_length_tokens", "tokens", Fold.MEAN,
           "Mean tokens accepted in a step of speculative decoding, as the engine states it.", stable=False),
    _gauge("process_start_timestamp_seconds", "seconds", Fold.MAX, "Unix time at which the engine's server process began.",
           levels=(Level.POD,)),
    _counter("requests", "requests",
             "Requests the engine finished, by outcome. other: finished well for a reason the engine does not tell apart.",
             labels=("outcome",), children=OUTCOMES, role=Role.DECODE),
    _counter("rejected_requests", "requests", "Requests the engine refused to take in because it was full."),
    _counter("preemptions", "preemptions", "Running requests pushed back for want of KV cache."),
    _counter("prompt_tokens", "tokens", "Prompt tokens taken in, cached ones included.", role=Role.PREFILL),
    _counter("cached_prompt_tokens", "tokens", "Prompt tokens that a cache supplied.", role=Role.PREFILL),
    _counter("generation_tokens", "tokens", "Tokens generated.", role=Role.DECODE),
    _counter("prefix_cache_query_tokens", "tokens", "Prompt tokens looked up in the engine's own prefix cache.", fast=True,
             role=Role.PREFILL),
    _counter("prefix_cache_hit_tokens", "tokens", "Prompt tokens found in the engine's own prefix cache.", fast=True,
             role=Role.PREFILL),
    _counter("external_prefix_cache_query_tokens", "tokens", "Prompt tokens looked up in caches outside the device.",
             role=Role.PREFILL),
    _counter("external_prefix_cache_hit_tokens", "tokens", "Prompt tokens that caches outside the device supplied.",
             role=Role.PREFILL),
    _counter("speculative_drafts", "drafts", "Rounds of speculative decoding.", role=Role.DECODE),
    _counter("speculative_draft_tokens", "tokens", "Tokens proposed by speculative decoding.", role=Role.DECODE),
    _counter("speculative_accepted_tokens", "tokens", "Proposed tokens that were accepted.", role=Role.DECODE),
    _counter("kv_transfer_bytes", "bytes", "Bytes of KV cache sent between engines.", stable=False),
    _counter("kv_transfer_failures", "failures", "Transfers of KV cache that failed.", stable=False),
    _counter("kv_offload_load_bytes", "bytes", "Bytes of KV cache brought back from host memory.", stable=False),
    _counter("kv_offload_store_bytes", "bytes", "Bytes of KV cache moved out to host memory.", stable=False),
    _histogram("time_to_first_token_seconds", "seconds", bounds.union(bounds.VLLM_TTFT, bounds.SGLANG_TTFT),
               "Arrival to first token.", Role.PREFILL),
    _histogram("inter_token_latency_seconds", "seconds", bounds.union(bounds.VLLM_ITL, bounds.SGLANG_ITL),
               "Gap between successive outputs of one request.", Role.DECODE),
    _histogram("time_per_output_token_seconds", "seconds", bounds.union(bounds.VLLM_ITL, bounds.SGLANG_ITL),
               "Per finished request: mean time of an output token after the first (TGI: of every output token).", Role.DECODE),
    _histogram("end_to_end_latency_seconds", "seconds", bounds.union(bounds.VLLM_LATENCY, bounds.SGLANG_E2E),
               "Arrival to last token.", Role.DECODE),
    _histogram("queue_time_seconds", "seconds", bounds.union(bounds.VLLM_LATENCY, bounds.SGLANG_QUEUE),
               "Time a request waited in the engine.", Role.PREFILL),
    _histogram("inference_time_seconds", "seconds", bounds.VLLM_LATENCY, "Per finished request: time in the running phase.",
               Role.DECODE),
    _histogram("prefill_time_seconds", "seconds", bounds.VLLM_LATENCY,
               "Per request: scheduled to first token (SGLang: the forward stage of prefill).", Role.PREFILL),
    _histogram("decode_time_seconds", "seconds", bounds.VLLM_LATENCY, "Per finished request: first to last token.", Role.DECODE),
    _histogram("kv_transfer_seconds", "seconds", bounds.union(bounds.VLLM_TRANSFER, bounds.SGLANG_TRANSFER),
               "Time of one transfer of KV cache.", Role.BOTH),
    _histogram("request_prompt_tokens", "tokens", bounds.union(bounds.VLLM_TOKENS, bounds.SGLANG_TOKENS),
               "Prompt length per request.", Role.PREFILL),
    _histogram("request_generation_tokens", "tokens", bounds.union(bounds.VLLM_TOKENS, bounds.SGLANG_TOKENS),
               "Output length per request.", Role.DECODE),
)  # fmt: skip

_ASKED = (
    _gauge("requests_max", "requests", Fold.SUM, "Requests the server takes at once at most (SGLang: runs; TGI: accepts)."),
    _gauge("adapters_loaded", "adapters", Fold.UNION, "LoRA adapters that the server has loaded.",
           levels=(Level.POD, Level.POOL)),
)  # fmt: skip

_COMPUTED = (
    _gauge("prefix_cache_hit_ratio", "ratio", Fold.RATIO,
           "Share of looked-up prompt tokens found in the prefix cache, over the window; absent without look-ups.",
           share=Share("prefix_cache_hit_tokens", "prefix_cache_query_tokens")),
    _gauge("error_ratio", "ratio", Fold.RATIO, "Share of finished requests with outcome error, over the window.",
           levels=_ABOVE, share=Share("requests", "requests", "error")),
    _gauge("external_prefix_cache_hit_ratio", "ratio", Fold.RATIO,
           "Share of prompt tokens looked up outside the device that were found there, over the window.",
           share=Share("external_prefix_cache_hit_tokens", "external_prefix_cache_query_tokens")),
    _gauge("abort_ratio", "ratio", Fold.RATIO, "Share of finished requests with outcome abort, over the window.",
           levels=_ABOVE, share=Share("requests", "requests", "abort")),
    _gauge("speculative_acceptance_ratio", "ratio", Fold.RATIO, "Share of proposed tokens that were accepted, over the window.",
           share=Share("speculative_accepted_tokens", "speculative_draft_tokens")),
    _gauge("saturation_ratio", "ratio", Fold.DERIVED,
           "Mean over reporting pods of how full each is by the worse of waiting requests and KV-cache use (full: 5, 0.8, "
           "unless configured); a pod that tells only one is judged by that; 1 is full, more is overload.",
           levels=_ABOVE),
    _gauge("imbalance_ratio", "ratio", Fold.DERIVED,
           "Highest load of a pod over the mean load (running + waiting); 1 is even; absent when idle.", levels=_ABOVE),
    _gauge("load_variation_ratio", "ratio", Fold.DERIVED,
           "Standard deviation of the load of pods over its mean (coefficient of variation); absent when idle.",
           levels=_ABOVE, stable=False),
    _gauge("picker_score_ratio", "ratio", Fold.DERIVED,
           "Score that the endpoint picker's scorer gives the pod among the reporting ones of its pool; 1 is best.",
           levels=(Level.POD,), labels=("scorer",), children=SCORERS, stable=False),
    _gauge("picker_saturation_ratio", "ratio", Fold.DERIVED,
           "Saturation as the endpoint picker counts it: a pod without current values is full, and so is a pool without pods; "
           "what a pod does not tell is taken for 0. From 1 on sheddable requests are refused.",
           levels=(Level.POOL,), stable=False),
    _gauge("adapter_pods", "pods", Fold.DERIVED, "Reporting pods on which a LoRA adapter has work.", levels=(Level.POOL,),
           labels=("adapter",), stable=False),
    _gauge("projected_ratio", "ratio", Fold.DERIVED,
           "Share of a histogram's observations that came on other buckets than the published ones and were spread over them.",
           levels=_ABOVE, labels=("signal",), children=tuple(row.name for row in _READ if row.ladder)),
    *(_gauge(name.replace("_seconds", "_window_seconds"), "seconds", Fold.DERIVED,
             f"Quantile of {name} over the window, on the engines' own buckets.", levels=_ABOVE, labels=("quantile", "window"))
      for name in WINDOWED),
    _gauge("reporting_ratio", "ratio", Fold.DERIVED, "Share of known pods, terminating ones aside, whose values are current.",
           levels=_ABOVE),
    _gauge("pods", "pods", Fold.DERIVED, "Pods by state.", levels=_ABOVE, labels=("state",), children=tuple(State)),
    _gauge("state", "", Fold.DERIVED, "1 for the state the pod is in, 0 for the others.",
           levels=(Level.POD,), labels=("state",), children=tuple(State)),
    _gauge("targets", "targets", Fold.DERIVED, "Targets (ports, ranks) of the pod by state.",
           levels=(Level.POD,), labels=("state",), children=tuple(State)),
    _gauge("last_sample_timestamp_seconds", "seconds", Fold.DERIVED, "Unix time of the last good sample.", levels=(Level.POD,)),
    _gauge("signal_age_seconds", "seconds", Fold.DERIVED, "Time since the last good sample of the lane.",
           levels=(Level.POD,), labels=("lane",), children=tuple(Lane)),
)  # fmt: skip


def _info(level: Level, help_text: str, *labels: str) -> Signal:
    return Signal(name="info", kind=Kind.INFO, unit="", fold=Fold.DERIVED, help=help_text, levels=(level,), labels=labels)


INFO: Mapping[Level, Signal] = MappingProxyType({
    Level.POD: _info(Level.POD, "What the pod is.", "engine", "version", "model", "role", "node", "accelerator", "cost_tier"),
    Level.POOL: _info(Level.POOL, "What the pool serves.", "model", "engine"),
    Level.CLUSTER: _info(Level.CLUSTER, "What the cluster is.", "region", "version"),
})  # fmt: skip


def _own(name: str, kind: Kind, unit: str, help_text: str, *labels: str, ladder: tuple[float, ...] = ()) -> Signal:
    return Signal(name=name, kind=kind, unit=unit, fold=Fold.SUM, help=help_text, levels=(Level.EXPORTER,), labels=labels,
                  ladder=ladder)  # fmt: skip


_TARGET = ("namespace", "pool", "pod", "address")
_SCRAPE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_EXPORTER = (
    _own("build_info", Kind.INFO, "", "Version of this exporter and of Python.", "version", "python"),
    _own("config_last_reload_successful", Kind.GAUGE, "", "1 if the configuration was last read without error."),
    _own("config_last_reload_success_timestamp_seconds", Kind.GAUGE, "seconds",
         "Unix time at which the configuration was last read without error, at the start or later."),
    _own("target_source_last_read_successful", Kind.GAUGE, "",
         "1 if all targets of the source were last read without error; a bad file keeps the targets it had.", "source"),
    _own("target_up", Kind.GAUGE, "", "1 if the last attempt to read the target was good.", *_TARGET),
    _own("target_failures", Kind.COUNTER, "failures", "Failed attempts to read a target, by reason.", "reason"),
    _own("page_oddities", Kind.COUNTER, "oddities", "Things on engine pages that were left out, by kind.", "kind"),
    _own("increase_discarded", Kind.COUNTER, "", "Increase of engine counters that was seen and not published, by reason: "
         "truth = published + discarded.", "signal", "reason"),
    _own("scrape_duration_seconds", Kind.HISTOGRAM, "seconds", "Time to read a target.", "lane", ladder=_SCRAPE_SECONDS),
    _own("targets", Kind.GAUGE, "targets", "Targets known."),
    _own("series", Kind.GAUGE, "series", "Samples on the last page served, own ones apart."),
    _own("unstable_targets", Kind.GAUGE, "targets", "Targets behind which several servers seem to answer; not counted."),
    _own("label_values_capped", Kind.COUNTER, "values", "Values shown as other because a label had too many.", "label"),
    _own("pods_dropped", Kind.GAUGE, "pods", "Pods left out of the pod level by its cap."),
    _own("unknown_families", Kind.GAUGE, "families", "Engine families on the last pages that this version knows nothing of."),
    _own("sink_batches", Kind.COUNTER, "batches", "Batches for a back end that this exporter pushes to: sent, or dropped unsent.",
         "sink", "outcome"),
    _own("sink_failures", Kind.COUNTER, "failures", "Attempts to send that failed, by reason; a batch may be tried again.",
         "sink", "reason"),
    _own("sink_points_sent", Kind.COUNTER, "points", "Data points that the back end took.", "sink"),
    _own("sink_points_rejected", Kind.COUNTER, "points", "Data points that were left out or refused, by reason.",
         "sink", "reason"),
    _own("sink_queued_batches", Kind.GAUGE, "batches", "Batches that wait to be sent.", "sink"),
    _own("sink_last_success_timestamp_seconds", Kind.GAUGE, "seconds", "Unix time at which the back end last took a batch.",
         "sink"),
    _own("cloudwatch_active_metrics", Kind.GAUGE, "metrics",
         "Metrics written to CloudWatch within the last hour: what it bills as custom metrics."),
    _own("cloudwatch_writers", Kind.GAUGE, "writers",
         "Exporters that wrote to CloudWatch for this cluster in the last periods that were read back; more than one counts "
         "everything twice. In CloudWatch itself: 1 from each, so that the Sum over one period is their number."),
)  # fmt: skip

SIGNALS: Mapping[str, Signal] = MappingProxyType({row.name: row for row in (*_READ, *_ASKED, *_COMPUTED)})
"""Signals of pod, pool and cluster by name."""

EXPORTER: Mapping[str, Signal] = MappingProxyType({row.name: row for row in _EXPORTER})
"""What the exporter says of itself, by name."""

READ_SIGNALS: frozenset[str] = frozenset(row.name for row in _READ)
"""Signals that pages supply; the rest is asked for elsewhere or computed."""

FAST_SIGNALS: frozenset[str] = frozenset(row.name for row in _READ if row.fast)

COVERS: Mapping[Lane, frozenset[str]] = MappingProxyType({Lane.FAST: FAST_SIGNALS, Lane.FULL: READ_SIGNALS})
"""What a reading of a lane speaks of: a covered signal that is missing from it is absent."""

SHARES: Mapping[str, Share] = MappingProxyType({row.name: row.share for row in _COMPUTED if row.share is not None})
"""The ratios over the window, by name."""


@cache
def row_of(key: str) -> Signal:
    """The row of a gauge as readings name it: `signal`, or `signal/child` where it has a label of its own."""
    return SIGNALS[key.partition("/")[0]]
