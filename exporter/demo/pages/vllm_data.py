"""The families of a vLLM page as data: name, help, children, and where each value comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from exporter.demo.engine import Engine

ReadEngine = Callable[[Engine], float]


def nothing(_: Engine) -> float:
    """A value that stays 0 because its feature is off."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Family:
    """One family; children are (label, value, read), with an empty label for a family that has only one."""

    name: str
    help: str
    children: tuple[tuple[str, str, ReadEngine], ...]


def _one(name: str, help_text: str, read: ReadEngine) -> Family:
    return Family(name, help_text, (("", "", read),))


ESTIMATES = (
    _one("estimated_flops_per_gpu_total", "Floating point operations done by each GPU, estimated.", nothing),
    _one("estimated_read_bytes_per_gpu_total", "Bytes read by each GPU from its memory, estimated.", nothing),
    _one("estimated_write_bytes_per_gpu_total", "Bytes written by each GPU to its memory, estimated.", nothing),
)


def speculation(draft_tokens: int) -> tuple[Family, ...]:
    """Counters of speculative decoding; none where nothing is speculated."""
    if not draft_tokens:
        return ()
    positions = tuple(("position", str(at), partial(_accepted_at, at)) for at in range(draft_tokens))
    return (
        _one("spec_decode_num_drafts_total", "Rounds of speculation.", lambda engine: engine.ledger.drafts),
        _one("spec_decode_num_draft_tokens_total", "Tokens proposed.", lambda engine: engine.ledger.drafts * draft_tokens),
        _one(
            "spec_decode_num_accepted_tokens_total",
            "Proposed tokens that were accepted.",
            lambda engine: sum(engine.ledger.accepted_at.values()),
        ),
        Family("spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens by position in the draft.", positions),
    )


def _accepted_at(position: int, engine: Engine) -> float:
    return engine.ledger.accepted_at.get(position, 0)


GAUGES = (
    _one(
        "num_requests_running",
        "Requests in the batch that is being executed.",
        lambda engine: engine.gauges.running,
    ),
    _one("num_requests_waiting", "Requests that wait for execution.", lambda engine: engine.gauges.waiting),
    Family(
        "num_requests_waiting_by_reason",
        "Requests that wait, by why: for capacity, or deferred by a limit such as that of adapters.",
        (
            ("reason", "capacity", lambda engine: engine.gauges.waiting - engine.gauges.deferred),
            ("reason", "deferred", lambda engine: engine.gauges.deferred),
        ),
    ),
    Family(
        "engine_sleep_state",
        "Which sleep state the engine is in: exactly one of them is 1.",
        (
            ("sleep_state", "awake", lambda _: 1.0),
            ("sleep_state", "weights_offloaded", nothing),
            ("sleep_state", "discard_all", nothing),
        ),
    ),
    _one(
        "kv_cache_usage_perc",
        "Share of the KV-cache blocks that live requests hold; 1 is all of them.",
        lambda engine: engine.gauges.used_blocks / engine.config.num_blocks,
    ),
)

COUNTERS = (
    _one(
        "prefix_cache_queries_total",
        "Tokens looked up in the prefix cache.",
        lambda engine: engine.ledger.prefix_queries,
    ),
    _one(
        "prefix_cache_hits_total",
        "Tokens found in the prefix cache.",
        lambda engine: engine.ledger.prefix_hits,
    ),
    _one("external_prefix_cache_queries_total", "Tokens looked up in caches of other instances.", nothing),
    _one("external_prefix_cache_hits_total", "Tokens found in caches of other instances.", nothing),
    _one("mm_cache_queries_total", "Items looked up in the multi-modal cache.", nothing),
    _one("mm_cache_hits_total", "Items found in the multi-modal cache.", nothing),
    _one(
        "num_preemptions_total",
        "Requests pushed out of the batch for want of blocks.",
        lambda engine: engine.ledger.preemptions,
    ),
    _one(
        "prompt_tokens_total",
        "Prompt tokens of requests whose prefill is done.",
        lambda engine: engine.ledger.prompt_tokens,
    ),
    Family(
        "prompt_tokens_by_source_total",
        "Prompt tokens by where their KV entries came from.",
        (
            (
                "source",
                "local_compute",
                lambda engine: engine.ledger.prompt_tokens - engine.ledger.cached_tokens,
            ),
            ("source", "local_cache_hit", lambda engine: engine.ledger.cached_tokens),
            ("source", "external_kv_transfer", nothing),
        ),
    ),
    _one(
        "prompt_tokens_cached_total",
        "Prompt tokens that a cache supplied.",
        lambda engine: engine.ledger.cached_tokens,
    ),
    Family(
        "prompt_tokens_cached_by_source_total",
        "Prefix-cache hits in tokens, by the tier that held them; counted when a request is admitted.",
        (
            ("source", "device", lambda engine: engine.ledger.prefix_hits),
            ("source", "host", nothing),
            ("source", "p2p", nothing),
            ("source", "disk", nothing),
            ("source", "external_unspecified", nothing),
        ),
    ),
    _one("generation_tokens_total", "Tokens generated.", lambda engine: engine.ledger.generation_tokens),
    Family(
        "request_success_total",
        "Requests that the engine finished, by reason.",
        (
            ("finished_reason", "stop", lambda engine: engine.ledger.outcomes["stop"]),
            ("finished_reason", "length", lambda engine: engine.ledger.outcomes["length"]),
            ("finished_reason", "abort", lambda engine: engine.ledger.outcomes["abort"]),
            ("finished_reason", "error", lambda engine: engine.ledger.outcomes["error"]),
            ("finished_reason", "repetition", nothing),
        ),
    ),
)

HISTOGRAMS = (
    ("request_prompt_tokens", "prompt", "Prompt length of finished requests, in tokens."),
    ("request_generation_tokens", "generated", "Output length of finished requests, in tokens."),
    ("iteration_tokens_total", "iteration", "Tokens handled in one engine step."),
    ("request_max_num_generation_tokens", "max_tokens", "Largest output asked for, in tokens."),
    ("request_params_n", "n", "The n parameter of requests."),
    ("request_params_max_tokens", "max_tokens", "The max_tokens parameter of requests."),
    ("time_to_first_token_seconds", "ttft", "Time from arrival to the first token."),
    ("inter_token_latency_seconds", "itl", "Time between two tokens of a request."),
    (
        "request_time_per_output_token_seconds",
        "tpot",
        "Mean time of an output token after the first, by request.",
    ),
    ("e2e_request_latency_seconds", "e2e", "Time from arrival to the end of a request."),
    ("request_queue_time_seconds", "queue", "Time that a request waited to be scheduled."),
    ("request_inference_time_seconds", "inference", "Time from being scheduled to the last token."),
    ("request_prefill_time_seconds", "prefill", "Time from being scheduled to the first token."),
    ("request_decode_time_seconds", "decode", "Time from the first token to the last."),
    ("request_num_preemptions", "preemptions", "How often a request was preempted."),
    (
        "request_prefill_kv_computed_tokens",
        "computed",
        "Prompt tokens computed, those from the cache left out.",
    ),
)


_CACHE_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}


def cache_config(engine: Engine, *, rank: int, ranks: int) -> dict[str, str]:
    """Labels of cache_config_info: `num_gpu_blocks` is that of all ranks together, one block of each is never
    given out.
    """
    config = engine.config
    blocks = config.num_blocks + 1
    tokens = blocks * config.block_size
    return _CACHE_CONFIG | {
        "block_size": str(config.block_size),
        "effective_attention_block_size": str(config.block_size),
        "engine": str(rank),
        "kv_cache_max_concurrency": str(tokens / config.max_model_len),
        "kv_cache_memory_bytes": str(tokens * 131072),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(blocks * ranks),
    }
