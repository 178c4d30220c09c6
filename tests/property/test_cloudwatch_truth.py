"""The simulated engines' books against what CloudWatch holds in the end: sent through the real SDK to the strict stand-in."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import boto3
import pytest

from collector.health import Limits
from collector.ladders import difference, quantile
from collector.model import Target
from collector.naming import EXACT, OVERFLOW, cloudwatch_name
from collector.signals import SIGNALS, Kind, Level
from collector.state import State
from exporter.config import parse_config
from exporter.demo.cloudwatch.server import StandIn, serving
from exporter.demo.cloudwatch.store import percentile
from exporter.demo.plan import Fault
from exporter.publish.cloudwatch.batch import Batch, unpack
from exporter.publish.cloudwatch.cost import estimate
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone
from exporter.publish.cloudwatch.send import Sender
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.cloudwatch.window import Windows
from tests.conftest import FakeClock, Understand
from tests.property.test_ledger import COUNTED, TALLIES, WALL, Watch, at, fleet

HISTOGRAMS = sorted({signal for names in TALLIES.values() for signal in names})


@pytest.fixture
def cloudwatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with serving(StandIn(wall=lambda: WALL + 300.0)) as stand_in:
        yield stand_in


def settings(url: str, period: str) -> Settings:
    section = {"region": "us-east-1", "endpoint_url": url, "period": period, "signals": ["*"], "levels": ["pool", "cluster"]}
    made = parse_config(f"cluster: c\ncloudwatch: {section}").cloudwatch
    assert made is not None
    return made


class Publisher:
    """What samples a state and sends at once."""

    def __init__(self, core: State, of: Settings) -> None:
        self._core = core
        self._send = Sender(of, FakeClock(wall=WALL + 300.0))
        self.feed = Feed(of, "c", Alone(), self._deliver)

    def _deliver(self, batch: Any) -> None:
        receipt = self._send(batch)
        assert not receipt.rejected

    def sample(self, now: float) -> None:
        self.feed.take(self._core.snapshot(at(now)).rows, at(now).wall)

    def end(self, now: float) -> None:
        self.feed.finish(self._core.snapshot(at(now)).rows, at(now).wall)


def arrived(cloudwatch: StandIn, level: Level, signal: str, suffix: str = "") -> Counter[str]:
    """Sum and number of samples over all windows and all metrics of one name."""
    name = cloudwatch_name(signal, level) + suffix
    found: Counter[str] = Counter()
    for (_, metric, _), bins in cloudwatch.store.bins.items():
        for one in bins.values() if metric == name else ():
            found["sum"] += one.total  # type: ignore[assignment]
            found["count"] += round(one.count)
    return found


def test_sums_are_the_truth_over_restarts_and_churn(cloudwatch: StandIn) -> None:
    rng = Random(1)
    faults = (Fault("llama-0", "kill", at=31.0, seconds=12.0, every_seconds=45.0),
              Fault("qwen-1", "kill", at=55.0, seconds=9.0), Fault("mistral-0", "kill", at=62.0, seconds=6.0),
              Fault("llama-1", "hang", at=40.0, seconds=11.0))  # fmt: skip
    world = fleet(*faults, seed=1)
    watch = Watch(world, State(cluster="c", limits=Limits(gap_limit=20.0)))
    publisher = Publisher(watch.core, settings(cloudwatch.url, "10s"))
    joins, leaves = {"llama-1": 22.0, "qwen-1": 12.0}, {"qwen-0": 80.0}
    for step in range(55):
        now = 2.0 * step
        world.advance(now)
        wanted = {pod.plan.name for pod in world.pods if joins.get(pod.plan.name, 0.0) <= now < leaves.get(pod.plan.name, 1e9)}
        if wanted != watch.watched:
            watch.watch(wanted, now)
        for name in sorted(wanted):
            if rng.random() < 0.8:
                watch.look(name, now)
        publisher.sample(now)
    for name in watch.watched:
        watch.look(name, 110.0)
    publisher.end(110.0)
    assert not cloudwatch.refusals
    assert len(cloudwatch.requests) >= 11
    whole, discarded, on_pages = watch.whole(), watch.discarded(), watch.on_pages()
    for level in (Level.POOL, Level.CLUSTER):
        for signal in (*COUNTED, *HISTOGRAMS):
            kept = arrived(cloudwatch, level, signal)["sum" if SIGNALS[signal].kind is Kind.COUNTER else "count"]
            assert kept + discarded[signal] + whole[signal] - on_pages[signal] == whole[signal], (level, signal)
    assert arrived(cloudwatch, Level.CLUSTER, "requests")["sum"] > 150
    for signal in HISTOGRAMS:
        exact = arrived(cloudwatch, Level.CLUSTER, signal, EXACT)
        assert exact["count"] == arrived(cloudwatch, Level.CLUSTER, signal)["count"]
        assert exact["sum"] == pytest.approx(watch.core.totals.sums[signal] / 2**96, rel=1e-9)
        above = sum(counts[-1] for counts in watch.core.totals.ladders[signal].values())
        assert arrived(cloudwatch, Level.CLUSTER, signal, OVERFLOW)["sum"] == above


def test_percentiles_of_a_load_are_those_of_its_single_requests(cloudwatch: StandIn) -> None:
    """Through the real SDK both ways; bound: the width of the engine's bucket in which the exact sample lies."""
    world = fleet(seed=7, keep_records=True)
    watch = Watch(world, State(cluster="c"))
    publisher = Publisher(watch.core, settings(cloudwatch.url, "5m"))
    watch.watch((pod.plan.name for pod in world.pods), -1.0)
    for step in range(30):
        world.advance(5.0 * step)
        for name in sorted(watch.watched):
            watch.look(name, 5.0 * step)
        publisher.sample(5.0 * step)
    publisher.end(149.0)
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=cloudwatch.url)
    checked = 0
    for pool, kind in (("llama", "vllm"), ("qwen", "sglang"), ("mistral", "tgi")):
        ledgers = [ledger for pod in world.pods if pod.plan.name.startswith(pool) for ledger in pod.ledgers]
        for signal, name in TALLIES[kind].items():
            if name in ledgers[0].books.split or name == "input_length":
                continue
            samples = sorted(value for ledger in ledgers for value in ledger.values(name))
            if len(samples) < 20:
                continue
            bounds = ledgers[0].tally(name).bounds
            for share in (0.5, 0.95, 0.99):
                true = samples[max(-int(-len(samples) * share // 1), 1) - 1]
                seen = read(client, cloudwatch_name(signal, Level.POOL), pool, f"p{share * 100:g}")
                index = bisect_left(bounds, true)
                low, high = (0.0, *bounds)[index], (*bounds, bounds[-1])[index]
                assert low <= seen <= high, (pool, signal, share, true)
                checked += 1
    assert checked > 40


def test_percentiles_of_a_recorded_load_are_histogram_quantiles(understand_page: Understand, target: Target) -> None:
    """Two pages of a running vLLM under load: what the difference of their own buckets gives, and what CloudWatch would."""
    first, last = (understand_page(f"vllm-0.32.0-series/vllm-0.32.0-series-{number:02}", at=at(number)) for number in (0, 40))
    core = State(cluster="c")
    core.watch((target,), at(-1.0))
    of = parse_config("cluster: c\ncloudwatch: {signals: ['*']}").cloudwatch
    assert of is not None
    made: list[Batch] = []
    feed = Feed(of, "c", Alone(), made.append)
    for reading, moment in ((first, 0.0), (last, 60.0)):
        core.absorb(reading)
        feed.take(core.snapshot(at(moment)).rows, at(moment).wall)
    data = {datum["MetricName"]: datum for batch in made for piece in batch.pieces for datum in unpack(piece)}
    checked = 0
    for (signal, _, source), now in last.rows[target].histograms.items():
        gained = difference(first.rows[target].histograms[signal, "", source], now)
        datum = data.get(cloudwatch_name(signal, Level.POOL))
        if datum is None or gained.count < 20:
            continue
        for share in (0.5, 0.9, 0.95, 0.99):
            ranks = [share + step / gained.count for step in (-1, 1)]
            low, high = (quantile(min(one, 1.0), gained.bounds, list(accumulate(gained.counts))) for one in ranks)
            seen = percentile(dict(zip(datum["Values"], datum["Counts"], strict=True)), share)
            assert low is not None
            assert high is not None
            assert low <= seen <= high, (signal, share)
            checked += 1
    assert checked >= 16


def read(client: Any, name: str, pool: str, stat: str) -> float:
    where = [{"Name": label, "Value": value} for label, value in (("cluster", "c"), ("namespace", "serving"), ("pool", pool))]
    metric = {"Namespace": "LLMFleet", "MetricName": name, "Dimensions": where}
    answer = client.get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": metric, "Period": 3600, "Stat": stat}}],
        StartTime=datetime.fromtimestamp(WALL - 3600, UTC), EndTime=datetime.fromtimestamp(WALL + 3600, UTC),
    )  # fmt: skip
    (value,) = answer["MetricDataResults"][0]["Values"]
    found: float = value
    return found


def test_the_estimate_is_what_becomes_active() -> None:
    """Never fewer than come about; more only by what this load does not show: overloads and ratios of features that are off."""
    world = fleet(seed=3)
    watch = Watch(world, State(cluster="c"))
    watch.watch((pod.plan.name for pod in world.pods), -1.0)
    made = parse_config("cluster: c\ncloudwatch: {}").cloudwatch
    assert made is not None
    feed = Feed(made, "c", Alone(), lambda _: None)
    for step in range(15):
        world.advance(2.0 * step)
        for name in sorted(watch.watched):
            watch.look(name, 2.0 * step)
        if step == 1:
            first = estimate(watch.core.snapshot(at(2.0)), made)
        feed.take(watch.core.snapshot(at(2.0 * step)).rows, at(2.0 * step).wall)
    feed.finish(watch.core.snapshot(at(30.0)).rows, at(30.0).wall)
    assert len(feed.active) <= first.number <= len(feed.active) + 6
    assert first.requests_a_month == pytest.approx(43_800)


def test_samples_of_a_gauge_keep_a_spike_between_two_flushes() -> None:
    world = fleet(seed=5)
    watch = Watch(world, State(cluster="c"))
    watch.watch((pod.plan.name for pod in world.pods), -1.0)
    box = Windows(60.0, {Level.CLUSTER: frozenset({"requests_running"})})
    seen: list[float] = []
    closed = None
    for step in range(13):
        now = 5.0 * step
        world.advance(now)
        for name in sorted(watch.watched):
            watch.look(name, now)
        cut = watch.core.snapshot(at(now))
        closed = box.take(cut.rows, at(now).wall)
        seen.append(cut.cluster.gauges["requests_running", ""])
    assert closed is not None
    (subject,) = closed.subjects.values()
    found = subject.gauges["requests_running", ""]
    assert (found.low, found.high, found.count, found.total) == (min(seen[:-1]), max(seen[:-1]), 12, sum(seen[:-1]))
    assert any(low != high for low, high in pairwise(seen))
