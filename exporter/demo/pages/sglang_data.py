"""The scheduler families of an SGLang page as data: name, type, help, children, and where each value comes
from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from exporter.demo.engine import Engine
from exporter.demo.ladders import MICROS

ReadEngine = Callable[[Engine], float]


def nothing(_: Engine) -> float:
    """A value that stays 0 because its feature is off."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Family:
    """One family; children are (extra labels, read)."""

    name: str
    help: str
    children: tuple[tuple[dict[str, str], ReadEngine], ...]


def _one(name: str, help_text: str, read: ReadEngine = nothing) -> Family:
    return Family(name, help_text, (({}, read),))


def _by(name: str, help_text: str, label: str, reads: dict[str, ReadEngine], **more: str) -> Family:
    return Family(name, help_text, tuple(({label: value, **more}, read) for value, read in reads.items()))


def _usage(engine: Engine) -> float:
    return engine.gauges.used_blocks / engine.config.num_blocks


def _used_tokens(engine: Engine) -> float:
    return engine.gauges.used_blocks * engine.config.block_size


def _evictable_tokens(engine: Engine) -> float:
    return engine.gauges.evictable_blocks * engine.config.block_size


def _free_tokens(engine: Engine) -> float:
    return engine.config.capacity_tokens - _used_tokens(engine) - _evictable_tokens(engine)


def _kv_gigabytes(engine: Engine) -> float:
    return engine.config.capacity_tokens * 131072 / 2**30


GRAPH_PHASES = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")

CONSTANTS = (
    _one("max_total_num_tokens", "Tokens that the KV pool holds.", lambda engine: engine.config.capacity_tokens),
    _one("weight_memory_usage_gb", "GB that the weights take.", lambda _: 15.0751953125),
    _one("kv_cache_memory_usage_gb", "GB that the KV pools take.", _kv_gigabytes),
    _by("graph_memory_usage_gb", "GB that device graphs take.", "phase", dict.fromkeys(GRAPH_PHASES, nothing)),
    _one("page_size", "Tokens in a page of the KV cache.", lambda engine: engine.config.block_size),
    _one("num_pages", "Pages of the KV cache.", lambda engine: engine.config.num_blocks),
    _one("context_len", "Longest context in tokens.", lambda engine: engine.config.max_model_len),
    _one("startup_available_gpu_memory_gb", "GB that were free at the start.", lambda _: 78.68603515625),
)

LOAD = (
    _one("num_running_reqs", "Requests in the running batch.", lambda engine: engine.gauges.running),
    _one("num_queue_reqs", "Requests in the waiting queue.", lambda engine: engine.gauges.waiting),
    _one("num_grammar_queue_reqs", "Requests that wait for a grammar."),
    _one("gen_throughput", "Tokens generated per second.", lambda engine: engine.gauges.throughput),
    _one("cache_hit_rate", "Prefix-cache hit rate of the last prefill.", lambda engine: engine.gauges.hit_rate),
    _one(
        "decode_sum_seq_lens",
        "Lengths of decoding sequences, added up.",
        lambda engine: engine.gauges.sequence_tokens,
    ),
    _one("token_usage", "Share of the KV pool in use.", lambda engine: round(_usage(engine), 2)),
    _one("full_token_usage", "Share of the full-attention pool in use.", _usage),
    _one("swa_token_usage", "Share of the sliding-window pool in use."),
    _one("mamba_usage", "Share of the state pool in use."),
    _one("num_used_tokens", "Tokens in use.", _used_tokens),
    _one("kv_available_tokens", "Free slots of the KV pool.", _free_tokens),
    _one("kv_evictable_tokens", "Slots of the KV pool that only the prefix cache holds.", _evictable_tokens),
    _one("kv_used_tokens", "Slots of the KV pool that requests hold.", _used_tokens),
    _one("swa_available_tokens", "Free slots of the sliding-window pool."),
    _one("swa_evictable_tokens", "Evictable slots of the sliding-window pool."),
    _one("swa_used_tokens", "Used slots of the sliding-window pool."),
    _one("mamba_available_tokens", "Free slots of the state pool."),
    _one("mamba_evictable_tokens", "Evictable slots of the state pool."),
    _one("mamba_used_tokens", "Used slots of the state pool."),
    _one("spec_accept_length", "Mean length accepted in speculation."),
    _one("spec_accept_rate", "Share of drafts accepted."),
    _one("spec_cap_length", "Mean window of verification."),
    _one("spec_block_accept_length", "Mean accepted length without the cap."),
    _one("spec_num_steps", "Draft steps in use."),
    _one("spec_num_draft_tokens", "Draft tokens in use."),
    _one("num_prefill_bootstrap_queue_reqs", "Requests that wait for the handshake of prefill."),
    _one("num_prefill_inflight_queue_reqs", "Prefilled requests whose KV is on its way."),
    _one("num_decode_prealloc_queue_reqs", "Requests that wait for room on the decode side."),
    _one("num_decode_transfer_queue_reqs", "Requests whose KV arrives."),
    _one("num_decode_host_receive_queue_reqs", "Requests whose KV arrives in host memory."),
    _one("num_decode_deferred_kv_release_reqs", "Failed requests whose KV is still held."),
    _one("pending_prealloc_token_usage", "Share of tokens not yet allocated ahead."),
    _one("prealloc_full_token_usage", "Share of the full pool held for pending transfers."),
    _one("prealloc_swa_token_usage", "Share of the sliding-window pool held for pending transfers."),
    _one("utilization", "Utilization."),
    _one("fwd_occupancy", "Percentage of time in forward passes.", lambda _: math.nan),
    _one("new_token_ratio", "Ratio by which room for output is reserved.", lambda _: 0.098),
    _one("is_cuda_graph", "Whether the last batch ran as a device graph."),
)

ADAPTERS = (
    _one("lora_pool_slots_used", "Adapter slots in use.", lambda engine: len(engine.gauges.adapters)),
    _one("lora_pool_slots_total", "Adapter slots.", lambda engine: engine.config.max_loras),
    _one(
        "lora_pool_utilization",
        "Share of adapter slots in use.",
        lambda engine: len(engine.gauges.adapters) / engine.config.max_loras,
    ),
)

_ROUTING_EDGES = ("0", "1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf")
_ROUTING_RANGES = tuple(({"gt": low, "le": high}, nothing) for low, high in pairwise(_ROUTING_EDGES))

ROUTING = (
    _one("num_unique_running_routing_keys", "Different routing keys in the batch."),
    Family("routing_key_running_req_count", "Routing keys by their running requests.", _ROUTING_RANGES),
    Family("routing_key_all_req_count", "Routing keys by their running and waiting requests.", _ROUTING_RANGES),
)

_STAGES: dict[str, ReadEngine] = {
    "other": lambda engine: engine.ledger.busy * 0.03 / MICROS,
    "recv_requests": lambda engine: engine.ledger.busy * 0.04 / MICROS,
    "process_input_requests": lambda engine: engine.ledger.arrived * 0.0002,
    "get_next_batch_to_run": lambda engine: engine.ledger.busy * 0.05 / MICROS,
    "process_queue": nothing,
    "run_batch": lambda engine: engine.ledger.busy * 0.8 / MICROS,
    "process_batch_result": lambda engine: engine.ledger.busy * 0.06 / MICROS,
    "sanity_check_cache": nothing,
    "idle": lambda engine: engine.ledger.idle / MICROS,
}

COUNTERS = (
    _by(
        "prefill_effective_tokens_total",
        "Prompt tokens by where they came from, work done again after a retraction left out.",
        "mode",
        {
            "input": lambda engine: engine.ledger.prompt_tokens - engine.ledger.cached_tokens,
            "device_hit": lambda engine: engine.ledger.cached_tokens,
            "host_hit": nothing,
            "storage_hit": nothing,
        },
    ),
    _one(
        "scheduler_idle_seconds_total",
        "Seconds without any work.",
        lambda engine: engine.ledger.idle / MICROS,
    ),
    _one(
        "scheduler_process_cpu_seconds_total",
        "CPU seconds of the scheduler.",
        lambda engine: 11.4 + engine.ledger.busy / MICROS,
    ),
    _by(
        "scheduler_stage_seconds_total",
        "Seconds of the scheduler loop by stage.",
        "category",
        _STAGES,
        forward_overlap="none",
    ),
    _by(
        "dp_attention_tokens_total",
        "Tokens of synchronized steps on this rank.",
        "kind",
        {"scheduled": nothing, "imbalance": nothing},
    ),
    _by("dp_attention_steps_total", "Synchronized steps.", "rank_state", {"active": nothing, "idle": nothing}),
    _by(
        "dp_attention_pairs_total",
        "Attended pairs of synchronized steps.",
        "kind",
        {"scheduled": nothing, "imbalance": nothing},
    ),
)

EVENTS = (
    _by(
        "cuda_graph_passes_total",
        "Forward passes by graph mode.",
        "mode",
        {
            "prefill_none": lambda engine: engine.ledger.prefill_steps,
            "decode_none": lambda engine: engine.ledger.steps - engine.ledger.prefill_steps,
        },
    ),
    _by(
        "realtime_tokens_total",
        "Tokens processed, brought up to date at log intervals.",
        "mode",
        {
            "prefill_compute": lambda engine: engine.ledger.computed_tokens,
            "decode": lambda engine: engine.gauges.decode_tokens,
            "prefill_cache": lambda engine: engine.ledger.cache_tokens_loaded,
        },
    ),
    _one("num_retracted_requests_total", "Requests retracted.", lambda engine: engine.ledger.preemptions),
    _one(
        "num_retracted_input_tokens_total",
        "Prompt tokens of retracted requests.",
        lambda engine: engine.ledger.preempted_input_tokens,
    ),
    _one(
        "num_retracted_output_tokens_total",
        "Output tokens of retracted requests.",
        lambda engine: engine.ledger.preempted_output_tokens,
    ),
)

PROCESS_GAUGES = (
    _one("num_retracted_reqs", "Requests retracted in the last step.", lambda engine: engine.gauges.retracted),
    _one("num_paused_reqs", "Requests paused for new weights."),
)
