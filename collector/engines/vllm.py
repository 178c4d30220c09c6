"""vLLM, from 0.6 to the current releases."""

import math

from collector.engines import unused
from collector.engines.spec import HARMLESS_EXCESS, Engine, Lookup, Rule, plain
from collector.model import Adapters

_TOO_LONG = 19
"""Digits beyond what any count needs: a longer number in a label is a fault, and could overflow."""
_REASONS = {"stop": "stop", "length": "length", "abort": "abort", "error": "error"}


def _capacity(page: Lookup) -> dict[str, float]:
    """Tokens by engine: `kv_cache_size_tokens` is each engine's own; `num_gpu_blocks` is the pod's total on every row."""
    rows = page.first(("cache_config_info",))
    engines = {row.labels.get("engine", "") for row in rows}
    sizes: dict[str, float] = {}
    for row in rows:
        tokens = _number(row.labels.get("kv_cache_size_tokens"))
        if tokens is None:
            blocks, size = _number(row.labels.get("num_gpu_blocks")), _number(row.labels.get("block_size"))
            tokens = None if blocks is None or size is None else blocks * size / len(engines)
        if tokens is not None:
            sizes[row.labels.get("engine", "")] = tokens
    return sizes


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) < _TOO_LONG else None


def _adapters(page: Lookup) -> Adapters | None:
    """The newest series is the current mix; the others are mixes that once were.

    From 0.11.1 on both labels hold the adapters with any work, so what waits cannot be told; those versions always print
    the external prefix-cache counters.
    """
    rows = page.first(("lora_requests_info",))
    if "lora_requests_info" in page.damaged or (not rows and "lora_requests_info" not in page.declared):
        return None
    newest = max(rows, key=lambda row: row.value).labels if rows else {}
    running, waiting = (_names(newest.get(f"{what}_lora_adapters", "")) for what in ("running", "waiting"))
    most = _number(newest.get("max_lora"))
    told_apart = "external_prefix_cache_queries_total" not in page.samples
    return Adapters(running if told_apart else running | waiting, waiting if told_apart else None,
                    None if most is None else int(most))  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _prefix_unit(page: Lookup) -> float | None:
    """Tokens in one unit of the old prefix-cache counters: blocks up to 0.8.5, tokens from 0.9.0 on, whose configuration has an
    `engine` label."""
    rows = page.first(_CONFIG)
    if any("engine" in row.labels for row in rows):
        return 1.0
    return next((_number(row.labels.get("block_size")) for row in rows), None)


def _computed(page: Lookup) -> dict[str, float]:
    return _blocks(page) | _used(page) | _asleep(page) | _given_up(page)


def _blocks(page: Lookup) -> dict[str, float]:
    """Blocks of the pod: each row repeats the total over its engines."""
    rows = page.first(("cache_config_info",))
    blocks = [blocks for row in rows if (blocks := _number(row.labels.get("num_gpu_blocks"))) is not None]
    sizes = [size for row in rows if (size := _number(row.labels.get("block_size"))) is not None]
    found = {"kv_cache_blocks": max(blocks, default=None), "kv_cache_block_size_tokens": max(sizes, default=None)}
    return {name: value for name, value in found.items() if value is not None}


def _used(page: Lookup) -> dict[str, float]:
    """Share times size of each engine; rows of several processes (pid) repeat an engine's share, the highest holds."""
    sizes = _capacity(page)
    use: dict[str, float] = {}
    for row in page.first(_USAGE):
        engine = row.labels.get("engine", "")
        if row.value <= HARMLESS_EXCESS:
            use[engine] = max(use.get(engine, 0.0), min(row.value, 1.0))
    if not use or not use.keys() <= sizes.keys():
        return {}
    return {"kv_cache_used_tokens": math.fsum(use[engine] * sizes[engine] for engine in use)}


def _asleep(page: Lookup) -> dict[str, float]:
    awake = [row.value for row in page.first(("engine_sleep_state",)) if row.labels.get("sleep_state") == "awake"]
    return {"engines_asleep": float(sum(value == 0 for value in awake))} if awake else {}


def _given_up(page: Lookup) -> dict[str, float]:
    """Requests that clients gave up after their first token are counted nowhere: first tokens less what became of them.

    Too low by the running requests that have no first token yet.
    """
    names = ("time_to_first_token_seconds_count", "request_success_total", "num_requests_running")
    if not all(name in page.samples for name in names) or any(name in page.damaged for name in names):
        return {}
    begun, finished, running = (sum(row.value for row in page.samples[name]) for name in names)
    return {"aborted_requests_estimate": max(begun - finished - running, 0.0)}


_USAGE = ("kv_cache_usage_perc", "gpu_cache_usage_perc")
_FETCH_STAGES = {"waiting_to_start": "fetch_pending", "in_progress": "fetching", "completed_waiting": "fetched"}
_CONFIG = ("cache_config_info",)
_LORA = ("lora_requests_info",)

VLLM = Engine(
    name="vllm",
    prefixes=("vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "kserve_vllm:"),
    rank_label="engine",
    copy_labels=frozenset({"pid"}),
    rules=(
        *plain(
            requests_running="num_requests_running",
            requests_waiting="num_requests_waiting",
            requests_swapped="num_requests_swapped",
            kv_cache_usage_ratio=_USAGE,
            rejected_requests="admission_rejections_total",
            preemptions="num_preemptions_total",
            prompt_tokens="prompt_tokens_total",
            cached_prompt_tokens="prompt_tokens_cached_total",
            generation_tokens="generation_tokens_total",
            prefix_cache_query_tokens=("prefix_cache_queries_total", "prefix_cache_queries"),
            prefix_cache_hit_tokens=("prefix_cache_hits_total", "prefix_cache_hits"),
            external_prefix_cache_query_tokens="external_prefix_cache_queries_total",
            external_prefix_cache_hit_tokens="external_prefix_cache_hits_total",
            speculative_drafts="spec_decode_num_drafts_total",
            speculative_draft_tokens="spec_decode_num_draft_tokens_total",
            speculative_accepted_tokens="spec_decode_num_accepted_tokens_total",
            kv_transfer_bytes=("nixl_bytes_transferred_sum", "mooncake_bytes_transferred_sum"),
            kv_transfer_failures=("nixl_num_failed_transfers_total", "mooncake_num_failed_transfers_total"),
            time_to_first_token_seconds="time_to_first_token_seconds",
            inter_token_latency_seconds=("inter_token_latency_seconds", "time_per_output_token_seconds"),
            time_per_output_token_seconds="request_time_per_output_token_seconds",
            end_to_end_latency_seconds="e2e_request_latency_seconds",
            queue_time_seconds=("request_queue_time_seconds", "time_in_queue_requests"),
            inference_time_seconds="request_inference_time_seconds",
            prefill_time_seconds="request_prefill_time_seconds",
            decode_time_seconds="request_decode_time_seconds",
            kv_transfer_seconds=("nixl_xfer_time_seconds", "mooncake_xfer_time_seconds"),
            request_prompt_tokens="request_prompt_tokens",
            request_generation_tokens="request_generation_tokens",
        ),
        Rule(signal="prefix_cache_query_tokens", aliases=("gpu_prefix_cache_queries_total",), factor=_prefix_unit,
             unless="prefix_cache_queries_total"),
        Rule(signal="prefix_cache_hit_tokens", aliases=("gpu_prefix_cache_hits_total",), factor=_prefix_unit,
             unless="prefix_cache_hits_total"),
        Rule(signal="requests_waiting_by_reason", aliases=("num_requests_waiting_by_reason",), child_label="reason",
             children={"capacity": "capacity", "deferred": "deferred"}),
        Rule(signal="disaggregation_queue_requests", aliases=("num_requests_kv_fetch_by_stage",), child_label="stage",
             children=_FETCH_STAGES),
        Rule(signal="requests", aliases=("request_success_total",), child_label="finished_reason", children=_REASONS,
             other_child="other"),
        Rule(signal="kv_offload_load_bytes", aliases=("kv_offload_load_bytes_total",)),
        Rule(signal="kv_offload_load_bytes", aliases=("kv_offload_total_bytes_total",), unless="kv_offload_load_bytes_total",
             only={"transfer_type": frozenset({"CPU_to_GPU"})}),
        Rule(signal="kv_offload_store_bytes", aliases=("kv_offload_store_bytes_total",)),
        Rule(signal="kv_offload_store_bytes", aliases=("kv_offload_total_bytes_total",), unless="kv_offload_store_bytes_total",
             only={"transfer_type": frozenset({"GPU_to_CPU"})}),
    ),
    progress=("iteration_tokens_total_count", "generation_tokens_total", "prompt_tokens_total"),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "time_to_first_token_seconds",
                         "end_to_end_latency_seconds"}),
    capacity=_capacity,
    computed=_computed,
    adapters=_adapters,
    special={
        "aborted_requests_estimate": ("time_to_first_token_seconds", "request_success_total", "num_requests_running"),
        "kv_cache_capacity_tokens": _CONFIG,
        "kv_cache_used_tokens": _USAGE,
        "kv_cache_blocks": _CONFIG,
        "kv_cache_block_size_tokens": _CONFIG,
        "engines_asleep": ("engine_sleep_state",),
        "adapters_running": _LORA,
        "adapters_waiting": _LORA,
        "adapters_max": _LORA,
    },
    extra=frozenset({"external_prefix_cache_queries_total"}),
    unused=unused.VLLM,
)  # fmt: skip
