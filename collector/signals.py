"""The table of signals: every number this software publishes, spelled once.

Publishers, boards, rules and docs/metrics.md are built from these rows. A row's `name` ends in its unit where the unit has a
suffix in Prometheus (seconds, ratio, tokens); the level prefix and the counter suffix are added by `collector.naming`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


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
    MAX = "max"
    UNION = "size of the union"
    RATIO = "ratio of summed increases"
    DERIVED = "computed at the level"


class Lane(StrEnum):
    """Fast: the picker's signals and the progress counters. Full: everything."""

    FAST = "fast"
    FULL = "full"


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
    fast: bool = False
    stable: bool = True

    @property
    def additive(self) -> bool:
        """True where parts of different exporters may simply be added."""
        return self.kind in (Kind.COUNTER, Kind.HISTOGRAM) or self.fold is Fold.SUM


def _union(*ladders: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted({bound for ladder in ladders for bound in ladder}))


# Default bucket bounds of the engines; a published ladder is the union, so that each engine is exact on its own bounds.
_VLLM_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
              160.0, 640.0, 2560.0)  # fmt: skip
_VLLM_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_VLLM_LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
                 960.0, 1920.0, 7680.0)  # fmt: skip
_VLLM_TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
_SGLANG_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0)
_SGLANG_ITL = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8,
               1.0, 2.0, 4.0, 6.0, 8.0)  # fmt: skip
_SGLANG_E2E = (*_SGLANG_TTFT, 600.0, 1200.0, 1800.0, 2400.0)
_SGLANG_QUEUE = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
                 70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0, 1400.0,
                 1600.0, 1800.0, 2000.0, 2500.0, 3000.0)  # fmt: skip
_SGLANG_TOKENS = (100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 9000.0,
                  10000.0, 12500.0, 15000.0, 17500.0, 20000.0, 22500.0, 25000.0, 27500.0, 30000.0, 35000.0, 40000.0, 60000.0,
                  80000.0, 100000.0, 200000.0, 300000.0, 400000.0, 600000.0, 800000.0, 1000000.0, 1100000.0)  # fmt: skip

_ALL = (Level.POD, Level.POOL, Level.CLUSTER)
_ABOVE = (Level.POOL, Level.CLUSTER)


def _gauge(name: str, unit: str, fold: Fold, help_text: str, **more: object) -> Signal:
    fields: dict[str, object] = {"levels": _ALL, **more}
    return Signal(name=name, kind=Kind.GAUGE, unit=unit, fold=fold, help=help_text, **fields)  # type: ignore[arg-type]


def _counter(name: str, unit: str, help_text: str, **more: object) -> Signal:
    fields: dict[str, object] = {"levels": _ALL, **more}
    return Signal(name=name, kind=Kind.COUNTER, unit=unit, fold=Fold.SUM, help=help_text, **fields)  # type: ignore[arg-type]


def _histogram(name: str, unit: str, ladder: tuple[float, ...], help_text: str) -> Signal:
    return Signal(name=name, kind=Kind.HISTOGRAM, unit=unit, fold=Fold.SUM, help=help_text, levels=_ABOVE, ladder=ladder)


_READ = (
    _gauge("requests_running", "requests", Fold.SUM, "Requests in the engine's current batch.", fast=True),
    _gauge("requests_waiting", "requests", Fold.SUM, "Requests queued in the engine for capacity.", fast=True),
    _gauge("kv_cache_usage_ratio", "ratio", Fold.WEIGHTED_MEAN,
           "Share of the KV cache held by live requests, weighted by capacity where every part states it.", fast=True),
    _gauge("kv_cache_usage_max_ratio", "ratio", Fold.MAX, "Highest share of the KV cache in use over ranks and pods.", fast=True),
    _gauge("kv_cache_capacity_tokens", "tokens", Fold.SUM, "Tokens that fit into the KV cache."),
    _gauge("adapters_running", "adapters", Fold.UNION,
           "LoRA adapters with work (vLLM from 0.11.1: running or waiting; before: running).",
           levels=(Level.POD, Level.POOL), fast=True),
    _gauge("adapters_waiting", "adapters", Fold.UNION, "LoRA adapters with waiting work, where the engine tells it apart.",
           levels=(Level.POD, Level.POOL), fast=True),
    _gauge("adapters_max", "adapters", Fold.SUM, "LoRA adapters that fit into one batch.",
           levels=(Level.POD, Level.POOL), fast=True),
    _counter("requests", "requests",
             "Requests the engine finished, by outcome. other: finished well for a reason the engine does not tell apart.",
             labels=("outcome",), children=OUTCOMES),
    _counter("prompt_tokens", "tokens", "Prompt tokens taken in, cached ones included."),
    _counter("generation_tokens", "tokens", "Tokens generated."),
    _counter("prefix_cache_query_tokens", "tokens", "Prompt tokens looked up in the engine's own prefix cache.", fast=True),
    _counter("prefix_cache_hit_tokens", "tokens", "Prompt tokens found in the engine's own prefix cache.", fast=True),
    _histogram("time_to_first_token_seconds", "seconds", _union(_VLLM_TTFT, _SGLANG_TTFT), "Arrival to first token."),
    _histogram("inter_token_latency_seconds", "seconds", _union(_VLLM_ITL, _SGLANG_ITL),
               "Gap between successive outputs of one request."),
    _histogram("time_per_output_token_seconds", "seconds", _union(_VLLM_ITL, _SGLANG_ITL),
               "Per finished request: mean time of an output token after the first (TGI: of every output token)."),
    _histogram("end_to_end_latency_seconds", "seconds", _union(_VLLM_LATENCY, _SGLANG_E2E), "Arrival to last token."),
    _histogram("queue_time_seconds", "seconds", _union(_VLLM_LATENCY, _SGLANG_QUEUE), "Time a request waited in the engine."),
    _histogram("prefill_time_seconds", "seconds", _VLLM_LATENCY, "Per finished request: scheduled to first token."),
    _histogram("decode_time_seconds", "seconds", _VLLM_LATENCY, "Per finished request: first to last token."),
    _histogram("request_prompt_tokens", "tokens", _union(_VLLM_TOKENS, _SGLANG_TOKENS), "Prompt length per request."),
    _histogram("request_generation_tokens", "tokens", _union(_VLLM_TOKENS, _SGLANG_TOKENS), "Output length per request."),
)  # fmt: skip

_COMPUTED = (
    _gauge("prefix_cache_hit_ratio", "ratio", Fold.RATIO,
           "Share of looked-up prompt tokens found in the prefix cache, over the window; absent without look-ups.",
           share=Share("prefix_cache_hit_tokens", "prefix_cache_query_tokens")),
    _gauge("error_ratio", "ratio", Fold.RATIO, "Share of finished requests with outcome error, over the window.",
           levels=_ABOVE, share=Share("requests", "requests", "error")),
    _gauge("saturation_ratio", "ratio", Fold.DERIVED,
           "Mean over reporting pods of the larger of waiting / 5 and KV-cache use / 0.8; 1 is full, more is overload.",
           levels=_ABOVE),
    _gauge("imbalance_ratio", "ratio", Fold.DERIVED,
           "Highest load of a pod over the mean load (running + waiting); 1 is even; absent when idle.", levels=_ABOVE),
    _gauge("reporting_ratio", "ratio", Fold.DERIVED, "Share of known pods whose values are current.", levels=_ABOVE),
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
    _own("pods_dropped", Kind.GAUGE, "pods", "Pods left out of the pod level by its cap."),
    _own("unknown_families", Kind.GAUGE, "families", "Engine families on the last pages that this version knows nothing of."),
)  # fmt: skip

SIGNALS: Mapping[str, Signal] = MappingProxyType({row.name: row for row in (*_READ, *_COMPUTED)})
"""Signals of pod, pool and cluster by name."""

EXPORTER: Mapping[str, Signal] = MappingProxyType({row.name: row for row in _EXPORTER})
"""What the exporter says of itself, by name."""

READ_SIGNALS: frozenset[str] = frozenset(row.name for row in _READ)
"""Signals that engines supply; the rest is computed."""

FAST_SIGNALS: frozenset[str] = frozenset(row.name for row in _READ if row.fast)

COVERS: Mapping[Lane, frozenset[str]] = MappingProxyType({Lane.FAST: FAST_SIGNALS, Lane.FULL: READ_SIGNALS})
"""What a reading of a lane speaks of: a covered signal that is missing from it is absent."""

SHARES: Mapping[str, Share] = MappingProxyType({row.name: row.share for row in _COMPUTED if row.share is not None})
"""The ratios over the window, by name."""
