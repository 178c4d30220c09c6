"""vLLM, from 0.6 to the current releases."""

from collector.engines import unused
from collector.engines.spec import CounterRule, Engine, Lookup
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
    if not rows and "lora_requests_info" not in page.declared:
        return None
    newest = max(rows, key=lambda row: row.value).labels if rows else {}
    running, waiting = (_names(newest.get(f"{what}_lora_adapters", "")) for what in ("running", "waiting"))
    most = _number(newest.get("max_lora"))
    told_apart = "external_prefix_cache_queries_total" not in page.samples
    return Adapters(running if told_apart else running | waiting, waiting if told_apart else None,
                    None if most is None else int(most))  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


VLLM = Engine(
    name="vllm",
    prefixes=("vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "kserve_vllm:"),
    rank_label="engine",
    copy_labels=frozenset({"pid"}),
    gauges={
        "requests_running": ("num_requests_running",),
        "requests_waiting": ("num_requests_waiting",),
        "kv_cache_usage_ratio": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    },
    counters=(
        CounterRule(signal="requests", aliases=("request_success_total",), child_label="finished_reason",
                    children=_REASONS, other_child="other"),
        CounterRule(signal="prompt_tokens", aliases=("prompt_tokens_total",)),
        CounterRule(signal="generation_tokens", aliases=("generation_tokens_total",)),
        CounterRule(signal="prefix_cache_query_tokens", aliases=("prefix_cache_queries_total",)),
        CounterRule(signal="prefix_cache_hit_tokens", aliases=("prefix_cache_hits_total",)),
    ),
    histograms={
        "time_to_first_token_seconds": ("time_to_first_token_seconds",),
        "inter_token_latency_seconds": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "time_per_output_token_seconds": ("request_time_per_output_token_seconds",),
        "end_to_end_latency_seconds": ("e2e_request_latency_seconds",),
        "queue_time_seconds": ("request_queue_time_seconds", "time_in_queue_requests"),
        "prefill_time_seconds": ("request_prefill_time_seconds",),
        "decode_time_seconds": ("request_decode_time_seconds",),
        "request_prompt_tokens": ("request_prompt_tokens",),
        "request_generation_tokens": ("request_generation_tokens",),
    },
    progress=("iteration_tokens_total_count", "generation_tokens_total", "prompt_tokens_total"),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "time_to_first_token_seconds",
                         "end_to_end_latency_seconds"}),
    capacity=_capacity,
    adapters=_adapters,
    special={
        "kv_cache_capacity_tokens": ("cache_config_info",),
        "adapters_running": ("lora_requests_info",),
        "adapters_waiting": ("lora_requests_info",),
        "adapters_max": ("lora_requests_info",),
    },
    extra=frozenset({"external_prefix_cache_queries_total"}),
    bare=frozenset({"process_start_time_seconds"}),
    unused=unused.VLLM,
)  # fmt: skip
