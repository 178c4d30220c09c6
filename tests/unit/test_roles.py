"""Prefill and decode on different pods: a request passes both, and counts once above them."""

from typing import Any

import pytest

from collector.model import Target, Values
from collector.signals import Role
from collector.state import State
from tests.make import at, counts, observe, pod_row, pool_row, reading, state, target, values

TTFT, E2E = "time_to_first_token_seconds", "end_to_end_latency_seconds"
BOUNDS = (0.1, 0.4, 1.0, 2.0)


def page(served: int) -> Values:
    """What either half prints after so many requests of 100 prompt and 20 output tokens."""
    return values(
        counts(requests={"stop": served}, prompt_tokens=100 * served, generation_tokens=20 * served, preemptions=served,
               prefix_cache_query_tokens=100 * served, prefix_cache_hit_tokens=25 * served),
        {TTFT: observe(BOUNDS, [0.3] * served), E2E: observe(BOUNDS, [1.5] * served)}, progress=float(served),
        requests_running=2.0, requests_waiting=1.0,
    )  # fmt: skip


def serve(*pods: Target) -> State:
    core = state(*pods)
    for step, served in enumerate((0, 8)):
        for pod in pods:
            core.absorb(reading(pod, page(served), at(step)))
    return core


def test_a_request_that_passes_two_pods_counts_once() -> None:
    core = serve(target("p", role="prefill"), target("d", role="decode"))
    cut = core.snapshot(at(1))
    for row in (pool_row(cut), cut.cluster):
        assert row.counters["requests", "stop"] == 8
        assert row.counters["prompt_tokens", ""] == 800
        assert row.counters["generation_tokens", ""] == 160
        assert row.counters["prefix_cache_query_tokens", ""] == 800
        assert row.histograms[TTFT].cumulative[-1] == row.histograms[E2E].cumulative[-1] == 8
        assert row.counters["preemptions", ""] == 16  # either half can run short of cache
        assert row.gauges["requests_running", ""] == 4
        assert row.gauges["prefix_cache_hit_ratio", ""] == 0.25
    assert pod_row(cut, "d").counters["prompt_tokens", ""] == pod_row(cut, "p").counters["prompt_tokens", ""] == 800
    assert pod_row(cut, "p").info["role"] == "prefill"


@pytest.mark.parametrize("role", ["", "both"])
def test_pods_that_do_both_count_all(role: str) -> None:
    cut = serve(target("a", role=role), target("b", role=role)).snapshot(at(1))
    assert pool_row(cut).counters["requests", "stop"] == 16
    assert pool_row(cut).counters["prompt_tokens", ""] == 1600
    assert pool_row(cut).histograms[TTFT].cumulative[-1] == pool_row(cut).histograms[E2E].cumulative[-1] == 16


def test_halves_beside_pods_that_do_both() -> None:
    cut = serve(target("a"), target("p", role="prefill"), target("d", role="decode")).snapshot(at(1))
    assert pool_row(cut).counters["requests", "stop"] == pool_row(cut).histograms[TTFT].cumulative[-1] == 16


def sglang(role: str, served: int) -> str:
    labels = f'engine_type="{role}",model_name="m"'
    rank = f'{labels},tp_rank="0",pp_rank="0"'
    return "\n".join((
        f"sglang:num_running_reqs{{{rank}}} 1", f"sglang:num_queue_reqs{{{rank}}} 0",
        f"sglang:num_prefill_bootstrap_queue_reqs{{{rank}}} {3 if role == 'prefill' else 0}",
        f"sglang:num_prefill_inflight_queue_reqs{{{rank}}} {2 if role == 'prefill' else 0}",
        f"sglang:num_decode_prealloc_queue_reqs{{{rank}}} {4 if role == 'decode' else 0}",
        f"sglang:num_decode_transfer_queue_reqs{{{rank}}} {5 if role == 'decode' else 0}",
        f"sglang:num_requests_total{{{labels}}} {served}", f"sglang:prompt_tokens_total{{{labels}}} {100 * served}",
        f"sglang:generation_tokens_total{{{labels}}} {20 * served}",
    )) + "\n"  # fmt: skip


def test_f35_f36_sglang_tells_its_role_and_its_queues_itself(understand_page: Any) -> None:
    pods = {"prefill": target("p"), "decode": target("d")}
    core = state(*pods.values())
    for step, served in enumerate((0, 8)):
        for role, pod in pods.items():
            core.absorb(understand_page(sglang(role, served), target=pod, at=at(step)))
    cut = core.snapshot(at(1))
    assert pool_row(cut).counters["requests", "other"] == 8
    assert pool_row(cut).counters["prompt_tokens", ""] == 800
    assert pool_row(cut).counters["generation_tokens", ""] == 160
    queues = {child: value for (signal, child), value in pool_row(cut).gauges.items()
              if signal == "disaggregation_queue_requests"}  # fmt: skip
    assert queues == {"bootstrap": 3, "inflight": 2, "prealloc": 4, "transfer": 5}
    assert {row.labels[3]: row.info["role"] for row in cut.pods} == {"p": "prefill", "d": "decode"}


def test_a_unified_sglang_shows_no_queues_between_halves(understand_page: Any) -> None:
    [told] = understand_page(sglang("unified", 8)).rows.values()
    assert (told.role, [key for key in told.gauges if key.startswith("disaggregation")]) == ("", [])


def test_a_declared_role_wins_over_the_pages(understand_page: Any) -> None:
    pod = target("p", role="decode")
    core = state(pod)
    for step, served in enumerate((0, 8)):
        core.absorb(understand_page(sglang("prefill", served), target=pod, at=at(step)))
    cut = core.snapshot(at(1))
    assert pool_row(cut).counters.get(("requests", "other")) == 8
    assert ("prompt_tokens", "") not in pool_row(cut).counters
    assert pod_row(cut, "p").info["role"] == Role.DECODE


def test_f36_the_misspelled_queue_is_read(understand_page: Any) -> None:
    labels = 'engine_type="prefill",model_name="m",tp_rank="0"'
    [told] = understand_page(f"sglang:num_running_reqs{{{labels}}} 1\nsglang:num_prefill_infight_queue_reqs{{{labels}}} 7\n"
                             f"sglang:num_prefill_prealloc_queue_reqs{{{labels}}} 6\n").rows.values()  # fmt: skip
    assert told.gauges["disaggregation_queue_requests/inflight"] == 7
    assert told.gauges["disaggregation_queue_requests/bootstrap"] == 6
