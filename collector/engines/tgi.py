"""Text Generation Inference, 1.0 to 3.3 (its last line).

It has no source for KV-cache use, time to first token, inter-token latency, adapters or prefix-cache hits: those stay absent.
Counters carry no `_total`, and a family appears with its first event.
"""

from collector.engines import unused
from collector.engines.spec import CounterRule, Engine, Lookup

# Answers to requests that were refused (invalid, bad template) are no failure of the engine; shed ones were never taken in.
_FAILURES = {"generation": "error", "dropped": "abort", "incomplete": "abort", "validation": "other", "template": "other",
             "overloaded": ""}  # fmt: skip


def _capacity(page: Lookup) -> dict[str, float]:
    rows = page.first(("batch_max_total_tokens",))
    return {"": rows[0].value} if rows else {}


TGI = Engine(
    name="tgi",
    prefixes=("tgi_",),
    gauges={
        "requests_running": ("batch_current_size",),
        "requests_waiting": ("queue_size",),
    },
    counters=(
        CounterRule(signal="requests", aliases=("request_success",), child="other"),
        CounterRule(signal="requests", aliases=("request_failure",), child_label="err", children=_FAILURES,
                    other_child="error"),
        CounterRule(signal="prompt_tokens", aliases=("request_input_length_sum",)),
        CounterRule(signal="generation_tokens", aliases=("request_generated_tokens_sum",)),
    ),
    histograms={
        "time_per_output_token_seconds": ("request_mean_time_per_token_duration",),
        "end_to_end_latency_seconds": ("request_duration",),
        "queue_time_seconds": ("request_queue_duration",),
        "request_prompt_tokens": ("request_input_length",),
        "request_generation_tokens": ("request_generated_tokens",),
    },
    progress=("batch_inference_count",),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "end_to_end_latency_seconds",
                         "queue_time_seconds"}),
    capacity=_capacity,
    special={"kv_cache_capacity_tokens": ("batch_max_total_tokens",)},
    extra=frozenset({"batch_current_max_tokens", "request_count"}),
    unused=unused.TGI,
)  # fmt: skip
