"""Rows copied by eye from the recorded pages: what the important ones say, spelled out."""

import re
from pathlib import Path
from typing import Any

import pytest

from collector.fixed import from_fixed
from collector.model import Adapters, Values
from collector.page import read_page
from collector.signals import FAST_SIGNALS, Lane

PAGES = Path(__file__).parents[1] / "pages"

NOBODY: frozenset[str] = frozenset()
A, B, BOTH = frozenset({"adapter-a"}), frozenset({"adapter-b"}), frozenset({"adapter-a", "adapter-b"})

# page: running, waiting, KV use (mean), KV use (max), KV capacity, adapters
LOADS = {
    "vllm-0.32.0-idle": (0, 0, 0.0, 0.0, 524288, Adapters(NOBODY, None, None)),
    "vllm-0.32.0-load-queued": (2, 18, 0.00073260073260073, 0.00073260073260073, 524288, Adapters(NOBODY, None, 2)),
    "vllm-0.32.0-lora-running-waiting": (2, 6, 0.0004884004884004867, 0.0004884004884004867, 524288, Adapters(BOTH, None, 2)),
    "vllm-0.32.0-lora-deferred": (8, 16, 0.004151404151404137, 0.004151404151404137, 524288, Adapters(B, None, 1)),
    "vllm-0.32.0-preemption-load": (8, 5, 1.0, 1.0, 896, None),
    "vllm-0.32.0-queue-limit-specdecode-load": (0, 0, 0.0, 0.0, 524288, None),
    "vllm-0.32.0-dp2-load": (4, 19, 0.0012210012210012167, 0.0012210012210012167, 1048576, None),
    "vllm-0.32.0-api-server-count-2-load": (2, 22, 0.0009768009768009733, 0.0009768009768009733, 524288, None),
    "vllm-0.32.0-behind-envoy": (2, 2, 0.0009768009768009733, 0.0009768009768009733, 524288, Adapters(NOBODY, None, 2)),
    "vllm-0.32.0-openmetrics": (0, 0, 0.0, 0.0, 524288, Adapters(NOBODY, None, 2)),
    "vllm-0.16.0-stalled-engine/vllm-0.16.0-stalled-engine-08":
        (1, 0, 0.00024420024420024333, 0.00024420024420024333, 524288, Adapters(NOBODY, None, 2)),
    "vllm-0.16.0-stalled-engine/vllm-0.16.0-stalled-engine-16":
        (2, 18, 0.0009768009768009733, 0.0009768009768009733, 524288, Adapters(NOBODY, None, 2)),
    "vllm-0.10.2-load-queued": (2, 18, 0.00073260073260073, 0.00073260073260073, 524288, Adapters(NOBODY, NOBODY, 2)),
    "vllm-0.10.2-lora-running-waiting": (2, 8, 0.00146520146520146, 0.00146520146520146, 524288, Adapters(A, BOTH, 2)),
    "vllm-0.8.5.post2-load-queued": (2, 18, 0.001220703125, 0.001220703125, 524288, Adapters(NOBODY, NOBODY, 0)),
    "vllm-0.8.5.post2-lora-running-waiting": (1, 18, 0.000244140625, 0.000244140625, 524288, Adapters(A, BOTH, 2)),
    "sglang-0.5.23-load-queued": (2, 18, 0.0, 0.0, 532057, Adapters(max=3, used=0)),
    "sglang-0.5.23-lora-load": (2, 14, 0.0, 0.0, 532057, Adapters(max=3, used=1)),
    "sglang-0.5.23-dp2-load": (4, 12, 0.0, 0.0, 118425 + 1160281, None),
    "sglang-0.5.5.post3-collector-only": (24, 7, 0.62, 0.62, None, None),
    "sglang-0.4.9.post6-collector-only": (24, 7, 0.62, 0.62, None, None),
    "tgi-3.3.7-from-source-load": (8, 5, None, None, 20480, None),
    "tgi-3.3.7-from-source-idle": (0, 0, None, None, 20480, None),
}  # fmt: skip

# page: stop, length, abort, error, other, all of them; prompt tokens, generated tokens; looked up, hit
COUNTS = {
    "vllm-0.32.0-idle": (0, 0, 0, 0, 0, None, 0, 0, 0, 0),
    "vllm-0.32.0-preemption-load": (0, 35, 0, 0, 0, None, 10178, 8166, 10178, 9408),
    "vllm-0.32.0-queue-limit-specdecode-after": (1, 5, 0, 0, 0, None, 955, 884, 955, 384),
    "vllm-0.32.0-dp2-load": (0, 97, 0, 0, 0, None, 12310 + 11600, 11559 + 10450, 12310 + 11600, 6528 + 6144),
    "vllm-0.32.0-api-server-count-2-load": (1, 17, 0, 0, 0, None, 2488, 3927, 2488, 1152),
    "vllm-0.32.0-behind-envoy": (5, 706, 0, 0, 0, None, 104020, 78160, 104020, 53248),
    "vllm-0.32.0-openmetrics": (0, 80, 0, 0, 0, None, 10745, 12011, 10745, 5120),
    "vllm-0.10.2-load-queued": (0, 20, 0, None, None, None, 2542, 3213, 2542, 1152),
    "vllm-0.8.5.post2-idle": (None, None, None, None, None, None, 0, 0, None, None),
    "vllm-0.8.5.post2-after-load-errors-aborts": (None, 40, None, None, None, None, 5729, 4008, None, None),
    "sglang-0.5.23-after-load-errors-aborts": (None, None, 3, None, None, 55, 7467, 7524, 7468, 6523),
    "sglang-0.5.23-dp2-load": (None, None, None, None, None, 2, 50, 16, 1939, 0),
    "sglang-0.4.9.post6-collector-only": (None, None, 3, None, None, 200, 292105, 44832, 292105, 87974),
    "tgi-3.3.7-from-source-load": (None, None, 1, 1, 57 + 2, None, 29246, 5001, None, None),
    "tgi-3.3.7-from-source-idle": (None,) * 10,
}

# page, signal: observations and their sum
LATENCIES = {
    ("vllm-0.32.0-dp2-load", "time_to_first_token_seconds"): (52 + 49, 60.039058685302734 + 54.3472683429718),
    ("vllm-0.32.0-dp2-load", "inference_time_seconds"): (50 + 47, 26.923401263999494 + 25.96886095800005),
    ("vllm-0.10.2-load-queued", "inference_time_seconds"): (20, 4.651922476999516),
    ("vllm-0.32.0-dp2-load", "request_prompt_tokens"): (50 + 47, 11837.0 + 11126.0),
    ("vllm-0.32.0-openmetrics", "time_to_first_token_seconds"): (83, 761.3912036418915),
    ("vllm-0.32.0-openmetrics", "inter_token_latency_seconds"): (11928, 179.95153354800016),
    ("vllm-0.32.0-openmetrics", "time_per_output_token_seconds"): (80, 1.207557664442954),
    ("vllm-0.32.0-openmetrics", "end_to_end_latency_seconds"): (80, 941.1907687187195),
    ("vllm-0.32.0-openmetrics", "queue_time_seconds"): (80, 757.6761898210001),
    ("vllm-0.10.2-load-queued", "inter_token_latency_seconds"): (3191, 4.878323429999),
    ("vllm-0.10.2-load-queued", "time_per_output_token_seconds"): None,
    ("vllm-0.8.5.post2-after-load-errors-aborts", "time_to_first_token_seconds"): (43, 40.295679807662964),
    ("vllm-0.8.5.post2-after-load-errors-aborts", "inter_token_latency_seconds"): (3965, 5.388726472854614),
    ("vllm-0.8.5.post2-after-load-errors-aborts", "end_to_end_latency_seconds"): (40, 42.92913246154785),
    ("vllm-0.8.5.post2-after-load-errors-aborts", "queue_time_seconds"): (40, 37.37734293937683),
    ("vllm-0.8.5.post2-after-load-errors-aborts", "time_per_output_token_seconds"): None,
    ("sglang-0.5.23-after-load-errors-aborts", "time_to_first_token_seconds"): (27 + 28, 76.1210823220431 + 75.47040877499921),
    ("sglang-0.5.23-after-load-errors-aborts", "queue_time_seconds"): (56, 150.74357591199941),
    ("sglang-0.5.23-after-load-errors-aborts", "prefill_time_seconds"): (56, 0.5006592279996767),
    ("sglang-0.5.23-dp2-load", "prefill_time_seconds"): (5 + 6, 0.7005243519993201 + 0.9166143520001242),
    ("sglang-0.5.5.post3-collector-only", "prefill_time_seconds"): None,
    ("sglang-0.5.23-dp2-load", "queue_time_seconds"): (5 + 6, 0.0034770630004459235 + 0.004976066999915929),
    ("sglang-0.5.23-dp2-load", "inter_token_latency_seconds"): None,
    ("sglang-0.4.9.post6-collector-only", "inter_token_latency_seconds"): (44832, 573.5473649598606),
    ("sglang-0.4.9.post6-collector-only", "queue_time_seconds"): None,
    ("tgi-3.3.7-from-source-load", "queue_time_seconds"): (57, 20.95865604734384),
    ("tgi-3.3.7-from-source-load", "time_per_output_token_seconds"): (57, 3.590736028352726),
    ("tgi-3.3.7-from-source-load", "inter_token_latency_seconds"): None,
    ("tgi-3.3.7-from-source-load", "time_to_first_token_seconds"): None,
}


# page: further numbers, counters by signal and gauges by key; None = the page does not tell
MORE: dict[str, dict[str, float | None]] = {
    "vllm-0.32.0-idle": {
        "process_start_timestamp_seconds": 1.79598368362e9, "engines_asleep": 0, "rejected_requests": 0, "preemptions": 0,
        "speculative_drafts": None, "requests_swapped": None, "kv_transfer_bytes": None, "kv_offload_load_bytes": None,
    },
    "vllm-0.32.0-preemption-load": {
        "preemptions": 136, "kv_cache_blocks": 28, "kv_cache_block_size_tokens": 32, "kv_cache_used_tokens": 896,
        "cached_prompt_tokens": 9408, "aborted_requests_estimate": 43 - 35 - 8,
        "requests_waiting_by_reason/capacity": 5, "requests_waiting_by_reason/deferred": 0,
    },
    "vllm-0.32.0-preemption-after": {"preemptions": 221},
    "vllm-0.32.0-lora-deferred": {
        "requests_waiting_by_reason/capacity": 9, "requests_waiting_by_reason/deferred": 7, "cached_prompt_tokens": 4736,
        "kv_cache_blocks": 4096, "kv_cache_block_size_tokens": 128, "requests_waiting_by_reason/grammar": None,
    },
    "vllm-0.32.0-after-load-errors-aborts": {
        "aborted_requests_estimate": 43 - 40 - 0, "cached_prompt_tokens": 2816, "external_prefix_cache_query_tokens": 0,
        "external_prefix_cache_hit_tokens": 0,
    },
    "vllm-0.8.5.post2-after-load-errors-aborts": {
        "aborted_requests_estimate": 43 - 40 - 0, "kv_cache_blocks": 4096, "requests_waiting_by_reason/capacity": None,
        "engines_asleep": None, "cached_prompt_tokens": None, "external_prefix_cache_query_tokens": None,
        "rejected_requests": None,
    },
    "vllm-0.32.0-queue-limit-specdecode-load": {
        "rejected_requests": 54, "speculative_drafts": 0, "speculative_draft_tokens": 0, "speculative_accepted_tokens": 0,
    },
    "vllm-0.32.0-queue-limit-specdecode-after": {
        "rejected_requests": 54 + 0, "speculative_drafts": 123, "speculative_draft_tokens": 345,
        "speculative_accepted_tokens": 60, "speculative_accept_length_tokens": None,
    },
    "vllm-0.32.0-dp2-load": {
        "kv_cache_blocks": 8192, "kv_cache_block_size_tokens": 128, "engines_asleep": 0, "cached_prompt_tokens": 6528 + 6144,
        "aborted_requests_estimate": (52 + 49) - (50 + 47) - (2 + 2),
    },
    "vllm-0.32.0-api-server-count-2-load": {"process_start_timestamp_seconds": None, "kv_cache_blocks": 4096},
    "sglang-0.5.23-lora-load": {
        "kv_cache_used_tokens": 35, "kv_cache_blocks": 532057, "kv_cache_block_size_tokens": 1, "cached_prompt_tokens": 10323,
        "prefix_cache_hit_tokens": 10339, "external_prefix_cache_query_tokens": 1653 + 10339,
        "external_prefix_cache_hit_tokens": 0, "requests_waiting_by_reason/grammar": 0, "rejected_requests": 0,
        "disaggregation_queue_requests/bootstrap": None, "process_start_timestamp_seconds": None, "preemptions": None,
        "aborted_requests_estimate": None, "speculative_accept_length_tokens": None,
    },
    "sglang-0.5.23-dp2-load": {
        "kv_cache_used_tokens": 565 + 273, "kv_cache_blocks": 118425 + 1160281, "kv_cache_block_size_tokens": 1,
    },
    "sglang-0.5.23-after-load-errors-aborts": {"rejected_requests": 0, "cached_prompt_tokens": 6523},
    "sglang-0.5.5.post3-collector-only": {
        "kv_cache_used_tokens": 38211, "kv_cache_blocks": None, "cached_prompt_tokens": 89477, "rejected_requests": None,
        "external_prefix_cache_query_tokens": None,
    },
    "sglang-0.4.9.post6-collector-only": {"kv_cache_used_tokens": 38211, "cached_prompt_tokens": 87974},
    "tgi-3.3.7-from-source-load": {
        "rejected_requests": 3, "kv_cache_reserved_ratio": 8192 / 20480, "kv_cache_used_tokens": None, "preemptions": None,
        "aborted_requests_estimate": None, "kv_cache_blocks": None,
    },
    "tgi-3.3.7-from-source-idle": {"kv_cache_reserved_ratio": 0.0, "rejected_requests": None},
}  # fmt: skip


def values_of(understand_page: Any, name: str) -> Values:
    content_type = "application/openmetrics-text; version=1.0.0" if "openmetrics" in name else "text/plain"
    [values] = understand_page(name, content_type=content_type).rows.values()
    assert isinstance(values, Values)
    return values


def total(values: Values, signal: str, child: str = "") -> int | None:
    counts = [count for key, count in values.counters.items() if key[:2] == (signal, child)]
    return sum(counts) if counts else None


LOAD_GAUGES = ("requests_running", "requests_waiting", "kv_cache_usage_ratio", "kv_cache_usage_max_ratio",
               "kv_cache_capacity_tokens")  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_load(name: str, understand_page: Any) -> None:
    values = values_of(understand_page, name)
    running, waiting, mean, top, capacity, adapters = LOADS[name]
    near = {name: pytest.approx(value, rel=1e-12) for name, value in
            zip(LOAD_GAUGES, (running, waiting, mean, top, capacity), strict=True) if value is not None}  # fmt: skip
    if adapters and adapters.max is not None:
        near["adapters_max"] = adapters.max
    first = {*LOAD_GAUGES, "adapters_max"}
    assert {signal: value for signal, value in values.gauges.items() if signal in first} == near
    assert values.adapters == adapters


@pytest.mark.parametrize("name", MORE)
def test_further_numbers(name: str, understand_page: Any) -> None:
    values = values_of(understand_page, name)
    found = {key: values.gauges.get(key, total(values, key)) for key in MORE[name]}
    assert found == MORE[name]


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, understand_page: Any) -> None:
    values = values_of(understand_page, name)
    outcomes = [total(values, "requests", child) for child in ("stop", "length", "abort", "error", "other", "*")]
    signals = ("prompt_tokens", "generation_tokens", "prefix_cache_query_tokens", "prefix_cache_hit_tokens")
    assert (*outcomes, *(total(values, signal) for signal in signals)) == COUNTS[name]


@pytest.mark.parametrize(("name", "signal"), LATENCIES)
def test_latency(name: str, signal: str, understand_page: Any) -> None:
    found = [one for key, one in values_of(understand_page, name).histograms.items() if key[0] == signal]
    expected = LATENCIES[name, signal]
    if expected is None:
        assert found == []
        return
    assert sum(one.count for one in found) == expected[0]
    assert from_fixed(sum(one.sum_fixed for one in found)) == pytest.approx(expected[1], rel=1e-14)


def test_a_histogram_of_the_openmetrics_page_bucket_by_bucket(understand_page: Any) -> None:
    [histogram] = [one for key, one in values_of(understand_page, "vllm-0.32.0-openmetrics").histograms.items()
                   if key[0] == "time_to_first_token_seconds"]  # fmt: skip
    assert dict(zip((*histogram.bounds, "more"), histogram.counts, strict=True)) == {
        0.001: 0, 0.005: 0, 0.01: 0, 0.02: 3, 0.04: 2, 0.06: 1, 0.08: 1, 0.1: 0, 0.25: 0, 0.5: 0, 0.75: 0, 1.0: 2, 2.5: 6, 5.0: 8,
        7.5: 21, 10.0: 13, 20.0: 20, 40.0: 6, 80.0: 0, 160.0: 0, 640.0: 0, 2560.0: 0, "more": 0,
    }  # fmt: skip


def test_the_openmetrics_page_itself(pages: Any) -> None:
    """Sample for sample as the specification reads: 474 of them, colons only in comments, `_created` beside each counter."""
    page = read_page((pages / "vllm-0.32.0-openmetrics.prom").read_bytes(), "application/openmetrics-text; version=1.0.0")
    assert sum(len(rows) for rows in page.samples.values()) == 474
    assert len(page.types) == 55
    assert not page.oddities
    assert not any(":" in name for name in page.samples)
    assert page.types["vllm:request_success"] == "counter"
    rows = {row.labels["finished_reason"]: (dict(row.labels), row.value) for row in page.samples["vllm_request_success_total"]}
    assert rows["length"] == ({"engine": "0", "finished_reason": "length", "model_name": "tiny-llama"}, 80.0)
    assert [row.value for row in page.samples["process_start_time_seconds"]] == [1.79598368362e9]
    assert [row.value for row in page.samples["vllm_estimated_flops_per_gpu_created"]] == [1.7959837202571225e9]


def test_openmetrics_and_text_pages_of_one_idle_process_agree(understand_page: Any) -> None:
    """Nothing happened in that process between the last page of the series and the OpenMetrics page."""
    text = values_of(understand_page, "vllm-0.32.0-series/vllm-0.32.0-series-40")
    other = values_of(understand_page, "vllm-0.32.0-openmetrics")
    assert (text.gauges, text.counters, text.histograms) == (other.gauges, other.counters, other.histograms)
    assert (text.progress, text.started_at, text.model) == (other.progress, other.started_at, other.model)


def test_the_four_names_page_says_nothing_else(understand_page: Any) -> None:
    values = values_of(understand_page, "vllm-0.32.0-name-filter")
    assert values.gauges == {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_usage_ratio": 0.0,
                             "kv_cache_usage_max_ratio": 0.0}  # fmt: skip
    assert {key[0] for key in values.counters} == {"requests"}
    assert (values.histograms, values.adapters, values.progress, values.started_at) == ({}, None, None, None)


def test_the_tgi_page_recorded_by_others(pages: Any, understand_page: Any) -> None:
    """Read in place where it lies beside the repository: it is not ours to copy."""
    recorded = pages.parents[2] / "shared" / "captures" / "tgi-recorded-by-others.prom"
    if not recorded.exists():
        pytest.skip(f"no {recorded.name} in shared/captures beside the repository")
    reading = understand_page(recorded.read_bytes())
    [values] = reading.rows.values()
    assert (reading.engine, reading.unknown_families, dict(reading.oddities)) == ("tgi", 0, {})
    assert values.gauges == {"requests_running": 0.0, "requests_waiting": 0.0}
    assert total(values, "requests", "other") == 109 + 2
    assert (total(values, "prompt_tokens"), total(values, "generation_tokens")) == (662, 3423)
    assert values.progress == 16 + 1509
    assert {key[0]: (one.count, len(one.bounds)) for key, one in values.histograms.items()} == {
        "end_to_end_latency_seconds": (109, 35), "queue_time_seconds": (109, 35), "time_per_output_token_seconds": (109, 35),
        "request_prompt_tokens": (109, 100), "request_generation_tokens": (109, 100), "inference_time_seconds": (109, 35),
    }  # fmt: skip


ALL = sorted(str(path.relative_to(PAGES).with_suffix("")) for path in PAGES.rglob("*.prom")
             if re.match("vllm-0|sglang-0|tgi", path.name) and "disable-log-stats" not in path.name)  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_fast_lane_reads_the_same_of_its_signals(name: str, understand_page: Any) -> None:
    whole = values_of(understand_page, name)
    [fast] = understand_page(name, lane=Lane.FAST).rows.values()
    assert fast.gauges == {signal: value for signal, value in whole.gauges.items() if signal in FAST_SIGNALS}
    assert fast.counters == {key: count for key, count in whole.counters.items() if key[0] in FAST_SIGNALS}
    assert fast.histograms == {}
    assert (fast.adapters, fast.progress, fast.started_at, fast.model) == (
        whole.adapters, whole.progress, whole.started_at, whole.model)  # fmt: skip
