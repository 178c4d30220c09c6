"""What boards and alarms ask of CloudWatch against what the exporter sends it from the simulated fleet."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from alerts.cloudwatch.alarms import alarms, left_out
from alerts.cloudwatch.model import Alarm, LeftOut, Placing, Subject
from alerts.slo import DEFAULTS, E2E, ITL, TTFT
from collector.engines import ENGINES
from collector.naming import CLOUDWATCH_NAMESPACE
from collector.signals import Level
from collector.state import State
from dashboards.cloudwatch.lines import Line
from dashboards.cloudwatch.pages import pages
from exporter.commands.cloudwatch_pools import choose
from exporter.commands.engine import as_of
from exporter.config import parse_config
from exporter.demo.cloudwatch.server import StandIn, serving
from exporter.demo.cloudwatch.store import Bin, key_of
from tests.property.test_cloudwatch_truth import Publisher
from tests.property.test_ledger import TALLIES, WALL, Watch, fleet
from tests.strict_alarm import evaluated

SECONDS = 200
POOL = ("c", "serving", "llama")
POOLS = {"vllm": POOL, "sglang": ("c", "serving", "qwen"), "tgi": ("c", "serving", "mistral")}
each_engine = pytest.mark.parametrize("engine", ENGINES)


def of_engine(engine: str) -> list[Alarm]:
    """Alarms of a pool as they are printed, where the account is not asked."""
    return alarms([Subject(Level.POOL, POOLS[engine])], Placing(tells=as_of(engine)))


def of_account(stand_in: StandIn, engine: str) -> tuple[list[Alarm], list[LeftOut]]:
    """Alarms of a pool as they are put, and what is left out: by what the account says that the pool sends."""
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=stand_in.url)
    chosen = choose(client, Placing(), (Subject(Level.POOL, POOLS[engine]),), None)
    return alarms(chosen.subjects, chosen.placing), left_out(chosen.placing, chosen.subjects)


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[StandIn, Any]]:
    """What a loaded fleet sends in minutes with the default configuration, and the fleet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        with serving(StandIn(wall=lambda: WALL + SECONDS)) as stand_in:
            section = {"region": "us-east-1", "endpoint_url": stand_in.url}
            settings = parse_config(f"cluster: c\ncloudwatch: {section}").cloudwatch
            assert settings is not None
            world = fleet(seed=7, keep_records=True)
            watch = Watch(world, State(cluster="c"))
            publisher = Publisher(watch.core, settings)
            watch.watch((pod.plan.name for pod in world.pods), -1.0)
            for now in range(0, SECONDS, 5):
                world.advance(float(now))
                for name in sorted(watch.watched):
                    watch.look(name, float(now))
                publisher.sample(float(now))
            publisher.end(SECONDS - 1.0)
            assert not stand_in.refusals
            yield stand_in, world


def merged(stand_in: StandIn, metric: dict[str, Any]) -> Bin:
    """All that was sent of one metric; an empty one where nothing was."""
    whole = Bin()
    for one in stand_in.store.bins.get(key_of(metric["Namespace"], metric), {}).values():
        whole.merge(one)
    return whole


def statistic(stand_in: StandIn, stat: dict[str, Any]) -> float | None:
    """Of the whole time. Percentile rank, which the stand-in does not know, counts the values up to the bound."""
    one = merged(stand_in, stat["Metric"])
    if not stat["Stat"].startswith("PR("):
        return one.statistic(stat["Stat"])
    if not one.values:
        return None
    bound = float(stat["Stat"][:-1].split(":")[1])
    return 100 * sum(count for value, count in one.values.items() if value <= bound) / sum(one.values.values())


def test_every_line_of_every_board_finds_a_metric_with_just_its_dimensions(told: tuple[StandIn, Any]) -> None:
    sent = {(namespace, name, frozenset(dimensions)) for namespace, name, dimensions in told[0].store.bins}
    missing = []
    for page in pages(DEFAULTS):
        for panel in (panel for row in page.board.rows for panel in row.panels):
            for one in panel.queries:
                assert isinstance(one, Line)
                found = any(
                    namespace == one.namespace and name == one.metric and {key for key, _ in dimensions} == set(one.dimensions)
                    and set(one.only) <= dimensions
                    for namespace, name, dimensions in sent
                )  # fmt: skip
                if one.namespace == CLOUDWATCH_NAMESPACE and not found:
                    missing.append((page.name, panel.title, one.metric, one.only))
    assert not missing


def asked(alarm: Alarm) -> list[dict[str, Any]]:
    return [one["MetricStat"] for one in alarm.request.get("Metrics", ()) if "MetricStat" in one]


@each_engine
def test_every_metric_of_every_alarm_is_sent_under_just_that_name(told: tuple[StandIn, Any], engine: str) -> None:
    """A sum of which one metric is never sent has no value, so the alarm could never fire."""
    for made in (of_engine(engine), of_account(told[0], engine)[0]):
        metrics = [stat["Metric"] for alarm in made for stat in asked(alarm)]
        assert len(metrics) > 20
        missing = {(metric["MetricName"], metric["Dimensions"][-1]["Value"]) for metric in metrics
                   if key_of(metric["Namespace"], metric) not in told[0].store.bins}  # fmt: skip
        assert not missing


@each_engine
def test_what_an_engine_is_known_to_tell_is_what_its_pool_sends(told: tuple[StandIn, Any], engine: str) -> None:
    assert [alarm.request for alarm in of_engine(engine)] == [alarm.request for alarm in of_account(told[0], engine)[0]]


def test_what_a_pool_does_not_send_is_left_out_of_sums_or_with_its_alarm_and_said(told: tuple[StandIn, Any]) -> None:
    """SGLang tells aborts and the rest alone, TGI one latency alone and no finish reasons."""
    names = {engine: {alarm.name.split("/")[1] for alarm in of_account(told[0], engine)[0]} for engine in POOLS}
    assert names["vllm"] - names["sglang"] == {"LLMPoolErrorRateHigh"}
    assert names["vllm"] - names["tgi"] == {"LLMPoolTTFTBudgetBurn", "LLMPoolITLBudgetBurn", "LLMPoolKVHeadroomLow"}
    assert {"LLMPoolAvailabilityBudgetBurn", "LLMPoolAbortRateHigh", "LLMPoolRejecting"} <= names["sglang"] & names["tgi"]
    left = of_account(told[0], "sglang")[1]
    assert LeftOut(alert="LLMPoolErrorRateHigh", reason="c/serving/qwen does not send llm_pool_requests of error") in left
    parts = "c/serving/qwen does not send llm_pool_requests of stop, length, error"
    assert LeftOut(alert="LLMPoolAbortRateHigh", reason=parts, partly=True) in left


@pytest.mark.parametrize(("engine", "part", "share"), [
    ("sglang", "AbortRateHigh", {"abort": 30, "other": 70}), ("tgi", "ErrorRateHigh", {"error": 30, "other": 70}),
])  # fmt: skip
def test_a_share_of_the_outcomes_that_are_sent_can_fire(told: tuple[StandIn, Any], engine: str, part: str, share: Any) -> None:
    (request,) = [alarm.request for alarm in of_account(told[0], engine)[0]
                  if alarm.name == f"llm-fleet/LLMPool{part}/{'/'.join(POOLS[engine])}/if"]  # fmt: skip
    own = {one["Id"]: one["MetricStat"]["Metric"]["Dimensions"][-1]["Value"] for one in request["Metrics"] if "MetricStat" in one}
    expression = next(one["Expression"] for one in request["Metrics"] if one["ReturnData"])
    assert evaluated(expression, {known: share.get(outcome, 0) for known, outcome in own.items()}) == pytest.approx(0.3)


@each_engine
def test_every_statistic_of_every_alarm_is_one_that_what_is_sent_has(told: tuple[StandIn, Any], engine: str) -> None:
    """A percentile rank needs values: of a statistic set there is none."""
    for alarm in of_engine(engine):
        for stat in asked(alarm):
            assert statistic(told[0], stat) is not None, (alarm.name, stat)


BOUNDS = (replace(TTFT, bound_seconds=0.1), replace(ITL, bound_seconds=0.025), replace(E2E, bound_seconds=2.5))
"""Such as some observations exceed; bounds of vLLM's own."""


@pytest.mark.parametrize("objective", BOUNDS, ids=lambda objective: objective.slug)
def test_the_share_that_an_alarm_judges_is_that_of_the_single_requests(told: tuple[StandIn, Any], objective: Any) -> None:
    stand_in, world = told
    name = f"llm-fleet/LLMPool{objective.word}BudgetBurn/1h/{'/'.join(POOL)}/if 5m"
    made = alarms([Subject(Level.POOL, POOL)], Placing(settings=replace(DEFAULTS, objectives=(objective,))))
    (request,) = [alarm.request for alarm in made if alarm.name == name]
    expression = next(one["Expression"] for one in request["Metrics"] if one["ReturnData"])
    values = {one["Id"]: statistic(stand_in, one["MetricStat"]) for one in request["Metrics"] if "MetricStat" in one}
    ledgers = [ledger for pod in world.pods if pod.plan.name.startswith("llama") for ledger in pod.ledgers]
    samples = [value for ledger in ledgers for value in ledger.values(TALLIES["vllm"][objective.signal])]
    late = sum(value > objective.bound_seconds for value in samples)
    assert 0 < late < len(samples)
    assert evaluated(expression, values) == pytest.approx(late / len(samples), abs=1e-9)
