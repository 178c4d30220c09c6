"""Text Generation Inference, 1.0 to 3.3 (its last line).

It has no source for KV-cache use, time to first token, inter-token latency, adapters or prefix-cache hits: those stay absent.
Counters carry no `_total`, and a family appears with its first event.
"""

from collector.engines import unused
from collector.engines.spec import Engine, Lookup, Rule, plain

# Answers to requests that were refused (invalid, bad template) are no failure of the engine; shed ones were never taken in.
_FAILURES = {"generation": "error", "dropped": "abort", "incomplete": "abort", "validation": "other", "template": "other",
             "overloaded": ""}  # fmt: skip


_SEEN_WITH_REQUESTS = ("request_count", "request_success", "request_failure", "queue_size", "batch_current_size",
                       "batch_inference_count", "batch_current_max_tokens")  # fmt: skip


def _capacity(page: Lookup) -> dict[str, float]:
    rows = page.first(("batch_max_total_tokens",))
    return {"": rows[0].value} if rows else {}


def _computed(page: Lookup) -> dict[str, float]:
    return _reserved(page) | _unasked(page)


def _unasked(page: Lookup) -> dict[str, float]:
    """A family appears with its first event: a server that has only told its budget had no request yet, so that none runs or
    waits and nothing is reserved."""
    if "batch_max_total_tokens" not in page.samples or any(name in page.samples for name in _SEEN_WITH_REQUESTS):
        return {}
    return {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_reserved_ratio": 0.0}


def _reserved(page: Lookup) -> dict[str, float]:
    """The share of the token budget that is spoken for: no measure of what is used."""
    reserved, budget = (page.first((name,)) for name in ("batch_current_max_tokens", "batch_max_total_tokens"))
    if not reserved or not budget or budget[0].value <= 0:
        return {}
    return {"kv_cache_reserved_ratio": min(max(reserved[0].value / budget[0].value, 0.0), 1.0)}


TGI = Engine(
    name="tgi",
    prefixes=("tgi_",),
    rules=(
        *plain(
            requests_running="batch_current_size",
            requests_waiting="queue_size",
            prompt_tokens="request_input_length_sum",
            generation_tokens="request_generated_tokens_sum",
            time_per_output_token_seconds="request_mean_time_per_token_duration",
            end_to_end_latency_seconds="request_duration",
            queue_time_seconds="request_queue_duration",
            inference_time_seconds="request_inference_duration",
            request_prompt_tokens="request_input_length",
            request_generation_tokens="request_generated_tokens",
        ),
        Rule(signal="requests", aliases=("request_success",), child="other"),
        Rule(signal="requests", aliases=("request_failure",), child_label="err", children=_FAILURES, other_child="error"),
        Rule(signal="rejected_requests", aliases=("request_failure",), only={"err": frozenset({"overloaded"})},
             zero_beside="request_count"),
    ),
    progress=("batch_inference_count",),
    from_zero=frozenset({"requests", "prompt_tokens", "generation_tokens", "end_to_end_latency_seconds",
                         "queue_time_seconds"}),
    capacity=_capacity,
    computed=_computed,
    special={
        "requests_running": ("batch_max_total_tokens",),
        "requests_waiting": ("batch_max_total_tokens",),
        "kv_cache_capacity_tokens": ("batch_max_total_tokens",),
        "kv_cache_reserved_ratio": ("batch_current_max_tokens", "batch_max_total_tokens"),
    },
    extra=frozenset({"request_count"}),
    unused=unused.TGI,
)  # fmt: skip
