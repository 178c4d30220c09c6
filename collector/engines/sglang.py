"""SGLang, from 0.4 to the current releases."""

from collector.engines import unused
from collector.engines.spec import CounterRule, Engine, Lookup
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
    """Only the number of slots is told, not which adapters are in them."""
    slots = [row.value for row in page.first(("lora_pool_slots_total",))]
    return Adapters(max=int(max(slots))) if slots and max(slots) > 0 else None


SGLANG = Engine(
    name="sglang",
    prefixes=("sglang:", "sglang_", "ray_sglang_", "ray_sglang:"),
    rank_label="dp_rank",
    copy_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
    total_row_label="priority",
    gauges={
        "requests_running": ("num_running_reqs",),
        "requests_waiting": ("num_queue_reqs",),
        "kv_cache_usage_ratio": ("token_usage",),
    },
    counters=(
        CounterRule(signal="requests", aliases=("num_requests_total",), child=ALL_CHILDREN),
        CounterRule(signal="requests", aliases=("num_aborted_requests_total",), child="abort"),
        CounterRule(signal="prompt_tokens", aliases=("prompt_tokens_total",)),
        CounterRule(signal="generation_tokens", aliases=("generation_tokens_total",)),
        CounterRule(signal="prefix_cache_query_tokens", aliases=("prefill_effective_tokens_total", "prompt_tokens_total")),
        CounterRule(signal="prefix_cache_hit_tokens", aliases=("prefill_effective_tokens_total",), only=("mode", _HITS)),
        CounterRule(signal="prefix_cache_hit_tokens", aliases=("cached_tokens_total",), zero_beside="prompt_tokens_total",
                    unless="prefill_effective_tokens_total"),
    ),
    histograms={
        "time_to_first_token_seconds": ("time_to_first_token_seconds",),
        "inter_token_latency_seconds": ("inter_token_latency_seconds",),
        "time_per_output_token_seconds": ("request_time_per_output_token_seconds", "time_per_output_token_seconds"),
        "end_to_end_latency_seconds": ("e2e_request_latency_seconds",),
        "queue_time_seconds": ("queue_time_seconds", "queue_time_s"),
        "request_prompt_tokens": ("prompt_tokens_histogram",),
        "request_generation_tokens": ("generation_tokens_histogram",),
    },
    progress=("realtime_tokens_total",),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "time_to_first_token_seconds",
                         "inter_token_latency_seconds", "end_to_end_latency_seconds"}),
    capacity=_capacity,
    adapters=_adapters,
    special={
        "kv_cache_capacity_tokens": ("max_total_num_tokens", "num_pages", "page_size"),
        "adapters_max": ("lora_pool_slots_total",),
    },
    unused=unused.SGLANG,
)  # fmt: skip
