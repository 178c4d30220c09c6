"""SGLang, from 0.4 to the current releases."""

from collector.engines import unused
from collector.engines.spec import Engine, Lookup, Rule, plain
from collector.model import ALL_CHILDREN, Adapters

_HITS = frozenset({"device_hit", "host_hit", "storage_hit"})


def _capacity(page: Lookup) -> dict[str, float]:
    """Tokens by data-parallel rank; tensor-parallel ranks repeat the number."""
    sizes: dict[str, float] = {}
    for row in page.first(("max_total_num_tokens",)):
        rank = row.labels.get("dp_rank", "")
        sizes[rank] = max(sizes.get(rank, 0.0), row.value)
    if sizes:
        return sizes
    pages = {row.labels.get("dp_rank", ""): row.value for row in page.first(("num_pages",))}
    tokens = {row.labels.get("dp_rank", ""): row.value for row in page.first(("page_size",))}
    return {rank: pages[rank] * tokens[rank] for rank in pages.keys() & tokens.keys()}


def _adapters(page: Lookup) -> Adapters | None:
    """Only numbers are told, not names; ranks may run the same adapters, so the highest number is the sure one."""
    slots, used = ([row.value for row in page.first((f"lora_pool_slots_{what}",))] for what in ("total", "used"))
    if not slots or max(slots) <= 0:
        return None
    return Adapters(max=int(max(slots)), used=int(max(used)) if used and min(used) >= 0 else None)


def _computed(page: Lookup) -> dict[str, float]:
    """Pages of the pool and tokens in a page, which tensor-parallel ranks repeat; the accept length is 0 without speculation."""
    pages: dict[str, float] = {}
    for row in page.first(("num_pages",)):
        rank = row.labels.get("dp_rank", "")
        pages[rank] = max(pages.get(rank, 0.0), row.value)
    sizes = [row.value for row in page.first(("page_size",)) if row.value > 0]
    lengths = [row.value for row in page.first(("spec_accept_length",)) if row.value > 0]
    found = {
        "kv_cache_blocks": sum(pages.values()) if pages else None,
        "kv_cache_block_size_tokens": max(sizes, default=None),
        "speculative_accept_length_tokens": sum(lengths) / len(lengths) if lengths else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _queue(queue: str, *aliases: str) -> Rule:
    return Rule(signal="disaggregation_queue_requests", aliases=aliases, child=queue)


_OUTSIDE = frozenset({"host_hit", "storage_hit"})
_TURNED_AWAY = {"status_code": frozenset({"429", "503"}), "method": frozenset({"POST"})}
"""Probes with GET are answered with 503 while the model loads: nobody was refused."""

_MIB = float(1 << 20)

SGLANG = Engine(
    name="sglang",
    prefixes=("sglang:", "sglang_", "ray_sglang_", "ray_sglang:"),
    rank_label="dp_rank",
    copy_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
    total_row_label="priority",
    role_label="engine_type",
    rules=(
        *plain(
            requests_running="num_running_reqs",
            requests_waiting="num_queue_reqs",
            kv_cache_usage_ratio="token_usage",
            kv_cache_used_tokens=("kv_used_tokens", "num_used_tokens"),
            preemptions="num_retracted_requests_total",
            prompt_tokens="prompt_tokens_total",
            generation_tokens="generation_tokens_total",
            prefix_cache_query_tokens=("prefill_effective_tokens_total", "prompt_tokens_total"),
            external_prefix_cache_query_tokens="prefill_effective_tokens_total",
            kv_transfer_failures="num_transfer_failed_reqs_total",
            time_to_first_token_seconds="time_to_first_token_seconds",
            inter_token_latency_seconds="inter_token_latency_seconds",
            time_per_output_token_seconds=("request_time_per_output_token_seconds", "time_per_output_token_seconds"),
            end_to_end_latency_seconds="e2e_request_latency_seconds",
            queue_time_seconds=("queue_time_seconds", "queue_time_s"),
            request_prompt_tokens="prompt_tokens_histogram",
            request_generation_tokens="generation_tokens_histogram",
        ),
        Rule(signal="requests_waiting_by_reason", aliases=("num_grammar_queue_reqs",), child="grammar"),
        _queue("bootstrap", "num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"),
        _queue("inflight", "num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs"),
        _queue("prealloc", "num_decode_prealloc_queue_reqs"),
        _queue("transfer", "num_decode_transfer_queue_reqs"),
        _queue("host_receive", "num_decode_host_receive_queue_reqs"),
        Rule(signal="requests", aliases=("num_requests_total",), child=ALL_CHILDREN),
        Rule(signal="requests", aliases=("num_aborted_requests_total",), child="abort"),
        Rule(signal="rejected_requests", aliases=("http_responses_total",), only=_TURNED_AWAY,
             zero_beside="http_responses_total"),
        Rule(signal="prefix_cache_hit_tokens", aliases=("prefill_effective_tokens_total",), only={"mode": _HITS}),
        Rule(signal="prefix_cache_hit_tokens", aliases=("cached_tokens_total",), zero_beside="prompt_tokens_total",
             unless="prefill_effective_tokens_total"),
        Rule(signal="cached_prompt_tokens", aliases=("cached_tokens_total",), zero_beside="prompt_tokens_total"),
        Rule(signal="external_prefix_cache_hit_tokens", aliases=("prefill_effective_tokens_total",), only={"mode": _OUTSIDE}),
        Rule(signal="kv_transfer_bytes", aliases=("kv_transfer_total_mb_sum",), scale=_MIB),
        Rule(signal="kv_offload_load_bytes", aliases=("load_back_bytes_total",), parts=True),
        Rule(signal="kv_offload_store_bytes", aliases=("hicache_backup_bytes_total",), parts=True),
        Rule(signal="kv_transfer_seconds", aliases=("kv_transfer_latency_ms",), scale=0.001),
        Rule(signal="prefill_time_seconds", aliases=("per_stage_req_latency_seconds",),
             only={"stage": frozenset({"prefill_forward"})}),
    ),
    progress=("realtime_tokens_total",),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "time_to_first_token_seconds",
                         "inter_token_latency_seconds", "end_to_end_latency_seconds"}),
    capacity=_capacity,
    computed=_computed,
    adapters=_adapters,
    special={
        "kv_cache_capacity_tokens": ("max_total_num_tokens", "num_pages", "page_size"),
        "kv_cache_blocks": ("num_pages",),
        "kv_cache_block_size_tokens": ("page_size",),
        "speculative_accept_length_tokens": ("spec_accept_length",),
        "adapters_max": ("lora_pool_slots_total",),
        "adapters_running": ("lora_pool_slots_used",),
    },
    unused=unused.SGLANG,
)  # fmt: skip
