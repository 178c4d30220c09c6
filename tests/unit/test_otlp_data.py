"""A snapshot as OTLP: what our page says, series by series; units, start times, and values that cannot be sent."""

import math
import re
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum
from prometheus_client.parser import text_string_to_metric_families as parse

from collector.naming import GEN_AI, families, otlp_name, otlp_unit
from collector.signals import EXPORTER, SIGNALS, Kind, Level
from collector.snapshot import Row, Snapshot
from collector.totals import Histogram as Counts
from exporter.publish.otlp.batch import split
from exporter.publish.otlp.data import build
from exporter.publish.otlp.own import SCOPE
from exporter.publish.prometheus import Format, render
from tests.make import WALL, at, counts, pool_row, reading, state, target, values
from tests.otlp_reader import Series, encoded, metrics_of, samples
from tests.unit.test_publish_prometheus import HOSTILE, cut


def page_samples(snapshot: Snapshot) -> dict[Series, float]:
    """Our page as its reader sees it: an empty label is none."""
    found: dict[Series, float] = {}
    for family in parse(render(snapshot, Format.TEXT, max_pods=100)[0]):
        for sample in family.samples:
            labels = {key: str(float(text)) if key == "le" else text for key, text in sample.labels.items() if text}
            found[sample.name, frozenset(labels.items())] = sample.value
    return found


@dataclass(frozen=True, slots=True)
class Built:
    """All metrics of a snapshot, and what was left out."""

    metrics: list[Metric]
    left_out: Counter[str]


def built(snapshot: Snapshot, *, gen_ai: bool = False, max_pods: int = 100) -> Built:
    left_out: Counter[str] = Counter()
    return Built(list(build(snapshot, left_out, max_pods=max_pods, gen_ai=gen_ai)), left_out)


def test_every_sample_of_the_page_and_no_other_is_in_the_metrics() -> None:
    snapshot = cut()
    assert samples(metrics_of(encoded(built(snapshot).metrics))) == page_samples(snapshot)


@pytest.mark.parametrize("name", HOSTILE)
def test_labels_arrive_as_they_are(name: str) -> None:
    core = state(target(pod=name))
    core.absorb(reading(target(pod=name), values(counts(prompt_tokens=1), requests_running=1.0), at(1)))
    snapshot = core.snapshot(at(2))
    assert samples(metrics_of(encoded(built(snapshot).metrics))) == page_samples(snapshot)


def test_half_a_character_costs_only_itself() -> None:
    snapshot = cut()
    odd = replace(snapshot, pods=(replace(snapshot.pods[0], labels=("c", "n", "p", "a\ud800b")), *snapshot.pods[1:]))
    assert len(samples(metrics_of(encoded(built(odd).metrics)))) == len(page_samples(snapshot))


def test_pods_beyond_the_cap_are_left_out() -> None:
    few = built(cut(), max_pods=1).metrics
    pods = {dict(point.attributes or {})["pod"] for metric in few for point in metric.data.data_points
            if "pod" in (point.attributes or {})}  # fmt: skip
    assert len(pods) == 1


def test_every_unit_is_one_of_the_standard_or_says_what_is_counted() -> None:
    units = {signal.unit: otlp_unit(signal) for signal, _ in families()}
    assert {unit: units.pop(unit) for unit in ("", "seconds", "bytes", "ratio")} == {
        "": "", "seconds": "s", "bytes": "By", "ratio": "1"}  # fmt: skip
    assert {units[name] for name in ("requests", "tokens", "families", "series", "batches", "oddities")} == {
        "{request}", "{token}", "{family}", "{series}", "{batch}", "{oddity}"}  # fmt: skip
    assert all(re.fullmatch(r"\{[a-z]+\}", unit) for unit in units.values())


def test_a_translation_adds_nothing_to_our_names() -> None:
    """Suffixes come from the unit, `total` from counters, `ratio` from the unit 1: all of them stand in the names already."""
    suffixes = {"s": "seconds", "By": "bytes"}
    for signal, level in families():
        name, unit = otlp_name(signal, level), otlp_unit(signal)
        words = name.split("_")
        assert unit not in suffixes or suffixes[unit] in words
        assert (unit == "1") == name.endswith("_ratio")
        assert (signal.kind is Kind.COUNTER) == name.endswith("_total")
        assert words.count("total") <= 1
        assert words.count("ratio") <= 1


def test_kinds_and_temporality() -> None:
    rows = {otlp_name(signal, level): signal for signal, level in families()}
    for metric in built(cut()).metrics:
        kind = rows[metric.name].kind
        expected = {Kind.COUNTER: Sum, Kind.HISTOGRAM: Histogram}.get(kind, Gauge)
        assert isinstance(metric.data, expected)
        if isinstance(metric.data, Sum):
            assert metric.data.is_monotonic
        for point in metric.data.data_points:
            assert isinstance(point, HistogramDataPoint) == (kind is Kind.HISTOGRAM)


def start_of(snapshot: Snapshot, name: str) -> set[int]:
    return {point.start_time_unix_nano for metric in built(snapshot).metrics if metric.name == name
            for point in metric.data.data_points}  # fmt: skip


def test_a_series_starts_when_its_total_began() -> None:
    first, late = target("p0", "chat"), target("p1", "code")
    core = state(first)
    core.absorb(reading(first, values(counts(prompt_tokens=5)), at(10)))
    core.watch([first, late], at(30))
    core.absorb(reading(late, values(counts(prompt_tokens=7)), at(40)))
    snapshot = core.snapshot(at(50))
    at_zero, at_thirty = round(WALL) * 10**9, round(WALL + 30) * 10**9
    assert start_of(snapshot, "llm_cluster_prompt_tokens_total") == {at_zero}
    assert start_of(snapshot, "llm_pool_prompt_tokens_total") == {at_zero, at_thirty}
    assert start_of(snapshot, "llm_pod_prompt_tokens_total") == {at_zero, at_thirty}
    assert start_of(snapshot, "llm_pod_requests_running") <= {0}


def test_a_pod_that_comes_back_starts_anew() -> None:
    one = target()
    core = state(one)
    for moment, total in ((1, 10), (2, 15)):
        core.absorb(reading(one, values(counts(prompt_tokens=total)), at(moment)))
    before = core.snapshot(at(3))
    core.watch([], at(4))
    core.watch([one], at(60))
    core.absorb(reading(one, values(counts(prompt_tokens=3)), at(61)))
    after = core.snapshot(at(62))
    assert start_of(before, "llm_pod_prompt_tokens_total") == {round(WALL) * 10**9}
    assert start_of(after, "llm_pod_prompt_tokens_total") == {round(WALL + 60) * 10**9}
    assert start_of(after, "llm_pool_prompt_tokens_total") == {round(WALL) * 10**9}


def test_a_clock_that_was_set_back_gives_no_start_in_the_future() -> None:
    snapshot = cut()
    back = replace(snapshot, at=replace(snapshot.at, wall=WALL - 500))
    for metric in built(back).metrics:
        assert all(point.start_time_unix_nano <= point.time_unix_nano for point in metric.data.data_points)


def with_gauges(**gauges: float) -> Snapshot:
    snapshot = cut()
    row: Row = replace(snapshot.cluster, gauges={(name, ""): value for name, value in gauges.items()})
    return replace(snapshot, pods=(), pools=(), cluster=row)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out_and_counted(value: float) -> None:
    """Hard case A43."""
    made = built(with_gauges(requests_running=value, requests_waiting=4.0))
    assert made.left_out == {"not_finite": 1}
    values_sent = {name: value for (name, _), value in samples(metrics_of(encoded(made.metrics))).items()}
    assert values_sent["llm_cluster_requests_waiting"] == 4.0
    assert "llm_cluster_requests_running" not in values_sent


def test_numbers_that_do_not_fit_cost_only_themselves() -> None:
    """What an engine prints may be huge: integers beyond 64 bits, sums beyond what a float holds."""
    snapshot = cut()
    buckets = len(SIGNALS["queue_time_seconds"].ladder)
    huge, sum_huge = Counts((0,) * buckets + (2**64,), 0), Counts((0,) * buckets + (3,), 2**1200)
    row = replace(
        snapshot.cluster, counters={("prompt_tokens", ""): 2**70, ("generation_tokens", ""): 2**2000},
        histograms={"queue_time_seconds": huge, "inference_time_seconds": sum_huge},
    )  # fmt: skip
    made = built(replace(snapshot, cluster=row))
    sent = samples(metrics_of(encoded(made.metrics)))
    assert made.left_out == {"out_of_range": 3}
    assert {value for (name, _), value in sent.items() if name == "llm_cluster_prompt_tokens_total"} == {2.0**70}
    assert len(sent) > 100


def test_the_view_of_the_conventions_is_opt_in_and_exact() -> None:
    snapshot = cut()
    plain, more = built(snapshot).metrics, built(snapshot, gen_ai=True).metrics
    extra = {metric.name: metric for metric in more[len(plain) :]}
    assert plain == more[: len(plain)]
    assert extra.keys() <= set(GEN_AI.values())
    metric = extra["gen_ai.server.time_to_first_token"]
    assert metric.unit == "s"
    point = next(point for point in metric.data.data_points if dict(point.attributes or {})["pool"] == "chat")
    own = pool_row(snapshot).histograms["time_to_first_token_seconds"]
    assert isinstance(point, HistogramDataPoint)
    assert (point.count, sum(point.bucket_counts)) == (own.cumulative[-1], own.cumulative[-1])
    conventional = {"gen_ai.operation.name": "inference", "gen_ai.provider.name": "sglang,vllm", "gen_ai.request.model": "llama"}
    assert dict(point.attributes or {}).items() >= conventional.items()


@pytest.mark.parametrize("most", [1, 7, 100, 10**6])
def test_requests_hold_so_many_points_and_lose_none(most: int) -> None:
    metrics = built(cut()).metrics
    whole = samples(metrics_of(encoded(metrics)))
    parts = list(split(((SCOPE, metric) for metric in metrics), most_points=most))
    assert all(part.points <= most for part in parts)
    assert sum(part.points for part in parts) == sum(len(metric.data.data_points) for metric in metrics)
    found: dict[Series, float] = {}
    for part in parts:
        for scope in part.scopes:
            found |= samples(metrics_of(encoded(scope.metrics)))
    assert found == whole


def test_no_point_carries_a_name_outside_the_table() -> None:
    known = {otlp_name(signal, level) for signal, level in families()}
    assert {metric.name for metric in built(cut()).metrics} <= known
    assert all(otlp_name(row, Level.EXPORTER) in known for row in EXPORTER.values())


def test_number_points_of_counters_are_integers() -> None:
    for metric in built(cut()).metrics:
        if isinstance(metric.data, Sum):
            assert all(isinstance(point, NumberDataPoint) and isinstance(point.value, int) for point in metric.data.data_points)
