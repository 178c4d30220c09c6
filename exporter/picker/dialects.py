"""The families that a picker reads for each engine type: what our page writes, what lint reads, what a configuration names.

Source: `core-metrics-extractor` of gateway-api-inference-extension 1.5 and of llm-d-router 0.10, which agree. The two gauges of
SGLang's cache are what the router reads after 0.10, since SGLang 0.5.12 no longer prints the labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Names on the wire; "" where the picker reads no such thing from this engine. A name may carry `{label=value}`."""

    waiting: str
    running: str
    kv_usage: str
    adapters: str = ""
    cache_info: str = ""
    block_size_label: str = "block_size"
    blocks_label: str = "num_gpu_blocks"
    block_size: str = ""
    blocks: str = ""


DIALECTS: Mapping[str, Dialect] = MappingProxyType({
    "vllm": Dialect(
        waiting="vllm:num_requests_waiting", running="vllm:num_requests_running", kv_usage="vllm:kv_cache_usage_perc",
        adapters="vllm:lora_requests_info", cache_info="vllm:cache_config_info",
    ),
    "sglang": Dialect(
        waiting="sglang:num_queue_reqs", running="sglang:num_running_reqs", kv_usage="sglang:token_usage",
        cache_info="sglang:cache_config_info", block_size_label="page_size", blocks_label="num_pages",
        block_size="sglang:page_size", blocks="sglang:num_pages",
    ),
    "trtllm-serve": Dialect(
        waiting="trtllm_num_requests_waiting", running="trtllm_num_requests_running", kv_usage="trtllm_kv_cache_utilization",
        block_size="trtllm_kv_cache_tokens_per_block", blocks="trtllm_kv_cache_max_blocks",
    ),
})  # fmt: skip
"""Engine types that a picker knows by itself and that our page can speak."""

LABELS = {"router": "llm-d.ai/engine-type", "gaie": "inference.networking.k8s.io/engine-type"}
"""Pod label that tells the picker the engine type, by picker; a pod without it is read as vLLM."""

OWN = "llm_picker_"
"""Prefix of our own families on a picker's page."""
