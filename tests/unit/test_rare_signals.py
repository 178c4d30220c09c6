"""Signals that no recorded page has at work: sleep, transfer and offload of KV cache, waiting between halves, and load ratios."""

import math
from typing import Any

import pytest

from collector.model import Values
from collector.scoring import variation
from collector.signals import SIGNALS
from tests.make import at, counts, pool_row, reading, state, target, values

VLLM = 'engine="0",model_name="m"'
RANK = 'engine_type="unified",model_name="m",pp_rank="0"'


@pytest.fixture
def read(understand_page: Any) -> Any:
    def of(*lines: str) -> Values:
        [found] = understand_page("\n".join(lines) + "\n").rows.values()
        assert isinstance(found, Values)
        return found

    return of


def total(values: Values, signal: str) -> int | None:
    some = [count for key, count in values.counters.items() if key[0] == signal]
    return sum(some) if some else None


def histogram(name: str, labels: str, counted: dict[str, int], total: float) -> list[str]:
    rows = [f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in counted.items()]
    return [*rows, f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {max(counted.values())}"]


def test_engines_asleep_are_those_not_awake(read: Any) -> None:
    rows = [f'vllm:engine_sleep_state{{engine="{n}",sleep_state="{what}"}} {int(what == is_)}'
            for n, is_ in enumerate(("awake", "weights_offloaded", "discard_all"))
            for what in ("awake", "weights_offloaded", "discard_all")]  # fmt: skip
    assert read(*rows).gauges == {"engines_asleep": 2.0}


def test_swapped_requests_of_the_old_engine(read: Any) -> None:
    assert read(f"vllm:num_requests_swapped{{{VLLM}}} 4").gauges == {"requests_swapped": 4.0}


def test_waiting_for_a_remote_cache_by_stage(read: Any) -> None:
    rows = [f'vllm:num_requests_kv_fetch_by_stage{{{VLLM},stage="{stage}"}} {n}'
            for stage, n in (("waiting_to_start", 3), ("in_progress", 2), ("completed_waiting", 1), ("novel", 9))]  # fmt: skip
    assert read(*rows).gauges == {f"disaggregation_queue_requests/{queue}": float(n)
                                  for queue, n in (("fetch_pending", 3), ("fetching", 2), ("fetched", 1))}  # fmt: skip


@pytest.mark.parametrize("connector", ["nixl", "mooncake"])
def test_transfers_between_vllm_engines(read: Any, connector: str) -> None:
    found = read(*histogram(f"vllm:{connector}_bytes_transferred", VLLM, {"2048.0": 0, "+Inf": 3}, 9_000_000.0),
                 *histogram(f"vllm:{connector}_xfer_time_seconds", VLLM, {"0.005": 1, "5.0": 2, "+Inf": 3}, 6.5),
                 f"vllm:{connector}_num_failed_transfers_total{{{VLLM}}} 2")  # fmt: skip
    assert (total(found, "kv_transfer_bytes"), total(found, "kv_transfer_failures")) == (9_000_000, 2)
    [series] = found.histograms.values()
    assert (series.bounds, series.counts) == ((0.005, 5.0), (1, 1, 1))


def test_sglang_counts_transfers_in_milliseconds_and_mebibytes(read: Any) -> None:
    found = read(*histogram("sglang:kv_transfer_latency_ms", RANK, {"1.0": 1, "250.0": 3, "5000.0": 4, "+Inf": 4}, 1500.0),
                 *histogram("sglang:kv_transfer_total_mb", RANK, {"1.0": 0, "+Inf": 4}, 2.5),
                 f"sglang:num_transfer_failed_reqs_total{{{RANK}}} 1", f"sglang:num_running_reqs{{{RANK}}} 0")  # fmt: skip
    [series] = found.histograms.values()
    assert (series.bounds, series.counts, series.sum_fixed / 2**96) == ((0.001, 0.25, 5.0), (1, 2, 1, 0), 1.5)
    assert set(series.bounds) <= set(SIGNALS["kv_transfer_seconds"].ladder)
    assert (total(found, "kv_transfer_bytes"), total(found, "kv_transfer_failures")) == (2 * 1024**2 + 1024**2 // 2, 1)


def test_offload_of_vllm_is_read_under_one_name(read: Any) -> None:
    old = [f'vllm:kv_offload_total_bytes_total{{{VLLM},transfer_type="{way}"}} {n}'
           for way, n in (("CPU_to_GPU", 70), ("GPU_to_CPU", 50))]  # fmt: skip
    new = [f"vllm:kv_offload_{what}_bytes_total{{{VLLM}}} {n}" for what, n in (("load", 700), ("store", 500))]
    for lines, expected in ((old, (70, 50)), (new, (700, 500)), ([*old, *new], (700, 500))):
        found = read(*lines)
        assert (total(found, "kv_offload_load_bytes"), total(found, "kv_offload_store_bytes")) == expected


def test_bytes_of_sglang_ranks_are_shares_and_tokens_are_copies(read: Any) -> None:
    rows = [f'sglang:{name}{{cache_type="radix",{RANK},tp_rank="{rank}"}} {n}' for rank in (0, 1)
            for name, n in (("load_back_bytes_total", 30), ("hicache_backup_bytes_total", 20),
                            ("num_retracted_requests_total", 4))]  # fmt: skip
    found = read(*rows, f"sglang:num_running_reqs{{{RANK}}} 0")
    assert (total(found, "kv_offload_load_bytes"), total(found, "kv_offload_store_bytes")) == (60, 40)
    assert total(found, "preemptions") == 4


def test_refusals_of_sglang_are_answers_to_requests_only(read: Any) -> None:
    """While the model loads, probes are answered with 503."""
    rows = [f'sglang:http_responses_total{{endpoint="{path}",method="{method}",status_code="{code}"}} {n}'
            for path, method, code, n in (("/health", "GET", 503, 90), ("/generate", "POST", 503, 4),
                                          ("/v1/completions", "POST", 429, 2), ("/generate", "POST", 200, 50))]  # fmt: skip
    assert total(read(*rows, f"sglang:num_running_reqs{{{RANK}}} 0"), "rejected_requests") == 6
    assert total(read(rows[0], rows[3], f"sglang:num_running_reqs{{{RANK}}} 0"), "rejected_requests") == 0


def test_load_variation_is_the_coefficient_of_variation() -> None:
    """1, 2, 3 and 6 requests: mean 3, deviations -2, -1, 0, 3, their squares' mean 3.5."""
    assert variation([1, 2, 3, 6]) == pytest.approx(math.sqrt(3.5) / 3)
    assert variation([4, 4, 4]) == 0.0
    assert variation([0, 0]) is None
    assert variation([]) is None
    pods = [target(f"p{n}") for n in range(4)]
    core = state(*pods)
    for pod, (running, waiting) in zip(pods, ((1, 0), (2, 0), (2, 1), (4, 2)), strict=True):
        core.absorb(reading(pod, values(progress=1.0, requests_running=running, requests_waiting=waiting), at(0)))
    gauges = pool_row(core.snapshot(at(0))).gauges
    assert gauges["load_variation_ratio", ""] == pytest.approx(math.sqrt(3.5) / 3)
    assert gauges["imbalance_ratio", ""] == 2.0


def test_saturation_can_exceed_one_and_takes_the_worse_of_both() -> None:
    """Queues of 15 and 0, caches at 0.4 and 0.6: (3 + 0.75) / 2."""
    pods = [target("p0"), target("p1")]
    core = state(*pods)
    for pod, waiting, use in zip(pods, (15.0, 0.0), (0.4, 0.6), strict=True):
        core.absorb(reading(pod, values(progress=1.0, requests_waiting=waiting, kv_cache_usage_ratio=use), at(0)))
    assert pool_row(core.snapshot(at(0))).gauges["saturation_ratio", ""] == pytest.approx((3 + 0.75) / 2)
    core.absorb(reading(pods[0], values(progress=1.0, requests_waiting=0.0, kv_cache_usage_ratio=0.4), at(10)))
    assert pool_row(core.snapshot(at(10))).gauges["saturation_ratio", ""] == pytest.approx(0.5)  # the silent one is left out


@pytest.mark.parametrize(
    ("name", "counted", "expected"),
    [
        ("abort_ratio", {"requests": {"stop": 6, "abort": 3, "error": 1}}, 0.3),
        ("external_prefix_cache_hit_ratio",
         {"external_prefix_cache_query_tokens": 80, "external_prefix_cache_hit_tokens": 20}, 0.25),
        ("speculative_acceptance_ratio", {"speculative_draft_tokens": 345, "speculative_accepted_tokens": 60}, 60 / 345),
    ],
)  # fmt: skip
def test_ratios_over_the_window(name: str, counted: dict[str, Any], expected: float) -> None:
    pod = target()
    core = state(pod)
    zero = {signal: dict.fromkeys(told, 0) if isinstance(told, dict) else 0 for signal, told in counted.items()}
    for step, told in enumerate((zero, counted)):
        core.absorb(reading(pod, values(counts(**told), progress=1.0), at(step)))
    assert pool_row(core.snapshot(at(1))).gauges[name, ""] == pytest.approx(expected)
    assert (name, "") not in pool_row(core.snapshot(at(90))).gauges
