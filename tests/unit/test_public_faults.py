"""Faults of engines' metrics that people met in public: each as a small page or sequence, under the number of our list.

Left out are those that need a server's behaviour (23, 25, 40, 41, 53, 56, 60, 63: see tests/net) and those that no page can show
(5, 21, 57).
"""

import re
from pathlib import Path
from typing import Any

import pytest

from collector.health import Limits
from collector.model import Adapters, Target, Values
from collector.naming import families, label_names, prometheus_name
from collector.reasons import FailureReason, Oddity, ReadError
from collector.signals import State
from collector.snapshot import Row
from collector.state import State as Core
from exporter.publish.prometheus import Format, render
from tests.make import at, pool_row, target

VLLM = 'engine="0",model_name="m"'
SGLANG = 'engine_type="unified",model_name="m",pp_rank="0"'
POD = target()


@pytest.fixture
def read(understand_page: Any) -> Any:
    def values(*lines: str) -> Values:
        [found] = understand_page("\n".join(lines) + "\n").rows.values()
        assert isinstance(found, Values)
        return found

    return values


@pytest.fixture
def follow(understand_page: Any) -> Any:
    """Pages, `every` seconds apart, to the state that read them and its pool row."""

    def play(*pages: tuple[str, ...], every: float = 2.0, pod: Target = POD) -> tuple[Core, Row]:
        core = Core(cluster="c", limits=Limits(no_progress_after=30.0))
        core.watch([pod], at(-1))
        for step, lines in enumerate(pages):
            core.absorb(understand_page("\n".join(lines) + "\n", target=pod, at=at(step * every)))
        return core, pool_row(core.snapshot(at((len(pages) - 1) * every)))

    return play


def counts(values: Values) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (signal, child, _), count in values.counters.items():
        name = f"{signal}/{child}" if child else signal
        sums[name] = sums.get(name, 0) + count
    return sums


def histogram(name: str, labels: str, counted: dict[str, float], total: float = 1.0) -> list[str]:
    rows = [f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in counted.items()]
    return [*rows, f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {max(counted.values())}"]


def test_f01_dashboards_outlive_the_rename_of_the_usage(read: Any) -> None:
    old, new = (read(f"vllm:{name}{{{VLLM}}} 0.4").gauges for name in ("gpu_cache_usage_perc", "kv_cache_usage_perc"))
    assert old == new == {"kv_cache_usage_ratio": 0.4, "kv_cache_usage_max_ratio": 0.4}


def test_f02_inter_token_latency_under_its_old_name(read: Any) -> None:
    old = read(*histogram("vllm:time_per_output_token_seconds", VLLM, {"0.1": 1, "+Inf": 2}))
    assert {key[0] for key in old.histograms} == {"inter_token_latency_seconds"}


def test_f03_only_the_last_engine_is_exported(read: Any) -> None:
    """What is missing is not made up: the share is that of the engine that tells, the load what is there."""
    config = [f'vllm:cache_config_info{{engine="{n}",kv_cache_size_tokens="1000"}} 1' for n in (0, 1)]
    values = read('vllm:num_requests_running{engine="1",model_name="m"} 3',
                  'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5', *config)  # fmt: skip
    assert (values.gauges["requests_running"], values.gauges["kv_cache_usage_ratio"]) == (3, 0.5)
    assert (values.gauges["kv_cache_capacity_tokens"], values.gauges["kv_cache_used_tokens"]) == (2000, 500)


@pytest.mark.parametrize("order", [(0.4, 0.0), (0.0, 0.4)])
def test_f04_usage_of_several_api_servers_is_the_highest(read: Any, order: tuple[float, float]) -> None:
    rows = [f'vllm:kv_cache_usage_perc{{{VLLM},pid="{11 + n}"}} {use}' for n, use in enumerate(order)]
    gauges = read(*rows, 'vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000"} 1').gauges
    assert (gauges["kv_cache_usage_ratio"], gauges["kv_cache_used_tokens"]) == (0.4, 400)


def frozen(tokens: int, running: int = 12) -> tuple[str, ...]:
    return (f"vllm:num_requests_running{{{VLLM}}} {running}", f"vllm:num_requests_waiting{{{VLLM}}} 0",
            f"vllm:kv_cache_usage_perc{{{VLLM}}} 0.99", f"vllm:generation_tokens_total{{{VLLM}}} {tokens}")  # fmt: skip


def test_f06_f17_gauges_that_froze_while_no_counter_moves(follow: Any) -> None:
    core, _ = follow(*[frozen(500)] * 31)
    [shown] = core.endpoints(at(60))
    assert (shown.state, shown.gauges["kv_cache_usage_ratio"]) == (State.NO_PROGRESS, 0.99)
    core, _ = follow(*[frozen(500 + step) for step in range(31)])
    assert core.endpoints(at(60))[0].state is State.FRESH
    core, _ = follow(*[frozen(500, running=0)] * 31)
    assert core.endpoints(at(60))[0].state is State.FRESH


def test_f07_requests_that_clients_gave_up(read: Any) -> None:
    """The engine's own count of aborts is a lower bound; what it misses is an estimate under its own name."""
    lines = histogram("vllm:time_to_first_token_seconds", VLLM, {"1.0": 43, "+Inf": 43})
    lines += [
        f'vllm:request_success_total{{finished_reason="{reason}",{VLLM}}} {n}' for reason, n in (("length", 40), ("abort", 0))
    ]
    values = read(*lines, f"vllm:num_requests_running{{{VLLM}}} 0")
    assert (counts(values)["requests/abort"], values.gauges["aborted_requests_estimate"]) == (0, 3)
    busy = read(*lines, f"vllm:num_requests_running{{{VLLM}}} 2")
    assert busy.gauges["aborted_requests_estimate"] == 1
    fresh = read(*lines, f"vllm:num_requests_running{{{VLLM}}} 9")
    assert fresh.gauges["aborted_requests_estimate"] == 0
    assert "aborted_requests_estimate" not in read(*lines).gauges


def gpu_prefix(*config: str) -> tuple[str, ...]:
    return (f"vllm:gpu_prefix_cache_queries_total{{{VLLM}}} 70", f"vllm:gpu_prefix_cache_hits_total{{{VLLM}}} 30", *config)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="9"} 1', (1120, 480)),  # up to 0.8.5: blocks
        ('vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="9"} 1', (70, 30)),  # 0.9: tokens
    ],
)
def test_f08_blocks_and_tokens_of_the_old_counters(read: Any, config: str, tokens: tuple[int, int]) -> None:
    found = counts(read(*gpu_prefix(config)))
    assert found == {"prefix_cache_query_tokens": tokens[0], "prefix_cache_hit_tokens": tokens[1]}


@pytest.mark.parametrize("config", [f"vllm:num_requests_running{{{VLLM}}} 0", 'vllm:cache_config_info{block_size="None"} 1'])
def test_f08_blocks_are_never_published_as_tokens(read: Any, config: str) -> None:
    assert counts(read(*gpu_prefix(config))) == {}


def test_f08_pods_of_both_ages_pool_in_tokens(understand_page: Any) -> None:
    """Blocks of 16 tokens on one pod, tokens on the other: 160 of 640 and 90 of 100."""
    old, new = target("old"), target("new")
    core = Core(cluster="c")
    core.watch([old, new], at(-1))
    config = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="9"} 1\n'
    for step in (0, 1):
        core.absorb(
            understand_page(
                f"{config}vllm:gpu_prefix_cache_queries_total{{{VLLM}}} {40 * step}\n"
                f"vllm:gpu_prefix_cache_hits_total{{{VLLM}}} {10 * step}\n",
                target=old,
                at=at(step),
            )
        )
        core.absorb(
            understand_page(
                f"vllm:prefix_cache_queries_total{{{VLLM}}} {100 * step}\nvllm:prefix_cache_hits_total{{{VLLM}}} {90 * step}\n",
                target=new,
                at=at(step),
            )
        )
    assert pool_row(core.snapshot(at(1))).gauges["prefix_cache_hit_ratio", ""] == (160 + 90) / (640 + 100)


@pytest.mark.parametrize(("queries", "hits", "ratio"), [(100, 130, 1.0), (100, 100, 1.0), (400, 100, 0.25)])
def test_f09_f10_f38_more_hits_than_look_ups_are_all(follow: Any, queries: int, hits: int, ratio: float) -> None:
    pages = [(f"vllm:prefix_cache_queries_total{{{VLLM}}} {queries * step}",
              f"vllm:prefix_cache_hits_total{{{VLLM}}} {hits * step}",
              f"vllm:generation_tokens_total{{{VLLM}}} {step}") for step in (0, 1)]  # fmt: skip
    _, pool = follow(*pages)
    assert pool.gauges["prefix_cache_hit_ratio", ""] == ratio
    assert pool.counters["prefix_cache_hit_tokens", ""] == hits


def test_f11_f30_no_hit_is_zero_and_no_look_up_is_nothing(follow: Any) -> None:
    def page(queries: int) -> tuple[str, ...]:
        return (f"vllm:prefix_cache_queries_total{{{VLLM}}} {queries}", f"vllm:prefix_cache_hits_total{{{VLLM}}} 0",
                f"vllm:generation_tokens_total{{{VLLM}}} 5")  # fmt: skip

    assert follow(page(0), page(80))[1].gauges["prefix_cache_hit_ratio", ""] == 0.0
    assert ("prefix_cache_hit_ratio", "") not in follow(page(80), page(80))[1].gauges


def test_f12_tokens_of_a_hybrid_model_are_its_own(read: Any) -> None:
    gauges = read('vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="900"} 1').gauges
    assert (gauges["kv_cache_capacity_tokens"], gauges["kv_cache_blocks"], gauges["kv_cache_block_size_tokens"]) == (900, 100, 16)


def test_f13_none_is_absent(read: Any) -> None:
    gauges = read('vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="None"} 1').gauges
    assert gauges == {"kv_cache_block_size_tokens": 16.0}


def test_f14_f15_adapters_by_the_newest_mix(read: Any) -> None:
    row = 'vllm:lora_requests_info{{max_lora="2",running_lora_adapters="{0}",waiting_lora_adapters="{0}"}} {1}'
    later = f"vllm:external_prefix_cache_queries_total{{{VLLM}}} 0"
    assert read(row.format("a,b", 5), row.format("a", 9), row.format("b", 7), later).adapters == Adapters(frozenset("a"), None, 2)


def test_f16_traffic_of_adapters_is_the_base_models(read: Any) -> None:
    values = read(f'vllm:request_success_total{{finished_reason="stop",{VLLM}}} 4',
                  'vllm:lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters=""} 5',
                  f"vllm:num_requests_running{{{VLLM}}} 1")  # fmt: skip
    assert (values.model, counts(values)) == ("m", {"requests/stop": 4})


def test_f18_gaps_between_outputs_are_not_time_per_token(read: Any) -> None:
    lines = [*histogram("vllm:inter_token_latency_seconds", VLLM, {"0.1": 3, "+Inf": 3}),
             *histogram("vllm:request_time_per_output_token_seconds", VLLM, {"0.1": 1, "+Inf": 1})]  # fmt: skip
    assert {key[0]: one.count for key, one in read(*lines).histograms.items()} == {
        "inter_token_latency_seconds": 3, "time_per_output_token_seconds": 1}  # fmt: skip


def test_f19_no_first_token_no_quantile(follow: Any) -> None:
    page = (*histogram("vllm:time_to_first_token_seconds", VLLM, {"1.0": 0, "+Inf": 0}, 0.0), *frozen(5))
    _, pool = follow(page, page)
    assert pool.histograms["time_to_first_token_seconds"].cumulative[-1] == 0
    assert not [key for key in pool.gauges if "window" in key[0]]


def test_f20_tokens_come_from_the_counter(read: Any) -> None:
    values = read(f"vllm:avg_generation_throughput_toks_per_s{{{VLLM}}} 900", f"vllm:generation_tokens_total{{{VLLM}}} 7")
    assert (counts(values), dict(values.gauges)) == ({"generation_tokens": 7}, {})


@pytest.mark.parametrize("page", ["", "python_info 1\n", "# TYPE http_requests_total counter\nhttp_requests_total 4\n"])
def test_f22_f52_f61_f62_a_page_without_known_families_is_no_idle_server(understand_page: Any, page: str) -> None:
    foreign = 'llamacpp:requests_processing 0\nnv_trt_llm_request_metrics{request_type="waiting"} 0\n'
    for text in (page, page + foreign):
        with pytest.raises(ReadError) as refusal:
            understand_page(text)
        assert refusal.value.reason is FailureReason.NO_KNOWN_FAMILIES


def test_f24_several_api_servers_on_one_page_are_one_engine(read: Any) -> None:
    values = read(*(f'vllm:num_requests_running{{{VLLM},pid="{pid}"}} {n}' for pid, n in ((1, 4), (2, 4))),
                  *(f'vllm:prompt_tokens_total{{{VLLM},pid="{pid}"}} {n}' for pid, n in ((1, 70), (2, 70))))  # fmt: skip
    assert (values.gauges["requests_running"], counts(values)) == (4, {"prompt_tokens": 70})


def test_f26_a_new_pod_that_shows_zeros_is_warming(follow: Any) -> None:
    page = (f"vllm:num_requests_running{{{VLLM}}} 0", f"vllm:generation_tokens_total{{{VLLM}}} 0")
    core, pool = follow(*[page] * 4)
    assert core.endpoints(at(6))[0].state is State.WARMING
    assert ("saturation_ratio", "") not in pool.gauges


def test_f27_f43_names_are_legal_everywhere() -> None:
    for signal, level in families():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", prometheus_name(signal, level))
        assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in label_names(signal, level))


def test_f28_the_model_is_the_engines_not_its_caches(read: Any) -> None:
    values = read('lmcache:num_hit_tokens_total{model_name="/models/m"} 7', f"vllm:num_requests_running{{{VLLM}}} 1")
    assert values.model == "m"


def test_f29_a_negative_share_is_none_and_told(understand_page: Any) -> None:
    reading = understand_page(f"vllm:kv_cache_usage_perc{{{VLLM}}} -0.3875\n")
    [values] = reading.rows.values()
    assert (values.gauges["kv_cache_usage_ratio"], reading.oddities) == (0.0, {Oddity.OUT_OF_RANGE: 1})


def test_f31_spaces_in_labels_are_kept(follow: Any) -> None:
    core, _ = follow(('vllm:num_requests_running{engine="0",model_name="my model  7B"} 1',))
    page, _ = render(core.snapshot(at(0)), Format.TEXT, max_pods=9)
    assert 'model="my model  7B"' in page


def test_f32_f45_f49_ranks_fold_and_the_last_row_does_not_win(read: Any) -> None:
    rows = [f'sglang:num_running_reqs{{dp_rank="{rank}",{SGLANG}}} {n}' for rank, n in ((1, 5), (0, 2))]
    assert read(*rows).gauges == read(*reversed(rows)).gauges == {"requests_running": 7.0}
    rows = [f'vllm:num_requests_waiting{{engine="{rank}"}} {n}' for rank, n in ((1, 5), (0, 2))]
    assert read(*rows).gauges == read(*reversed(rows)).gauges == {"requests_waiting": 7.0}


def test_f33_f34_sglang_gauges_of_the_last_moment_are_not_believed(follow: Any) -> None:
    def page(prompts: int, cached: int) -> tuple[str, ...]:
        return (f"sglang:num_running_reqs{{{SGLANG}}} 0", f"sglang:cache_hit_rate{{{SGLANG}}} 0.0",
                f"sglang:gen_throughput{{{SGLANG}}} 812.0", f'sglang:prompt_tokens_total{{model_name="m"}} {prompts}',
                f'sglang:cached_tokens_total{{cache_source="device",model_name="m"}} {cached}')  # fmt: skip

    _, pool = follow(page(1000, 100), page(1400, 300))
    assert pool.gauges["prefix_cache_hit_ratio", ""] == 0.5
    assert ("prefix_cache_hit_ratio", "") not in follow(page(1000, 100), page(1000, 100))[1].gauges
    assert 812.0 not in pool.gauges.values()


def test_f37_an_accept_rate_above_one_is_not_read(follow: Any) -> None:
    page = (f"sglang:num_running_reqs{{{SGLANG}}} 1", f"sglang:spec_accept_rate{{{SGLANG}}} 1.7",
            f"sglang:spec_accept_length{{{SGLANG}}} 2.5")  # fmt: skip
    _, pool = follow(page)
    assert pool.gauges["speculative_accept_length_tokens", ""] == 2.5
    assert ("speculative_acceptance_ratio", "") not in pool.gauges
    rows = [(f"vllm:spec_decode_num_draft_tokens_total{{{VLLM}}} {100 * step}",
             f"vllm:spec_decode_num_accepted_tokens_total{{{VLLM}}} {170 * step}") for step in (0, 1)]  # fmt: skip
    assert follow(*rows)[1].gauges["speculative_acceptance_ratio", ""] == 1.0


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_"])
def test_f39_f44_colon_or_underscore(read: Any, prefix: str) -> None:
    values = read(f"{prefix}num_requests_running{{{VLLM}}} 3", f"# TYPE {prefix}prompt_tokens counter",
                  f"{prefix}prompt_tokens_total{{{VLLM}}} 9")  # fmt: skip
    assert (values.gauges, counts(values)) == ({"requests_running": 3.0}, {"prompt_tokens": 9})


def test_f42_foreign_series_by_the_thousand_cost_nothing(understand_page: Any) -> None:
    """A07: the wanted family is the last of a page of 5,000 samples, and its histogram is whole."""
    noise = "".join(f'smg_router_requests_total{{worker="w{n}"}} {n}\n' for n in range(5000))
    wanted = "\n".join(histogram("vllm:time_to_first_token_seconds", VLLM, {"0.1": 1, "1.0": 2, "+Inf": 3})) + "\n"
    [values] = understand_page(noise + wanted).rows.values()
    assert [(key[0], one.bounds, one.counts) for key, one in values.histograms.items()] == [
        ("time_to_first_token_seconds", (0.1, 1.0), (1, 1, 1))]  # fmt: skip


def test_f46_no_adapter_family_is_no_fault(understand_page: Any) -> None:
    reading = understand_page(f"vllm:num_requests_running{{{VLLM}}} 1\n")
    [values] = reading.rows.values()
    assert (values.adapters, reading.oddities) == (None, {})


def test_f47_sglang_capacity_without_its_own_gauge(read: Any) -> None:
    gauges = read(f'sglang:num_pages{{tp_rank="0",{SGLANG}}} 500', f'sglang:page_size{{tp_rank="0",{SGLANG}}} 16',
                  f"sglang:num_running_reqs{{{SGLANG}}} 0").gauges  # fmt: skip
    assert (gauges["kv_cache_capacity_tokens"], gauges["kv_cache_blocks"], gauges["kv_cache_block_size_tokens"]) == (
        8000,
        500,
        16,
    )


def test_f48_families_with_different_labels_are_added_before_they_meet(follow: Any) -> None:
    """Cached tokens by source and no streaming, prompts by streaming and no source."""
    pages = [(f'sglang:prompt_tokens_total{{is_streaming="true",model_name="m"}} {600 * step}',
              f'sglang:prompt_tokens_total{{is_streaming="false",model_name="m"}} {400 * step}',
              f'sglang:cached_tokens_total{{cache_source="device",model_name="m"}} {300 * step}',
              f'sglang:cached_tokens_total{{cache_source="total",model_name="m"}} {50 * step}') for step in (0, 1)]  # fmt: skip
    assert follow(*pages)[1].gauges["prefix_cache_hit_ratio", ""] == 0.35


def test_f50_f51_labels_that_nobody_knows(read: Any) -> None:
    values = read('vllm:num_requests_running{engine_type="undefined",pid="7",dp_rank="3",zone="b"} 2')
    assert values.gauges == {"requests_running": 2.0}


def test_f54_one_source_for_each_signal(understand_page: Any) -> None:
    page = (f"dynamo_frontend_inflight_requests 9\ntrtllm_num_requests_running 4\nvllm:num_requests_running{{{VLLM}}} 2\n"
            f"vllm_num_requests_running{{{VLLM}}} 2\n")  # fmt: skip
    reading = understand_page(page)
    [values] = reading.rows.values()
    assert (reading.engine, values.gauges) == ("vllm", {"requests_running": 2.0})


def test_f55_tgi_requests_are_successes_and_failures(read: Any) -> None:
    values = read("tgi_request_count 20", "tgi_request_success 6", 'tgi_request_failure{err="generation"} 2',
                  'tgi_request_failure{err="overloaded"} 2')  # fmt: skip
    assert counts(values) == {"requests/other": 6, "requests/error": 2, "rejected_requests": 2}


def test_f58_f59_tgi_has_no_first_token_time_and_its_mean_is_per_token(pages: Path, understand_page: Any) -> None:
    [values] = understand_page("tgi-3.3.7-from-source-load").rows.values()
    found = {key[0] for key in values.histograms}
    assert "time_per_output_token_seconds" in found
    assert not {"time_to_first_token_seconds", "inter_token_latency_seconds"} & found
    assert not [key for key in values.gauges if key.startswith("kv_cache_usage")]
    assert values.gauges["kv_cache_reserved_ratio"] == 0.4


@pytest.mark.parametrize("body", ["<!DOCTYPE html><title>Sign in</title>", '{"error": "no"}', "[]", "Bad gateway\n"])
@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "application/json", ""])
def test_a05_an_answer_that_is_no_page_fails_with_a_reason(understand_page: Any, body: str, content_type: str) -> None:
    with pytest.raises(ReadError) as refusal:
        understand_page(body.encode(), content_type=content_type)
    assert refusal.value.reason is FailureReason.NOT_METRICS


def test_a05_a_page_of_no_type_is_read(understand_page: Any) -> None:
    assert understand_page(f"vllm:num_requests_running{{{VLLM}}} 1\n", content_type="").engine == "vllm"


def test_a06_an_empty_answer_is_no_success(understand_page: Any) -> None:
    with pytest.raises(ReadError) as refusal:
        understand_page(b"")
    assert refusal.value.reason is FailureReason.NO_KNOWN_FAMILIES
