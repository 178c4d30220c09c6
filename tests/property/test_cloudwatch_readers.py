"""What boards and alarms ask of CloudWatch against what the exporter sends it from the simulated fleet."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import Placing, Subject
from alerts.slo import DEFAULTS, E2E, ITL, TTFT
from collector.naming import CLOUDWATCH_NAMESPACE
from collector.signals import Level
from collector.state import State
from dashboards.cloudwatch.lines import Line
from dashboards.cloudwatch.pages import PAGES
from exporter.config import parse_config
from exporter.demo.cloudwatch.server import StandIn, serving
from exporter.demo.cloudwatch.store import Bin, key_of
from tests.property.test_cloudwatch_truth import Publisher
from tests.property.test_ledger import TALLIES, WALL, Watch, fleet
from tests.strict_alarm import evaluated

SECONDS = 200
POOL = ("c", "serving", "llama")
MADE = alarms([Subject(Level.POOL, POOL)], Placing())


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


def statistic(stand_in: StandIn, asked: dict[str, Any]) -> float | None:
    """Of the whole time. Percentile rank, which the stand-in does not know, counts the values up to the bound."""
    one = merged(stand_in, asked["Metric"])
    if not asked["Stat"].startswith("PR("):
        return one.statistic(asked["Stat"])
    if not one.values:
        return None
    bound = float(asked["Stat"][:-1].split(":")[1])
    return 100 * sum(count for value, count in one.values.items() if value <= bound) / sum(one.values.values())


def test_every_line_of_every_board_finds_a_metric_with_just_its_dimensions(told: tuple[StandIn, Any]) -> None:
    sent = {(namespace, name, frozenset(dimensions)) for namespace, name, dimensions in told[0].store.bins}
    missing = []
    for page in PAGES:
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


def test_every_metric_of_every_alarm_is_sent_under_just_that_name(told: tuple[StandIn, Any]) -> None:
    asked = [one["MetricStat"]["Metric"] for alarm in MADE for one in alarm.request.get("Metrics", ()) if "MetricStat" in one]
    assert len(asked) > 60
    missing = {(metric["MetricName"], metric["Dimensions"][-1]["Value"]) for metric in asked
               if key_of(metric["Namespace"], metric) not in told[0].store.bins}  # fmt: skip
    assert not missing


def test_every_statistic_of_every_alarm_is_one_that_what_is_sent_has(told: tuple[StandIn, Any]) -> None:
    """A percentile rank needs values: of a statistic set there is none."""
    for alarm in MADE:
        for one in alarm.request.get("Metrics", ()):
            if "MetricStat" in one:
                assert statistic(told[0], one["MetricStat"]) is not None, (alarm.name, one["MetricStat"])


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
