"""The table itself: what holds for every row, and the contract it must contain."""

import pytest

from collector.engines import ENGINES
from collector.naming import families, metric, prometheus_name
from collector.signals import (
    COVERS,
    EXPORTER,
    FAST_SIGNALS,
    INFO,
    OUTCOMES,
    READ_SIGNALS,
    SHARES,
    SIGNALS,
    WINDOWED,
    Fold,
    Kind,
    Lane,
    Level,
    State,
)

ROWS = [*SIGNALS.values(), *INFO.values(), *EXPORTER.values()]
CONTRACT = [
    "llm_pod_requests_running", "llm_pod_requests_waiting", "llm_pod_kv_cache_usage_ratio", "llm_pod_kv_cache_usage_max_ratio",
    "llm_pod_state", "llm_pod_last_sample_timestamp_seconds", "llm_pod_signal_age_seconds", "llm_pod_targets", "llm_pod_info",
    "llm_exporter_target_up", "llm_exporter_target_failures_total", "llm_exporter_build_info",
    "llm_exporter_config_last_reload_successful", "llm_exporter_scrape_duration_seconds", "llm_exporter_series",
    "llm_exporter_unknown_families", "llm_exporter_increase_discarded_total",
]  # fmt: skip
ABOVE = [
    "requests_running", "requests_total", "prompt_tokens_total", "generation_tokens_total", "time_to_first_token_seconds",
    "inter_token_latency_seconds", "time_per_output_token_seconds", "end_to_end_latency_seconds", "queue_time_seconds",
    "prefill_time_seconds", "decode_time_seconds", "request_prompt_tokens", "request_generation_tokens", "pods",
    "reporting_ratio", "saturation_ratio", "imbalance_ratio", "prefix_cache_hit_ratio", "error_ratio", "info",
]  # fmt: skip


@pytest.mark.parametrize("name", CONTRACT + [f"llm_{level}_{name}" for level in ("pool", "cluster") for name in ABOVE])
def test_the_contract_is_in_the_table(name: str) -> None:
    assert name in {prometheus_name(signal, level) for signal, level in families()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.levels[0]}")
def test_every_row_is_whole(row: object) -> None:
    signal = next(one for one in ROWS if one is row)
    assert signal.levels
    assert signal.help.endswith(".")
    assert "\n" not in signal.help
    assert "\\" not in signal.help
    assert bool(signal.ladder) == (signal.kind is Kind.HISTOGRAM)
    if signal.children:
        assert len(signal.labels) == 1
    for unit in ("seconds", "ratio", "tokens"):
        if signal.name.endswith(f"_{unit}"):
            assert signal.unit == unit


OPEN = {"adapter_pods"} | {name.replace("_seconds", "_window_seconds") for name in WINDOWED}


def test_own_labels_have_closed_children_or_are_capped() -> None:
    """Children of closed lists are in the table; of the open ones adapters are capped, quantiles and windows are ours."""
    assert {row.name for row in SIGNALS.values() if row.labels and not row.children} == OPEN
    assert all(len(row.labels) == 1 for row in SIGNALS.values() if row.children)


def test_windowed_signals_are_histograms() -> None:
    assert all(SIGNALS[name].kind is Kind.HISTOGRAM for name in WINDOWED)


def test_closed_lists() -> None:
    assert SIGNALS["requests"].children == OUTCOMES == ("stop", "length", "abort", "error", "other")
    assert SIGNALS["state"].children == SIGNALS["pods"].children == tuple(State)
    assert len(State) == 6


def test_counters_and_histograms_are_additive_ratios_are_not() -> None:
    assert SIGNALS["requests"].additive
    assert SIGNALS["time_to_first_token_seconds"].additive
    assert SIGNALS["requests_running"].additive
    assert not SIGNALS["kv_cache_usage_ratio"].additive
    assert not SIGNALS["saturation_ratio"].additive


def test_lanes_cover_what_is_read_and_nothing_computed() -> None:
    assert COVERS[Lane.FULL] == READ_SIGNALS
    assert COVERS[Lane.FAST] == FAST_SIGNALS < READ_SIGNALS
    assert {"requests_running", "requests_waiting", "kv_cache_usage_ratio", "prefix_cache_hit_tokens"} <= FAST_SIGNALS
    assert not READ_SIGNALS & SHARES.keys()


def test_shares_speak_of_counters_of_one_lane() -> None:
    """A ratio whose halves were read at different moments would be wrong."""
    for share in SHARES.values():
        above, below = SIGNALS[share.numerator], SIGNALS[share.denominator]
        assert above.kind is below.kind is Kind.COUNTER
        assert above.fast is below.fast
        assert share.child in ("", *above.children)


def test_engines_supply_only_what_the_table_reads() -> None:
    for engine in ENGINES.values():
        supplied = {*(rule.signal for rule in engine.rules), *engine.special}
        assert supplied <= READ_SIGNALS
        assert engine.from_zero <= supplied
        for rule in engine.rules:
            allowed = (*SIGNALS[rule.signal].children, "*") if SIGNALS[rule.signal].children else ("",)
            children = {rule.child} - {""} | {*rule.children.values(), rule.other_child} - {""}
            assert children <= set(allowed), (engine.name, rule)


def test_every_signal_read_from_pages_has_an_engine() -> None:
    by_themselves = {"kv_cache_usage_max_ratio", "process_start_timestamp_seconds"}
    fed = {signal for engine in ENGINES.values() for signal in (*(rule.signal for rule in engine.rules), *engine.special)}
    assert fed | by_themselves == READ_SIGNALS


def test_no_family_is_both_read_and_on_the_list_of_unused_ones() -> None:
    for engine in ENGINES.values():
        assert not engine.families & engine.unused


def test_folds_fit_kinds() -> None:
    for row in SIGNALS.values():
        if row.kind in (Kind.COUNTER, Kind.HISTOGRAM):
            assert row.fold is Fold.SUM
        assert (row.fold is Fold.RATIO) == (row.share is not None)


def test_own_metrics_are_at_the_exporters_level_only() -> None:
    assert {level for row in EXPORTER.values() for level in row.levels} == {Level.EXPORTER}
    assert metric("series", Level.EXPORTER) == "llm_exporter_series"
