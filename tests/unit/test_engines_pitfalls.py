"""Small pages that have misled other readers, and what each must be read as."""

from dataclasses import replace
from typing import Any

import pytest

from collector.model import Adapters, Values
from collector.reasons import FailureReason, Oddity, ReadError
from tests.make import at, pod_row, pool_row, state, target

VLLM = 'engine="0",model_name="m"'
SGLANG = 'engine_type="unified",model_name="m",pp_rank="0"'


@pytest.fixture
def read(understand_page: Any) -> Any:
    def values(*lines: str, **options: Any) -> Values:
        [found] = understand_page("\n".join(lines) + "\n", **options).rows.values()
        assert isinstance(found, Values)
        return found

    return values


def counts(values: Values) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (signal, child, _), count in values.counters.items():
        name = f"{signal}/{child}" if child else signal
        sums[name] = sums.get(name, 0) + count
    return sums


def histogram(name: str, labels: str, counted: dict[str, float], total: float) -> list[str]:
    rows = [f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in counted.items()]
    return [*rows, f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {max(counted.values())}"]


# Ratios


def test_usage_is_a_ratio_in_spite_of_its_name(read: Any) -> None:
    assert read(f"vllm:kv_cache_usage_perc{{{VLLM}}} 0.73").gauges == {
        "kv_cache_usage_ratio": 0.73,
        "kv_cache_usage_max_ratio": 0.73,
    }


RUNNING = ('vllm:num_requests_running{engine="0"} 3', 'vllm:num_requests_running{engine="1"} 4')


def test_a_family_without_a_rank_that_the_page_shows_is_left_out(read: Any) -> None:
    """The rest of it would look like the whole: a queue, or a cache, of one rank alone."""
    found = read(*RUNNING, 'vllm:num_requests_waiting{engine="0"} 50', 'vllm:kv_cache_usage_perc{engine="1"} 0.1')
    assert found.gauges == {"requests_running": 7}
    assert found.damaged == {"requests_waiting", "kv_cache_usage_ratio"}


@pytest.mark.parametrize("other", [(), ('vllm:num_requests_waiting{engine="0"} 5', 'vllm:num_requests_waiting{engine="1"} 1'),
                                   ("vllm:num_requests_waiting 6",)], ids=["absent", "whole", "without ranks"])  # fmt: skip
def test_a_family_with_all_ranks_or_none_stays(read: Any, other: tuple[str, ...]) -> None:
    found = read(*RUNNING, *other)
    assert found.gauges == {"requests_running": 7, **({"requests_waiting": 6} if other else {})}
    assert found.damaged == frozenset()


def test_an_sglang_page_without_a_rank_of_its_queue_has_no_queue(read: Any) -> None:
    ranks = [f'sglang:num_running_reqs{{{SGLANG},tp_rank="{rank}",dp_rank="{rank}"}} 2' for rank in (0, 1)]
    assert read(*ranks, f'sglang:num_queue_reqs{{{SGLANG},tp_rank="0",dp_rank="0"}} 9').gauges == {"requests_running": 4}


def test_a_usage_of_73_is_left_out_and_not_divided(understand_page: Any) -> None:
    reading = understand_page(f"vllm:kv_cache_usage_perc{{{VLLM}}} 73\nvllm:num_requests_running{{{VLLM}}} 1\n")
    [values] = reading.rows.values()
    assert values.gauges == {"requests_running": 1.0}
    assert reading.oddities == {Oddity.OUT_OF_RANGE: 1}


@pytest.mark.parametrize(("printed", "ratio"), [("-0.3875", 0.0), ("1.0000001", 1.0), ("-0.0", 0.0)])
def test_a_usage_just_outside_is_clamped_and_told(understand_page: Any, printed: str, ratio: float) -> None:
    reading = understand_page(f"vllm:kv_cache_usage_perc{{{VLLM}}} {printed}\n")
    [values] = reading.rows.values()
    assert values.gauges["kv_cache_usage_ratio"] == ratio
    assert reading.oddities == ({} if printed == "-0.0" else {Oddity.OUT_OF_RANGE: 1})


@pytest.mark.parametrize("printed", ["NaN", "+Inf", "-Inf"])
def test_a_number_that_is_none_costs_only_its_signal(understand_page: Any, printed: str) -> None:
    """Of ranks that lost one the rest is not the pod: it would look less loaded than it is."""
    page = (f"vllm:kv_cache_usage_perc{{{VLLM}}} {printed}\nvllm:num_requests_running{{{VLLM}}} 3\n"
            f'vllm:num_requests_running{{engine="1",model_name="m"}} {printed}\n'
            f"vllm:num_requests_waiting{{{VLLM}}} 2\n")  # fmt: skip
    reading = understand_page(page)
    [values] = reading.rows.values()
    assert values.gauges == {"requests_waiting": 2.0}
    assert reading.oddities == {Oddity.NOT_FINITE: 2}


def test_a_negative_count_is_left_out_and_told(understand_page: Any) -> None:
    page = (f"vllm:num_requests_running{{{VLLM}}} -1\nvllm:num_requests_waiting{{{VLLM}}} 2\n"
            'vllm:num_requests_waiting{engine="1",model_name="m"} -3\n'
            f'vllm:prompt_tokens_total{{{VLLM}}} -5\nvllm:generation_tokens_total{{{VLLM}}} 7\n')  # fmt: skip
    reading = understand_page(page)
    [values] = reading.rows.values()
    assert (values.gauges, counts(values)) == ({}, {"generation_tokens": 7})
    assert reading.oddities == {Oddity.NEGATIVE_COUNT: 3}


# Ranks on one page


def test_a09_engines_of_one_page_fold(read: Any) -> None:
    order = (3, 0, 7, 1, 6, 2, 5, 4)
    lines = [
        f'vllm:num_requests_{what}{{engine="{n}",model_name="m"}} {n + extra}'
        for what, extra in (("running", 1), ("waiting", 10))
        for n in order
    ]
    lines += [f'vllm:kv_cache_usage_perc{{engine="{n}",model_name="m"}} {n / 10}' for n in order]
    lines += [f'vllm:cache_config_info{{engine="{n}",kv_cache_size_tokens="{1000 * (n + 1)}"}} 1' for n in reversed(order)]
    values = read(*lines)
    assert values.gauges["requests_running"] == 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8
    assert values.gauges["requests_waiting"] == 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17
    assert values.gauges["kv_cache_usage_max_ratio"] == 0.7
    # (0x1 + 1x2 + 2x3 + 3x4 + 4x5 + 5x6 + 6x7 + 7x8) / 10 = 16.8, over 1 + ... + 8 = 36
    assert values.gauges["kv_cache_usage_ratio"] == pytest.approx(16.8 / 36)
    assert values.gauges["kv_cache_capacity_tokens"] == 36000


def test_usage_without_every_capacity_is_a_plain_mean(read: Any) -> None:
    values = read(
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6',
        'vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000"} 1',
    )
    assert values.gauges["kv_cache_usage_ratio"] == pytest.approx(0.4)


def test_blocks_are_the_pods_and_printed_on_each_engines_row(read: Any) -> None:
    rows = [f'vllm:cache_config_info{{engine="{n}",block_size="128",num_gpu_blocks="8192"}} 1' for n in (0, 1)]
    assert read(*rows).gauges["kv_cache_capacity_tokens"] == 8192 * 128


def test_tokens_are_each_engines_own(read: Any) -> None:
    rows = [f'vllm:cache_config_info{{engine="{n}",block_size="128",num_gpu_blocks="8192",kv_cache_size_tokens="524288"}} 1'
            for n in (0, 1)]  # fmt: skip
    assert read(*rows).gauges["kv_cache_capacity_tokens"] == 1048576


def test_copies_of_a_configuration_by_process_are_one(read: Any) -> None:
    rows = [f'vllm:cache_config_info{{engine="0",block_size="16",num_gpu_blocks="100",pid="{n}"}} 1' for n in (11, 12)]
    assert read(*rows).gauges["kv_cache_capacity_tokens"] == 1600


@pytest.mark.parametrize(
    "labels", ['num_gpu_blocks="None",block_size="16"', 'num_gpu_blocks="4"', 'kv_cache_size_tokens="None"', ""]
)
def test_a_capacity_of_none_is_absent(read: Any, labels: str) -> None:
    values = read(
        f'vllm:cache_config_info{{engine="0"{"," if labels else ""}{labels}}} 1', f"vllm:kv_cache_usage_perc{{{VLLM}}} 0.5"
    )
    known = {"kv_cache_block_size_tokens": 16.0} if "16" in labels else {"kv_cache_blocks": 4.0} if '"4"' in labels else {}
    assert values.gauges == {"kv_cache_usage_ratio": 0.5, "kv_cache_usage_max_ratio": 0.5, **known}


def test_tensor_parallel_copies_are_one(read: Any) -> None:
    lines = []
    for rank in range(8):
        labels = f'{SGLANG},tp_rank="{rank}"'
        lines += [f"sglang:token_usage{{{labels}}} 0.5", f"sglang:num_running_reqs{{{labels}}} 3",
                  f"sglang:num_queue_reqs{{{labels}}} {2 if rank == 4 else 0}", f"sglang:max_total_num_tokens{{{labels}}} 1000",
                  f'sglang:prefill_effective_tokens_total{{mode="input",{labels}}} 60',
                  f'sglang:prefill_effective_tokens_total{{mode="device_hit",{labels}}} 40',
                  *histogram("sglang:queue_time_seconds", labels, {"0.1": 4, "+Inf": 5}, 7.5)]  # fmt: skip
    values = read(*lines)
    assert values.gauges == {"requests_running": 3.0, "requests_waiting": 2.0, "kv_cache_usage_ratio": 0.5,
                             "kv_cache_usage_max_ratio": 0.5, "kv_cache_capacity_tokens": 1000.0}  # fmt: skip
    assert counts(values) == {"prefix_cache_query_tokens": 100, "prefix_cache_hit_tokens": 40,
                              "external_prefix_cache_query_tokens": 100}  # fmt: skip
    assert [one.count for one in values.histograms.values()] == [5]


def test_data_parallel_ranks_of_tensor_parallel_copies(read: Any) -> None:
    lines = [f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}",{SGLANG}}} {10 + dp}' for dp in (0, 1) for tp in (0, 1, 2)]
    lines += [f'sglang:token_usage{{dp_rank="{dp}",tp_rank="{tp}",{SGLANG}}} {0.2 + 0.6 * dp}' for dp in (0, 1) for tp in (0, 1)]
    lines += [f'sglang:max_total_num_tokens{{dp_rank="{dp}",tp_rank="{tp}",{SGLANG}}} {3000 - 2000 * dp}' for dp in (0, 1)
              for tp in (0, 1)]  # fmt: skip
    gauges = read(*lines).gauges
    assert gauges["requests_running"] == 21
    assert gauges["kv_cache_usage_ratio"] == pytest.approx((0.2 * 3000 + 0.8 * 1000) / 4000)
    assert (gauges["kv_cache_usage_max_ratio"], gauges["kv_cache_capacity_tokens"]) == (pytest.approx(0.8), 4000)


def test_priority_rows_are_parts_of_the_total_row(read: Any) -> None:
    values = read(
        *(f'sglang:num_queue_reqs{{priority="{p}",tp_rank="0",{SGLANG}}} {n}' for p, n in (("0", 4), ("", 10), ("1", 6)))
    )
    assert values.gauges == {"requests_waiting": 10.0}


def test_rows_by_process_are_copies(read: Any) -> None:
    values = read(*(f'vllm:kv_cache_usage_perc{{{VLLM},pid="{pid}"}} {use}' for pid, use in ((11, 0.4), (12, 0.0))))
    assert values.gauges["kv_cache_usage_ratio"] == 0.4


def test_unknown_labels_do_no_harm(read: Any) -> None:
    values = read(f'vllm:num_requests_running{{{VLLM},ReplicaId="a",WorkerId="b"}} 2', 'vllm:num_requests_waiting{} 3',
                  'vllm:kv_cache_usage_perc{model="m",version="1"} 0.25')  # fmt: skip
    assert (values.gauges["requests_running"], values.gauges["requests_waiting"]) == (2, 3)
    assert values.gauges["kv_cache_usage_ratio"] == 0.25


# Prefix cache


def test_sglang_hit_modes_are_disjoint(read: Any) -> None:
    values = read(*(f'sglang:prefill_effective_tokens_total{{mode="{mode}",tp_rank="0",{SGLANG}}} {n}'
                    for mode, n in (("input", 600), ("device_hit", 300), ("host_hit", 100))))  # fmt: skip
    found = counts(values)
    assert found["prefix_cache_hit_tokens"] / found["prefix_cache_query_tokens"] == 0.4


def test_sglang_cache_sources_add_up(read: Any) -> None:
    values = read(
        'sglang:cached_tokens_total{cache_source="device",model_name="m"} 300',
        'sglang:cached_tokens_total{cache_source="total",model_name="m"} 50',
        'sglang:prompt_tokens_total{model_name="m"} 1000',
    )
    assert counts(values) == {"prefix_cache_query_tokens": 1000, "prefix_cache_hit_tokens": 350, "prompt_tokens": 1000,
                              "cached_prompt_tokens": 350}  # fmt: skip


def test_sglang_without_a_first_hit_has_none(read: Any) -> None:
    found = counts(read('sglang:prompt_tokens_total{model_name="m"} 1000'))
    assert (found["prefix_cache_query_tokens"], found["prefix_cache_hit_tokens"]) == (1000, 0)


def test_prefix_counters_of_both_names_are_not_added(read: Any) -> None:
    values = read(f"vllm:gpu_prefix_cache_queries_total{{{VLLM}}} 7", f"vllm:gpu_prefix_cache_hits_total{{{VLLM}}} 3",
                  f"vllm:prefix_cache_queries_total{{{VLLM}}} 700", f"vllm:prefix_cache_hits_total{{{VLLM}}} 300")  # fmt: skip
    assert counts(values) == {"prefix_cache_query_tokens": 700, "prefix_cache_hit_tokens": 300}


# Names and types


def test_a08_the_newest_of_two_names_is_read_and_absent_is_not_zero(read: Any) -> None:
    old, new = f"vllm:gpu_cache_usage_perc{{{VLLM}}} 0.4", f"vllm:kv_cache_usage_perc{{{VLLM}}} 0.5"
    assert read(old).gauges["kv_cache_usage_ratio"] == 0.4
    assert read(new).gauges["kv_cache_usage_ratio"] == 0.5
    assert read(old, new).gauges["kv_cache_usage_ratio"] == read(new, old).gauges["kv_cache_usage_ratio"] == 0.5
    assert read(f"vllm:num_requests_running{{{VLLM}}} 0").gauges == {"requests_running": 0.0}


def test_a08_inter_token_latency_of_both_names_is_read_once(read: Any) -> None:
    old = histogram("vllm:time_per_output_token_seconds", VLLM, {"0.1": 1, "+Inf": 2}, 1.0)
    new = histogram("vllm:inter_token_latency_seconds", VLLM, {"0.1": 3, "+Inf": 5}, 1.0)
    own = histogram("vllm:request_time_per_output_token_seconds", VLLM, {"0.1": 7, "+Inf": 9}, 1.0)
    found = {key[0]: one.count for key, one in read(*old, *new, *own).histograms.items()}
    assert found == {"inter_token_latency_seconds": 5, "time_per_output_token_seconds": 9}
    assert {key[0]: one.count for key, one in read(*old).histograms.items()} == {"inter_token_latency_seconds": 2}


def test_time_per_output_token_is_per_request_in_old_sglang(read: Any) -> None:
    lines = histogram("sglang:time_per_output_token_seconds", 'model_name="m"', {"0.1": 1, "+Inf": 2}, 1.0)
    assert {key[0] for key in read(*lines).histograms} == {"time_per_output_token_seconds"}


def test_a02_created_is_no_counter(read: Any) -> None:
    values = read(
        "# TYPE vllm:prompt_tokens_created gauge",
        f"vllm:prompt_tokens_created{{{VLLM}}} 1.79e9",
        f"vllm:prompt_tokens_total{{{VLLM}}} 5",
        f"vllm:time_to_first_token_seconds_created{{{VLLM}}} 1.79e9",
    )
    assert counts(values) == {"prompt_tokens": 5}
    assert values.histograms == {}


def test_a_histogram_whose_name_ends_in_total(read: Any) -> None:
    lines = histogram("vllm:iteration_tokens_total", VLLM, {"1.0": 2, "+Inf": 8}, 100.0)
    values = read("# TYPE vllm:iteration_tokens_total histogram", *lines)
    assert (values.progress, values.counters, values.histograms) == (8.0, {}, {})


def test_a_gauge_with_bounds_is_no_histogram(understand_page: Any) -> None:
    page = ("# TYPE sglang:routing_key_running_req_count gauge\n"
            f'sglang:routing_key_running_req_count{{gt="0",le="1",tp_rank="0",{SGLANG}}} 1\n'
            f'sglang:num_running_reqs{{tp_rank="0",{SGLANG}}} 1\n')  # fmt: skip
    reading = understand_page(page)
    assert reading.unknown_families == 0
    [values] = reading.rows.values()
    assert (values.gauges, values.histograms) == ({"requests_running": 1.0}, {})


def test_a_new_family_is_counted_as_unknown(understand_page: Any) -> None:
    page = (f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{{VLLM}}} 1\n# TYPE vllm:brand_new gauge\n"
            "# TYPE vllm:newer_total counter\n# TYPE vllm:newest histogram\n# TYPE other:one gauge\n"
            "# TYPE vllm:prompt_tokens_created gauge\n# TYPE vllm:prompt_tokens counter\n")  # fmt: skip
    assert understand_page(page).unknown_families == 3


def test_exponents(read: Any) -> None:
    values = read(f"vllm:prompt_tokens_total{{{VLLM}}} 1e+15", f"vllm:kv_cache_usage_perc{{{VLLM}}} 1.7e-05")
    assert counts(values) == {"prompt_tokens": 10**15}
    assert values.gauges["kv_cache_usage_ratio"] == 1.7e-05


def test_label_text_is_kept_as_it_is(read: Any) -> None:
    values = read('vllm:num_requests_running{engine="0",model_name="org/m \\"x\\"\\\\n,{}"} 1')
    assert values.model == 'org/m "x"\\n,{}'


def test_one_token_requests_enter_time_per_output_token_as_zero(read: Any) -> None:
    lines = histogram("vllm:request_time_per_output_token_seconds", VLLM, {"0.01": 10, "+Inf": 10}, 0.0)
    empty = histogram("vllm:inter_token_latency_seconds", VLLM, {"0.01": 0, "+Inf": 0}, 0.0)
    found = {key[0]: (one.count, one.sum_fixed) for key, one in read(*lines, *empty).histograms.items()}
    assert found == {"time_per_output_token_seconds": (10, 0), "inter_token_latency_seconds": (0, 0)}


def test_aborted_requests_are_seen_only_in_time_to_first_token(read: Any) -> None:
    lines = [*histogram("vllm:time_to_first_token_seconds", VLLM, {"1.0": 43, "+Inf": 43}, 1.0),
             *histogram("vllm:e2e_request_latency_seconds", VLLM, {"1.0": 40, "+Inf": 40}, 1.0)]  # fmt: skip
    lines += [
        f'vllm:request_success_total{{finished_reason="{reason}",{VLLM}}} {n}'
        for reason, n in (("stop", 30), ("length", 9), ("abort", 0), ("error", 0), ("repetition", 1), ("novel", 0))
    ]
    values = read(*lines)
    assert counts(values) == {
        "requests/stop": 30,
        "requests/length": 9,
        "requests/abort": 0,
        "requests/error": 0,
        "requests/other": 1,
    }
    assert {key[0]: one.count for key, one in values.histograms.items()} == {
        "time_to_first_token_seconds": 43, "end_to_end_latency_seconds": 40}  # fmt: skip


# Formats


def test_a01_both_text_formats_give_the_same_counter(understand_page: Any) -> None:
    name = f'vllm:request_success_total{{{VLLM},finished_reason="stop"}}'
    text = f"# TYPE vllm:request_success_total counter\n{name} 4.0\n"
    other = (f'# TYPE vllm:request_success counter\n{name} 4.0 # {{a="b"}} 1\n'
             f"{name.replace('_total', '_created')} 1.79e9\n# EOF\n")  # fmt: skip
    first, second = understand_page(text), understand_page(other, content_type="application/openmetrics-text; version=1.0.0")
    assert list(first.rows.values()) == list(second.rows.values())
    assert counts(next(iter(first.rows.values()))) == {"requests/stop": 4}
    assert first.unknown_families == second.unknown_families == 0


def test_a03_comments_never_fail_a_page(understand_page: Any, pages: Any) -> None:
    text = (pages / "vllm-0.32.0-load-queued.prom").read_text()
    comments = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    other = comments.replace(" gauge\n", " counter\n") + "#\n# HELP\n# TYPE\n# HELP vllm:num_requests_running\n# HELP vllm:x \n"
    reading, plain = understand_page(other + text + other + comments), understand_page(text)
    assert (reading.rows, reading.oddities, reading.unknown_families) == (plain.rows, {}, 0)


def test_a04_bounds_are_numbers(read: Any) -> None:
    ones = read(*histogram("vllm:time_to_first_token_seconds", VLLM, {"1": 1, "2.50": 2, "+Inf": 2}, 1.5)).histograms
    others = read(*histogram("vllm:time_to_first_token_seconds", VLLM, {"1.0": 1, "25e-1": 2, "inf": 2}, 1.5)).histograms
    twins = read(*histogram("vllm:time_to_first_token_seconds", VLLM, {"1": 1, "1.0": 1, "2.5": 2, "+Inf": 2}, 1.5)).histograms
    assert ones == others == twins
    assert [one.bounds for one in ones.values()] == [(1.0, 2.5)]


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "kserve_vllm:"])
def test_a13_the_same_page_under_any_prefix(understand_page: Any, pages: Any, prefix: str) -> None:
    text = (pages / "vllm-0.32.0-load-queued.prom").read_text()
    reading, plain = understand_page(text.replace("vllm:", prefix)), understand_page(text)
    assert (reading.engine, reading.unknown_families) == ("vllm", 0)
    assert reading.rows == plain.rows


@pytest.mark.parametrize("prefix", ["sglang_", "ray_sglang_"])
def test_a13_sglang_under_another_prefix(understand_page: Any, pages: Any, prefix: str) -> None:
    text = (pages / "sglang-0.5.23-load-queued.prom").read_text()
    assert understand_page(text.replace("sglang:", prefix)).rows == understand_page(text).rows


def test_a13_a_page_in_both_spellings_is_read_once(understand_page: Any, pages: Any) -> None:
    text = (pages / "vllm-0.32.0-load-queued.prom").read_text()
    assert understand_page(text + text.replace("vllm:", "vllm_")).rows == understand_page(text).rows


# Adapters


def test_a14_of_500_adapter_mixes_only_the_newest_counts(read: Any) -> None:
    def age(n: int) -> float:
        return 1.79e9 + n * 7919 % 500

    rows = [
        f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="a{n}",waiting_lora_adapters="b{n}"}} {age(n)}'
        for n in range(500)
    ]
    newest = max(range(500), key=age)
    adapters = read(*rows).adapters
    assert adapters == Adapters(frozenset({f"a{newest}"}), frozenset({f"b{newest}"}), 4)
    done = 'vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.8e9'
    assert read(*rows[:250], done, *rows[250:]).adapters == Adapters(frozenset(), frozenset(), 4)


def test_a14_order_of_names_does_not_matter(read: Any) -> None:
    row = 'vllm:lora_requests_info{{max_lora="2",running_lora_adapters="{0}",waiting_lora_adapters="{0}"}} {1}'
    adapters = read(row.format("a,b", 5), row.format("b, a", 7), f"vllm:external_prefix_cache_queries_total{{{VLLM}}} 0").adapters
    assert adapters == Adapters(frozenset("ab"), None, 2)


def test_adapters_with_any_work_are_those_of_both_labels(read: Any) -> None:
    row = 'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a",waiting_lora_adapters="b"} 7'
    assert read(row).adapters == Adapters(frozenset("a"), frozenset("b"), 2)
    assert read(row, f"vllm:external_prefix_cache_queries_total{{{VLLM}}} 0").adapters == Adapters(frozenset("ab"), None, 2)


def test_sglang_tells_the_number_of_its_adapters(understand_page: Any) -> None:
    """Known of each pod; two pods may run the same ones, so nothing is said of the pool."""
    pods = [target("p0"), target("p1")]
    core = state(*pods)
    for pod, used in zip(pods, ((2, 1), (0, 3)), strict=True):
        rows = [f'sglang:lora_pool_slots_{what}{{dp_rank="{rank}",{SGLANG}}} {number}' for rank in (0, 1)
                for what, number in (("used", used[rank]), ("total", 4))]  # fmt: skip
        core.absorb(understand_page("\n".join(rows) + "\n", target=pod, at=at(0)))
    cut = core.snapshot(at(0))
    assert [pod_row(cut, pod.pod).gauges["adapters_running", ""] for pod in pods] == [2, 3]
    assert ("adapters_running", "") not in pool_row(cut).gauges
    assert pool_row(cut).gauges["adapters_max", ""] == 8


@pytest.mark.parametrize("bad", ["NaN", "+Inf"])
@pytest.mark.parametrize("first", [True, False])
def test_a_mix_without_a_time_leaves_the_mix_unknown(read: Any, bad: str, first: bool) -> None:
    """It may have been the newest: an older one is not shown as current."""
    row = 'vllm:lora_requests_info{{max_lora="2",running_lora_adapters="{}",waiting_lora_adapters=""}} {}'
    rows = [row.format("x", bad), row.format("a", 7)]
    assert read(*(rows if first else reversed(rows))).adapters is None


def test_an_engine_that_cannot_tell_waiting_adapters_never_tells_them(read: Any) -> None:
    """Not at idle either, or the number would come and go."""
    declared, later = "# TYPE vllm:lora_requests_info gauge", f"vllm:external_prefix_cache_queries_total{{{VLLM}}} 0"
    assert read(declared, later).adapters == Adapters(frozenset(), None, None)
    assert read(declared, f"vllm:num_requests_running{{{VLLM}}} 0").adapters == Adapters(frozenset(), frozenset(), None)


def test_a15_a_page_without_adapters_is_nothing_odd(understand_page: Any, pages: Any) -> None:
    text = (pages / "vllm-0.32.0-lora-running-waiting.prom").read_text()
    bare = "\n".join(line for line in text.splitlines() if "lora_requests_info" not in line) + "\n"
    reading = understand_page(bare)
    [values] = reading.rows.values()
    assert (values.adapters, reading.oddities, reading.unknown_families) == (None, {}, 0)
    assert "adapters_max" not in values.gauges


# TGI


def test_a18_tgi_labels_that_look_like_code_and_its_mean_time(read: Any) -> None:
    odd = 'err="{\'validation\': \\"x\\", 1}"'
    lines = [
        "tgi_request_success 5",
        f"tgi_request_failure{{{odd}}} 2",
        *histogram("tgi_request_mean_time_per_token_duration", odd, {"0.00015000000000000001": 1, "+Inf": 4}, 0.5),
    ]
    values = read(*lines)
    assert counts(values) == {"requests/other": 5, "requests/error": 2}
    assert {key[0]: (one.count, one.bounds) for key, one in values.histograms.items()} == {
        "time_per_output_token_seconds": (4, (0.00015000000000000001,))}  # fmt: skip


def test_a_summary_before_its_first_observation_is_absent(read: Any) -> None:
    values = read('tgi_request_skipped_tokens{quantile="0.5"} NaN', "tgi_request_skipped_tokens_sum 0", "tgi_queue_size 0")
    assert (values.gauges, values.counters, values.histograms) == ({"requests_waiting": 0.0}, {}, {})


# Whose page it is


def test_a_mixed_page_is_its_engines(understand_page: Any) -> None:
    page = (f"lmcache:num_hit_tokens_total 7\nvllm:num_requests_running{{{VLLM}}} 1\nhttp_requests_total{{status=\"2xx\"}} 4\n"
            "python_info 1\ndynamo_frontend_inflight_requests 9\n")  # fmt: skip
    reading = understand_page(page)
    assert (reading.engine, [values.gauges for values in reading.rows.values()]) == ("vllm", [{"requests_running": 1.0}])


def test_two_engines_on_one_page_by_declaration(understand_page: Any, target: Any) -> None:
    page = f"vllm:num_requests_running{{{VLLM}}} 1\nsglang:num_running_reqs{{{SGLANG}}} 2\n"
    assert understand_page(page).engine == "vllm"
    assert understand_page(page, target=replace(target, engine="sglang")).engine == "sglang"


@pytest.mark.parametrize(
    "page",
    [
        "foo:num_requests_running 1\n",
        "num_requests_running 1\n",
        "vllm_router_requests_total 1\n",
        "vllmx:num_requests_running 1\n",
        "",
        "process_start_time_seconds 1.7e9\n",
        "# TYPE vllm:no_such_family gauge\nvllm:no_such_family 1\n",
        "smg_http_requests_total 1\n",
    ],
)
def test_a_page_of_nobody(understand_page: Any, page: str) -> None:
    with pytest.raises(ReadError) as refusal:
        understand_page(page)
    assert refusal.value.reason is FailureReason.NO_KNOWN_FAMILIES
