"""The builders of PromQL: what they write, and what they refuse."""

import pytest

from alerts.promql import (
    braces,
    bucket_rates_of,
    fold_of,
    increase_of,
    increases_of,
    on,
    quantile_of,
    rate_of,
    selector,
    share_of,
    within_of,
)
from collector.signals import Level

POOL = Level.POOL


def test_selector_takes_operators_and_quotes_values():
    assert selector("saturation_ratio", POOL) == "llm_pool_saturation_ratio"
    assert selector("pods", POOL, pool="=~$pool", state="!=fresh", cluster='a"b\\') == (
        'llm_pool_pods{pool=~"$pool", state!="fresh", cluster="a\\"b\\\\"}'
    )
    assert selector("info", Level.POD, engine="vllm") == 'llm_pod_info{engine="vllm"}'
    assert braces({"a": "!~x", "b": ""}) == '{a!~"x", b=""}'


def test_folds_rates_and_quantiles_keep_the_labels_of_the_level_unless_told():
    assert fold_of("max", "saturation_ratio", POOL, over="5m") == (
        "max by (cluster, namespace, pool) (max_over_time(llm_pool_saturation_ratio[5m]))"
    )
    assert fold_of("sum", "pods", POOL, by=("state",)) == "sum by (state) (llm_pool_pods)"
    assert rate_of("requests", POOL, window="5m", by=(), outcome="error") == (
        'sum(rate(llm_pool_requests_total{outcome="error"}[5m]))'
    )
    assert increase_of("time_to_first_token_seconds", POOL, window="1h") == (
        "sum by (cluster, namespace, pool) (increase(llm_pool_time_to_first_token_seconds_count[1h]))"
    )
    assert quantile_of(0.99, "queue_time_seconds", Level.CLUSTER, window="$__rate_interval") == (
        "histogram_quantile(0.99, sum by (le, cluster) (rate(llm_cluster_queue_time_seconds_bucket[$__rate_interval])))"
    )
    assert on(Level.CLUSTER) == "on (cluster)"


def test_counters_of_different_labels_are_added_and_equal_ones_refused():
    parts = (("requests", {"outcome": "!=abort"}), ("rejected_requests", {}))
    assert increases_of(*parts, level=POOL, window="5m", by=()) == (
        'sum(increase(llm_pool_requests_total{outcome!="abort"}[5m]) or increase(llm_pool_rejected_requests_total[5m]))'
    )
    with pytest.raises(TypeError, match="whose own labels differ: preemptions, rejected_requests"):
        increases_of(("preemptions", {}), ("rejected_requests", {}), level=POOL, window="5m")


def test_exporters_are_told_apart_by_the_labels_of_the_scrape():
    assert fold_of("max", "unstable_targets", Level.EXPORTER) == "max by (job, instance) (llm_exporter_unstable_targets)"
    assert on(Level.EXPORTER) == "on (job, instance)"
    assert bucket_rates_of("scrape_duration_seconds", Level.EXPORTER, window="5m") == (
        "sum by (le, job, instance) (rate(llm_exporter_scrape_duration_seconds_bucket[5m]))"
    )
    assert fold_of("max", "state", Level.POD, by=("pod", "shard"), state="down") == (
        'max by (pod, shard) (llm_pod_state{state="down"})'
    )


def test_a_whole_bound_matches_both_its_spellings_and_any_other_its_only_one():
    def within(name, bound):
        return within_of(name, POOL, bound, window="5m", by=())

    ttft = "llm_pool_time_to_first_token_seconds_bucket"
    assert within("time_to_first_token_seconds", 1.0) == f'sum(increase({ttft}{{le=~"1|1[.]0"}}[5m]))'
    assert within("time_to_first_token_seconds", 0.25) == f'sum(increase({ttft}{{le="0.25"}}[5m]))'
    assert 'le=~"1100000|1[.]1e[+]06"' in within("request_prompt_tokens", 1_100_000.0)


def test_a_share_is_of_counters_of_the_table_and_absent_without_events():
    assert share_of("error_ratio", POOL, window="5m", by=()) == (
        'sum(rate(llm_pool_requests_total{outcome="error"}[5m])) / (sum(rate(llm_pool_requests_total[5m])) > 0)'
    )
    assert share_of("prefix_cache_hit_ratio", Level.POD, window="5m", by=()) == (
        "sum(rate(llm_pod_prefix_cache_hit_tokens_total[5m])) / (sum(rate(llm_pod_prefix_cache_query_tokens_total[5m])) > 0)"
    )


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: rate_of("saturation_ratio", POOL, window="5m"), TypeError, "saturation_ratio is a gauge"),
        (lambda: increase_of("pods", POOL, window="5m"), TypeError, "pods is a gauge"),
        (lambda: quantile_of(0.5, "requests", POOL, window="5m"), TypeError, "requests_total is a counter"),
        (lambda: within_of("requests", POOL, 1.0, window="5m"), TypeError, "wants a histogram"),
        (lambda: selector("requests", POOL), TypeError, "requests_total is a counter"),
        (lambda: fold_of("max", "requests", POOL), TypeError, "wants a gauge"),
        (lambda: fold_of("sum", "kv_cache_usage_ratio", POOL), TypeError, "do not add up"),
        (lambda: fold_of("sum", "signal_age_seconds", Level.POD), TypeError, "do not add up"),
        (lambda: fold_of("sum", "adapters_running", POOL), TypeError, "do not add up"),
        (lambda: fold_of("sum", "requests_waiting", POOL, over="5m"), TypeError, "do not add up"),
        (lambda: share_of("saturation_ratio", POOL, window="5m"), TypeError, "no share"),
        (
            lambda: within_of("time_to_first_token_seconds", POOL, 3.0, window="5m"),
            ValueError,
            "no bucket bound",
        ),
        (lambda: rate_of("requests", POOL, window="five minutes"), ValueError, "no PromQL duration"),
        (lambda: rate_of("requests", POOL, window="5m", outcome="eror"), ValueError, "stop, length"),
        (lambda: rate_of("requests", POOL, window="5m", pod="a"), KeyError, "no label 'pod'"),
        (lambda: fold_of("max", "saturation_ratio", POOL, by=("engine",)), KeyError, "no label 'engine'"),
        (lambda: selector("saturation", POOL), KeyError, "saturation_ratio"),
        (lambda: selector("saturation_ratio", Level.POD), KeyError, "no level pod"),
    ],
)
def test_what_the_table_does_not_bear_out_is_refused(build, error, says):
    with pytest.raises(error, match=says.replace(".", r"\.")):
        build()
