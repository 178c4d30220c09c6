"""From the table to the names, labels and bounds that back ends see."""

import re

import pytest
from prometheus_client.utils import floatToGoString

from collector.naming import (
    EXACT,
    LEVEL_LABELS,
    OVERFLOW,
    bound_label,
    cloudwatch_name,
    cloudwatch_unit,
    families,
    find,
    label_names,
    metric,
    prometheus_name,
)
from collector.signals import EXPORTER, INFO, SIGNALS, Kind, Level


@pytest.mark.parametrize(
    ("signal", "level", "name"),
    [
        ("requests_running", Level.POD, "llm_pod_requests_running"),
        ("requests", Level.POOL, "llm_pool_requests_total"),
        ("prompt_tokens", Level.CLUSTER, "llm_cluster_prompt_tokens_total"),
        ("request_prompt_tokens", Level.POOL, "llm_pool_request_prompt_tokens"),
        ("time_to_first_token_seconds", Level.POOL, "llm_pool_time_to_first_token_seconds"),
        ("info", Level.POD, "llm_pod_info"),
        ("info", Level.CLUSTER, "llm_cluster_info"),
        ("target_failures", Level.EXPORTER, "llm_exporter_target_failures_total"),
        ("build_info", Level.EXPORTER, "llm_exporter_build_info"),
    ],
)
def test_names(signal: str, level: Level, name: str) -> None:
    assert metric(signal, level) == name


def test_an_unknown_signal_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'requests_running'"):
        metric("request_running", Level.POD)
    with pytest.raises(KeyError, match="no signal 'zzz' at level pod"):
        metric("zzz", Level.POD)


def test_a_wrong_level_names_the_right_ones() -> None:
    with pytest.raises(KeyError, match="has no level pod; it has pool, cluster"):
        metric("saturation_ratio", Level.POD)
    with pytest.raises(KeyError, match="no signal 'info'"):
        metric("info", Level.EXPORTER)


def test_the_exporters_own_rows_are_apart_from_the_pods() -> None:
    assert find("targets", Level.EXPORTER) is EXPORTER["targets"]
    assert find("targets", Level.POD) is SIGNALS["targets"]


def test_labels() -> None:
    assert label_names(SIGNALS["requests"], Level.POOL) == ("cluster", "namespace", "pool", "outcome")
    assert label_names(SIGNALS["state"], Level.POD) == ("cluster", "namespace", "pool", "pod", "state")
    assert label_names(INFO[Level.POOL], Level.POOL) == ("cluster", "namespace", "pool", "model", "engine")
    assert LEVEL_LABELS[Level.EXPORTER] == ()


def test_no_label_stands_twice_in_a_family() -> None:
    for signal, level in families():
        names = label_names(signal, level)
        assert len(set(names)) == len(names), (signal.name, level)
        assert "le" not in names


def test_every_row_is_a_family_at_each_of_its_levels_once() -> None:
    listed = [(signal.name, level) for signal, level in families()]
    assert len(set(listed)) == len(listed)
    rows = [*SIGNALS.values(), *INFO.values(), *EXPORTER.values()]
    assert len(listed) == sum(len(row.levels) for row in rows)


def test_names_are_legal_and_stay_unique_without_their_suffixes() -> None:
    """A back end that strips type and unit suffixes must not make two families one."""
    names = [prometheus_name(signal, level) for signal, level in families()]
    assert all(re.fullmatch(r"llm_[a-z]+_[a-z0-9_]+", name) for name in names)
    stripped = [re.sub(r"(_total|_bucket|_sum|_count|_created|_info)+$", "", name) for name in names
                if not name.endswith("_info")]  # fmt: skip
    assert len(set(stripped)) == len(stripped)


def test_no_family_is_a_part_of_another() -> None:
    names = {prometheus_name(signal, level): signal for signal, level in families()}
    parts = {f"{name}{part}" for name, signal in names.items() for part in ("_bucket", "_sum", "_count", "_created")
             if signal.kind is Kind.HISTOGRAM}  # fmt: skip
    assert not parts & names.keys()


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0.0, "0.0"), (0.001, "0.001"), (0.5, "0.5"), (1.0, "1.0"), (100.0, "100.0"), (2560.0, "2560.0"), (12500.0, "12500.0"),
        (100000.0, "100000.0"), (1000000.0, "1e+06"), (1100000.0, "1.1e+06"), (500000.0, "500000.0"), (float("inf"), "+Inf"),
        (1e-05, "1e-05"),
    ],
)  # fmt: skip
def test_bounds_are_spelled_in_one_way(bound: float, text: str) -> None:
    """A04: one bound, one spelling, whatever an engine wrote."""
    assert bound_label(bound) == text


@pytest.mark.parametrize("name", [row.name for row in SIGNALS.values() if row.ladder] + ["scrape_duration_seconds"])
def test_bounds_are_spelled_as_prometheus_client_does(name: str) -> None:
    ladder = (SIGNALS.get(name) or EXPORTER[name]).ladder
    assert [bound_label(bound) for bound in ladder] == [floatToGoString(bound) for bound in ladder]
    assert [float(bound_label(bound)) for bound in ladder] == list(ladder)


def test_cloudwatch_names_and_units_come_from_the_table() -> None:
    assert cloudwatch_name("requests", Level.POOL) == "llm_pool_requests"
    assert cloudwatch_name("kv_cache_usage_ratio", Level.CLUSTER) == "llm_cluster_kv_cache_usage_ratio"
    assert cloudwatch_unit("time_to_first_token_seconds", Level.POOL) == "Seconds"
    assert cloudwatch_unit("generation_tokens", Level.POOL) == "Count"
    assert cloudwatch_unit("saturation_ratio", Level.POOL) == "None"


def test_cloudwatch_names_stay_unique() -> None:
    names = [cloudwatch_name(row.name, level) for row, level in families()]
    names += [f"{cloudwatch_name(row.name, level)}{suffix}" for row, level in families() if row.ladder
              for suffix in (EXACT, OVERFLOW)]  # fmt: skip
    assert len(names) == len(set(names))
