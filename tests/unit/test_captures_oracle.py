"""The golden files against a second opinion that shares no code with the reader.

The raw page is parsed by prometheus-client's text parser (samples only, so that it serves for the OpenMetrics page too) and
added up here by what the engines' own documentation and source say of their families.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

TESTS = Path(__file__).parents[1]
NAMES = sorted(str(path.relative_to(TESTS / "pages").with_suffix("")) for path in (TESTS / "pages").rglob("*.prom"))

Rows = list[tuple[dict[str, str], float]]
Families = dict[str, Rows]
Answer = dict[str, Any]


def parse(text: str) -> Families:
    families: Families = defaultdict(list)
    untyped = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    for family in text_string_to_metric_families(untyped):
        for sample in family.samples:
            families[sample.name].append((dict(sample.labels), float(sample.value)))
    return families


def strip(families: Families, *prefixes: str) -> Families:
    return {name[len(prefix) :]: rows for prefix in prefixes for name, rows in families.items() if name.startswith(prefix)}


def present(families: Families, *names: str) -> Rows:
    return next((families[name] for name in names if families.get(name)), [])


def added(rows: Rows) -> float | None:
    return sum(value for _, value in rows) if rows else None


def cumulative(families: Families, *names: str, keep: Callable[[dict[str, str]], bool] = lambda labels: True) -> Answer | None:
    """Buckets, sum and count of the first family present, added over its series."""
    name = next((name for name in names if families.get(f"{name}_bucket")), None)
    if name is None:
        return None
    buckets: dict[float, float] = defaultdict(float)
    for labels, value in families[f"{name}_bucket"]:
        if keep(labels):
            buckets[float(labels["le"])] += value
    count, total = (sum(value for labels, value in families[f"{name}_{part}"] if keep(labels)) for part in ("count", "sum"))
    assert buckets[math.inf] == count
    return {"buckets": dict(buckets), "count": count, "sum": total}


def without_missing(answer: Answer) -> Answer:
    return {name: value for name, value in answer.items() if value is not None}


def weighted(usage: dict[str, float], capacity: dict[str, float]) -> float:
    return sum(usage[rank] * capacity[rank] for rank in usage) / sum(capacity[rank] for rank in usage)


VLLM_COUNTERS = {
    "cached_prompt_tokens": "prompt_tokens_cached", "preemptions": "num_preemptions", "rejected_requests": "admission_rejections",
    "external_prefix_cache_query_tokens": "external_prefix_cache_queries",
    "external_prefix_cache_hit_tokens": "external_prefix_cache_hits", "speculative_drafts": "spec_decode_num_drafts",
    "speculative_draft_tokens": "spec_decode_num_draft_tokens", "speculative_accepted_tokens": "spec_decode_num_accepted_tokens",
}  # fmt: skip


def vllm_gauges(page: Families, config: list[dict[str, str]], usage: dict[str, float], size: dict[str, float]) -> Answer:
    awake = [value for labels, value in page.get("engine_sleep_state", []) if labels["sleep_state"] == "awake"]
    first, finished = (added(page.get(name, [])) for name in ("time_to_first_token_seconds_count", "request_success_total"))
    running = added(page.get("num_requests_running", []))
    estimate = None if None in (first, finished, running) else max(first - finished - running, 0.0)  # type: ignore[operator]
    blocks, in_one = ({float(labels[name]) for labels in config} for name in ("num_gpu_blocks", "block_size"))
    assert len(blocks) < 2
    assert len(in_one) < 2
    return {
        "requests_swapped": added(page.get("num_requests_swapped", [])),
        **{f"requests_waiting_by_reason/{reason}":
           added([row for row in page.get("num_requests_waiting_by_reason", []) if row[0]["reason"] == reason])
           for reason in ("capacity", "deferred")},
        "engines_asleep": float(awake.count(0.0)) if awake else None,
        "aborted_requests_estimate": estimate,
        "kv_cache_blocks": next(iter(blocks), None),
        "kv_cache_block_size_tokens": next(iter(in_one), None),
        "kv_cache_used_tokens": sum(use * size[rank] for rank, use in usage.items()) if usage and size else None,
    }  # fmt: skip


def vllm(page: Families) -> Answer:
    config = [labels for labels, _ in page.get("cache_config_info", [])]
    if config and config[0].get("kv_cache_size_tokens", "").isdigit():
        size = {labels.get("engine", ""): float(labels["kv_cache_size_tokens"]) for labels in config}
    else:
        size = {labels.get("engine", ""): float(labels["num_gpu_blocks"]) * float(labels["block_size"]) / len(config)
                for labels in config if labels["num_gpu_blocks"].isdigit()}  # fmt: skip
    usage = {labels.get("engine", ""): value for labels, value in present(page, "kv_cache_usage_perc", "gpu_cache_usage_perc")}
    reasons = {"stop": 0.0, "length": 0.0, "abort": 0.0, "error": 0.0, "other": 0.0}
    seen = set()
    for labels, value in page.get("request_success_total", []):
        outcome = labels["finished_reason"] if labels["finished_reason"] in reasons else "other"
        reasons[outcome] += value
        seen.add(outcome)
    steps = [value for name in ("iteration_tokens_total_count", "generation_tokens_total", "prompt_tokens_total")
             for _, value in page.get(name, [])]  # fmt: skip
    return {
        "gauges": without_missing({
            "requests_running": added(page.get("num_requests_running", [])),
            "requests_waiting": added(page.get("num_requests_waiting", [])),
            "kv_cache_usage_ratio": (weighted(usage, size) if size else sum(usage.values()) / len(usage)) if usage else None,
            "kv_cache_usage_max_ratio": max(usage.values(), default=None),
            "kv_cache_capacity_tokens": sum(size.values()) if size else None,
            **vllm_gauges(page, config, usage, size),
        }),
        "counters": without_missing({
            **{f"requests/{reason}": reasons[reason] for reason in seen},
            "prompt_tokens": added(page.get("prompt_tokens_total", [])),
            "generation_tokens": added(page.get("generation_tokens_total", [])),
            "prefix_cache_query_tokens": added(page.get("prefix_cache_queries_total", [])),
            "prefix_cache_hit_tokens": added(page.get("prefix_cache_hits_total", [])),
            **{signal: added(page.get(f"{family}_total", [])) for signal, family in VLLM_COUNTERS.items()},
        }),
        "histograms": without_missing({
            "time_to_first_token_seconds": cumulative(page, "time_to_first_token_seconds"),
            "inter_token_latency_seconds": cumulative(page, "inter_token_latency_seconds", "time_per_output_token_seconds"),
            "time_per_output_token_seconds": cumulative(page, "request_time_per_output_token_seconds"),
            "end_to_end_latency_seconds": cumulative(page, "e2e_request_latency_seconds"),
            "queue_time_seconds": cumulative(page, "request_queue_time_seconds"),
            "inference_time_seconds": cumulative(page, "request_inference_time_seconds"),
            "prefill_time_seconds": cumulative(page, "request_prefill_time_seconds"),
            "decode_time_seconds": cumulative(page, "request_decode_time_seconds"),
            "request_prompt_tokens": cumulative(page, "request_prompt_tokens"),
            "request_generation_tokens": cumulative(page, "request_generation_tokens"),
        }),
        "progress": sum(steps) if steps else None,
    }  # fmt: skip


def vllm_adapters(name: str, page: Families, text: str) -> Answer | None:
    """The newest mix; up to 0.11.0 both labels differ in meaning, later both hold every adapter with work."""
    rows = page.get("lora_requests_info", [])
    if not rows and "lora_requests_info" not in text:
        return None
    labels = max(rows, key=lambda row: row[1])[0] if rows else {}
    running, waiting = (
        {one for one in labels.get(f"{what}_lora_adapters", "").split(",") if one} for what in ("running", "waiting")
    )
    old = re.match(r"vllm-0\.(8|9|10)\.", name)
    return {"running": sorted(running if old else running | waiting), "waiting": sorted(waiting) if old else None,
            "max": int(labels["max_lora"]) if labels else None}  # fmt: skip


def one_per_rank(rows: Rows) -> dict[str, float]:
    """Tensor-, pipeline- and expert-parallel copies of a data-parallel rank's number are one."""
    ranks: dict[str, list[float]] = defaultdict(list)
    for labels, value in rows:
        ranks[labels.get("dp_rank", "")].append(value)
    return {rank: max(values) for rank, values in ranks.items()}


def per_rank_sum(rows: Rows) -> float | None:
    return sum(one_per_rank(rows).values()) if rows else None


def turned_away(labels: dict[str, str]) -> bool:
    """Answers to requests, not to probes of a server that is not ready yet."""
    return labels["status_code"] in ("429", "503") and labels["method"] == "POST"


def sglang(page: Families) -> Answer:
    size = one_per_rank(page.get("max_total_num_tokens", []))
    usage = one_per_rank(page.get("token_usage", []))
    effective = page.get("prefill_effective_tokens_total", [])
    looked_up = effective or page.get("prompt_tokens_total", [])
    hits: Rows = [(labels, value) for labels, value in effective if labels["mode"].endswith("_hit")]
    cached = hits or page.get("cached_tokens_total", [])
    slots = [value for _, value in page.get("lora_pool_slots_total", []) if value]
    responses = page.get("http_responses_total", [])
    return {
        "gauges": without_missing({
            "requests_running": per_rank_sum(page.get("num_running_reqs", [])),
            "requests_waiting": per_rank_sum(page.get("num_queue_reqs", [])),
            "kv_cache_usage_ratio": (weighted(usage, size) if size else sum(usage.values()) / len(usage)) if usage else None,
            "kv_cache_usage_max_ratio": max(usage.values(), default=None),
            "kv_cache_capacity_tokens": sum(size.values()) if size else None,
            "adapters_max": max(slots, default=None),
            "kv_cache_used_tokens": per_rank_sum(present(page, "kv_used_tokens", "num_used_tokens")),
            "kv_cache_blocks": per_rank_sum(page.get("num_pages", [])),
            "kv_cache_block_size_tokens": next((value for _, value in page.get("page_size", [])), None),
            "requests_waiting_by_reason/grammar": per_rank_sum(page.get("num_grammar_queue_reqs", [])),
        }),
        "counters": without_missing({
            "requests/*": added(page.get("num_requests_total", [])),
            "requests/abort": added(page.get("num_aborted_requests_total", [])),
            "prompt_tokens": added(page.get("prompt_tokens_total", [])),
            "generation_tokens": added(page.get("generation_tokens_total", [])),
            "prefix_cache_query_tokens": added(looked_up),
            "prefix_cache_hit_tokens": (added(cached) or 0.0) if looked_up else None,
            "cached_prompt_tokens": added(page.get("cached_tokens_total", [])) or 0.0,
            "external_prefix_cache_query_tokens": added(effective),
            "external_prefix_cache_hit_tokens": added([row for row in hits if not row[0]["mode"].startswith("device")]),
            "preemptions": added(page.get("num_retracted_requests_total", [])),
            "rejected_requests": sum(value for labels, value in responses if turned_away(labels)) if responses else None,
        }),
        "histograms": without_missing({
            "time_to_first_token_seconds": cumulative(page, "time_to_first_token_seconds"),
            "inter_token_latency_seconds": cumulative(page, "inter_token_latency_seconds"),
            "time_per_output_token_seconds": cumulative(page, "request_time_per_output_token_seconds"),
            "end_to_end_latency_seconds": cumulative(page, "e2e_request_latency_seconds"),
            "queue_time_seconds": cumulative(page, "queue_time_seconds"),
            "prefill_time_seconds":
                cumulative(page, "per_stage_req_latency_seconds", keep=lambda labels: labels["stage"] == "prefill_forward"),
            "request_prompt_tokens": cumulative(page, "prompt_tokens_histogram"),
            "request_generation_tokens": cumulative(page, "generation_tokens_histogram"),
        }),
        "progress": added(page.get("realtime_tokens_total", [])),
    }  # fmt: skip


def tgi(page: Families) -> Answer:
    failed = {labels["err"]: value for labels, value in page.get("request_failure", [])}
    outcomes: dict[str, float] = {}
    if page.get("request_success"):
        outcomes["requests/other"] = page["request_success"][0][1] + failed.get("validation", 0.0) + failed.get("template", 0.0)
    if "generation" in failed:
        outcomes["requests/error"] = failed["generation"]
    if {"incomplete", "dropped"} & failed.keys():
        outcomes["requests/abort"] = failed.get("incomplete", 0.0) + failed.get("dropped", 0.0)
    reserved, budget = (added(page.get(name, [])) for name in ("batch_current_max_tokens", "batch_max_total_tokens"))
    nothing_yet = 0.0 if set(page) == {"batch_max_total_tokens"} else None
    return {
        "gauges": without_missing({
            "kv_cache_reserved_ratio": reserved / budget if reserved is not None and budget else nothing_yet,
            "requests_running": added(page["batch_current_size"]) if page.get("batch_current_size") else nothing_yet,
            "requests_waiting": added(page["queue_size"]) if page.get("queue_size") else nothing_yet,
            "kv_cache_capacity_tokens": added(page.get("batch_max_total_tokens", [])),
        }),
        "counters": without_missing({
            **outcomes,
            "rejected_requests": failed.get("overloaded", 0.0) if page.get("request_count") else None,
            "prompt_tokens": added(page.get("request_input_length_sum", [])),
            "generation_tokens": added(page.get("request_generated_tokens_sum", [])),
        }),
        "histograms": without_missing({
            "time_per_output_token_seconds": cumulative(page, "request_mean_time_per_token_duration"),
            "end_to_end_latency_seconds": cumulative(page, "request_duration"),
            "queue_time_seconds": cumulative(page, "request_queue_duration"),
            "inference_time_seconds": cumulative(page, "request_inference_duration"),
            "request_prompt_tokens": cumulative(page, "request_input_length"),
            "request_generation_tokens": cumulative(page, "request_generated_tokens"),
        }),
        "progress": added(page.get("batch_inference_count", [])),
    }  # fmt: skip


def answer(name: str, text: str) -> Answer | None:
    families = parse(text)
    engine = next((one for one in ("vllm", "sglang", "tgi") if name.startswith(one)), "")
    if engine == "vllm":
        page = {known: rows for known, rows in strip(families, "vllm:", "vllm_").items() if not known.startswith("router_")}
        found = vllm(page) if page else None
        if found and (started := families.get("process_start_time_seconds")):
            found["gauges"]["process_start_timestamp_seconds"] = started[0][1]
        return found
    if engine == "sglang":
        page = strip(families, "sglang:")
        return sglang(page) if page else None
    return tgi(strip(families, "tgi_")) if engine == "tgi" else None


def histogram_of(sources: Iterable[dict[str, Any]]) -> Answer:
    """A golden file's histogram, added over its sources."""
    buckets: dict[float, float] = defaultdict(float)
    parts = list(sources)
    for part in parts:
        for item in part["buckets"].split():
            bound, _, count = item.rpartition(":")
            buckets[float(bound)] += float(count)
    return {"buckets": dict(buckets), "count": sum(part["count"] for part in parts), "sum": sum(part["sum"] for part in parts)}


@pytest.mark.parametrize("name", NAMES)
def test_golden_file_agrees_with_the_second_opinion(name: str) -> None:
    expected = answer(name, (TESTS / "pages" / f"{name}.prom").read_text())
    golden = json.loads((TESTS / "golden" / f"{name}.json").read_text())
    if expected is None:
        assert golden == {"refused": "no_known_families"}
        return
    if name.startswith("vllm") and golden["adapters"] and golden["adapters"]["max"] is not None:
        expected["gauges"]["adapters_max"] = golden["adapters"]["max"]  # the adapters are judged below
    assert golden["gauges"] == pytest.approx(expected["gauges"], rel=1e-12, abs=0)
    assert {signal: sum(sources.values()) for signal, sources in golden["counters"].items()} == expected["counters"]
    assert golden["histograms"].keys() == expected["histograms"].keys()
    for signal, sources in golden["histograms"].items():
        found, wanted = histogram_of(sources.values()), expected["histograms"][signal]
        assert (found["buckets"], found["count"]) == (wanted["buckets"], wanted["count"]), signal
        assert found["sum"] == pytest.approx(wanted["sum"], rel=1e-12, abs=2**-63), signal
    assert golden["progress"] == expected["progress"]
    if name.startswith("vllm"):
        text = (TESTS / "pages" / f"{name}.prom").read_text()
        page = strip(parse(text), "vllm:", "vllm_")
        assert golden["adapters"] == vllm_adapters(name, page, text)
        assert golden["started_at"] == added(parse(text).get("process_start_time_seconds", []))
    assert golden["engine"] == name.partition("-")[0]
    assert golden["model"] == ("" if name.startswith("tgi") else "tiny-llama")
    assert golden["oddities"] == {}
    assert golden["unknown_families"] == 0


def test_the_second_opinion_is_worth_something() -> None:
    """Pages with and without an answer, of all engines, each with a fair number of signals."""
    answers = {name: answer(name, (TESTS / "pages" / f"{name}.prom").read_text()) for name in NAMES}
    refused = {name for name, one in answers.items() if one is None}
    assert refused == {name for name in NAMES if name.startswith("envoy") or "-router-" in name or "disable-log-stats" in name}
    full = [one for one in answers.values() if one and len(one["histograms"]) >= 5 and len(one["counters"]) >= 5]
    assert len(full) >= 40
