"""Two stand-ins for CloudWatch, asked through the real SDK. Neither enforces AWS's limits; that is what our own is for."""

import datetime
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from collector.clock import SystemClock
from collector.fixed import to_fixed
from collector.ladders import quantile
from collector.signals import SIGNALS, Level
from collector.snapshot import Row
from collector.totals import Histogram
from exporter.config import parse_config
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone
from exporter.publish.cloudwatch.send import Sender
from exporter.publish.outbox import Outbox
from tests.net.fault_proxy import Fault, spoiling
from tests.real.running import Running, wait_until

pytestmark = pytest.mark.real
NAMESPACE = "LlmFleet"
POOL = [{"Name": "pool", "Value": "llama-70b"}]


def client(stand_in: Running) -> Any:
    return boto3.client("cloudwatch", endpoint_url=stand_in.url, region_name="us-east-1", aws_access_key_id="test",
                        aws_secret_access_key="test", config=Config(retries={"max_attempts": 1}))  # fmt: skip


@pytest.fixture(params=["moto", "ministack"])
def cloudwatch(request: pytest.FixtureRequest) -> Any:
    return client(request.getfixturevalue(request.param))


def statistic(cloudwatch: Any, name: str, stat: str) -> list[float]:
    """Values of the last minutes, one a minute that has any."""
    now = datetime.datetime.now(datetime.UTC)
    asked = {"Metric": {"Namespace": NAMESPACE, "MetricName": name, "Dimensions": POOL}, "Period": 3600, "Stat": stat}
    window = {"StartTime": now - datetime.timedelta(hours=2), "EndTime": now + datetime.timedelta(hours=1)}
    answer = cloudwatch.get_metric_data(MetricDataQueries=[{"Id": "a", "MetricStat": asked}], **window)
    values: list[float] = answer["MetricDataResults"][0]["Values"]
    return values


def test_values_with_counts_are_kept(cloudwatch: Any) -> None:
    # Amounts that binary fractions hold exactly: sums have to be equal.
    amounts = {"Values": [0.25, 0.5, 4.0], "Counts": [4.0, 2.0, 1.0], "Unit": "Seconds"}
    datum = {"MetricName": "Latency", "Dimensions": POOL, **amounts}
    cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[datum])
    found = {stat: statistic(cloudwatch, "Latency", stat) for stat in ("Sum", "SampleCount", "Minimum", "Maximum")}
    assert found == {"Sum": [6.0], "SampleCount": [7.0], "Minimum": [0.25], "Maximum": [4.0]}


def test_a_dashboard_comes_back_as_it_went(cloudwatch: Any) -> None:
    body = '{"widgets": []}'
    cloudwatch.put_dashboard(DashboardName="fleet", DashboardBody=body)
    assert cloudwatch.get_dashboard(DashboardName="fleet")["DashboardBody"] == body


def test_moto_refuses_what_is_no_number(moto: Running) -> None:
    with pytest.raises(ClientError, match="NaN"):
        client(moto).put_metric_data(Namespace=NAMESPACE, MetricData=[{"MetricName": "Broken", "Value": float("nan")}])


def test_ministack_evaluates_an_alarm(ministack: Running) -> None:
    cloudwatch = client(ministack)
    alarm = {"Namespace": NAMESPACE, "MetricName": "Queue", "Statistic": "Maximum", "Period": 60, "EvaluationPeriods": 1,
             "Threshold": 10.0, "ComparisonOperator": "GreaterThanThreshold"}  # fmt: skip
    cloudwatch.put_metric_alarm(AlarmName="queue", **alarm)
    cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[{"MetricName": "Queue", "Value": 50.0}])
    states = [one["StateValue"] for one in cloudwatch.describe_alarms(AlarmNames=["queue"])["MetricAlarms"]]
    assert states == ["ALARM"]


# --- what the exporter itself sends -------------------------------------------------------------------------------------------

OBSERVED = (0.03, 0.05, 0.07, 0.07, 0.09, 0.15, 0.22, 0.3, 0.9, 4.0, 30.0) * 50
TTFT = "time_to_first_token_seconds"


def publish(url: str, name: str) -> None:
    """Two windows of one pool, and a third without traffic, sent as `serve` sends them."""
    section = parse_config(f"cluster: prod\ncloudwatch: {{region: us-east-1, endpoint_url: '{url}'}}").cloudwatch
    assert section is not None
    send = Sender(section, SystemClock())
    rejected: list[Any] = []
    feed = Feed(section, "prod", Alone(), lambda batch: rejected.append(send(batch).rejected))
    start = SystemClock().now().wall // 60 * 60 - 180
    for number, times in enumerate((0, 1, 2)):
        feed.take([pool(name, times)], start + 60 * number)
    feed.finish([pool(name, 2)], start + 170)
    assert not any(rejected)


def counts_of(values: Sequence[float]) -> list[int]:
    counts = [0] * (len(SIGNALS[TTFT].ladder) + 1)
    for value in values:
        counts[bisect_left(SIGNALS[TTFT].ladder, value)] += 1
    return counts


def pool(name: str, times: int) -> Row:
    counts = tuple(count * times for count in counts_of(OBSERVED))
    histogram = Histogram((), to_fixed(sum(OBSERVED) * times), {SIGNALS[TTFT].ladder: counts})
    return Row(level=Level.POOL, labels=("prod", "serving", name), gauges={("requests_waiting", ""): 9.0 * (times == 1)},
               counters={("requests", "stop"): 10 * times}, histograms={TTFT: histogram})  # fmt: skip


def read(cloudwatch: Any, pool: str, name: str, stat: str, **more: str) -> list[float]:
    """All values of a metric of that pool, oldest first, a minute each."""
    now = datetime.datetime.now(datetime.UTC)
    where = {"cluster": "prod", "namespace": "serving", "pool": pool, **more}
    metric = {"Namespace": "LLMFleet", "MetricName": name, "Dimensions": [{"Name": one, "Value": where[one]} for one in where]}
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": metric, "Period": 60, "Stat": stat}}],
        StartTime=now - datetime.timedelta(minutes=10), EndTime=now + datetime.timedelta(minutes=1), ScanBy="TimestampAscending",
    )  # fmt: skip
    values: list[float] = answer["MetricDataResults"][0]["Values"]
    return values


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("stand_in", ["moto", "ministack"])
def test_what_we_send_comes_back(stand_in: str, request: pytest.FixtureRequest) -> None:
    running = request.getfixturevalue(stand_in)
    publish(running.url, "sums")
    cloudwatch = client(running)
    assert read(cloudwatch, "sums", "llm_pool_requests", "Sum", outcome="stop") == [10.0, 10.0, 0.0]
    assert read(cloudwatch, "sums", "llm_pool_requests_waiting", "Maximum") == [0.0, 9.0, 0.0]
    name = "llm_pool_time_to_first_token_seconds"
    assert read(cloudwatch, "sums", name, "SampleCount") == [550.0, 550.0]
    assert read(cloudwatch, "sums", name + "_exact", "Sum") == pytest.approx([sum(OBSERVED)] * 2)
    assert read(cloudwatch, "sums", name + "_exact", "Average") == pytest.approx([sum(OBSERVED) / 550] * 2)
    assert read(cloudwatch, "sums", name + "_overflow", "Sum") == [0.0, 0.0]


@pytest.mark.usefixtures("credentials")
def test_ministack_makes_the_percentile_that_prometheus_makes(ministack: Running) -> None:
    publish(ministack.url, "percentiles")
    name = "llm_pool_time_to_first_token_seconds"
    cumulative = list(accumulate(counts_of(OBSERVED)))
    for share in (0.5, 0.9, 0.99):
        seen = read(client(ministack), "percentiles", name, f"p{share * 100:g}")
        # It goes from rank to rank in a straight line: at most one observation away from where the pinned one stands.
        near = [quantile(share + step / 550, SIGNALS[TTFT].ladder, cumulative) for step in (-1, 1)]
        assert near[0] <= seen[0] <= near[1], share


@pytest.mark.usefixtures("credentials")
def test_ministack_raises_an_alarm_on_a_percentile_of_ours(ministack: Running) -> None:
    cloudwatch = client(ministack)
    where = [
        {"Name": name, "Value": value} for name, value in (("cluster", "prod"), ("namespace", "serving"), ("pool", "alarms"))
    ]
    alarm = {"Namespace": "LLMFleet", "MetricName": "llm_pool_time_to_first_token_seconds", "Dimensions": where, "Period": 300,
             "EvaluationPeriods": 1, "ExtendedStatistic": "p99", "ComparisonOperator": "GreaterThanThreshold",
             "TreatMissingData": "notBreaching"}  # fmt: skip
    for name, threshold in (("slow", 3.0), ("slower", 500.0)):
        cloudwatch.put_metric_alarm(AlarmName=name, Threshold=threshold, **alarm)
    publish(ministack.url, "alarms")
    found = cloudwatch.describe_alarms(AlarmNames=["slow", "slower"])["MetricAlarms"]
    assert {one["AlarmName"]: one["StateValue"] for one in found} == {"slow": "ALARM", "slower": "OK"}


@pytest.mark.usefixtures("credentials")
def test_faults_before_moto_lose_nothing(moto: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket.acquire", lambda *_, **__: True)
    faults: list[Fault] = ["throttle"] * 20 + ["unavailable", "reset", "slow"]
    with spoiling(moto.url, *faults) as proxy:
        section = parse_config(f"cluster: lossy\ncloudwatch: {{region: us-east-1, endpoint_url: '{proxy.url}'}}").cloudwatch
        assert section is not None
        box = Outbox("cloudwatch", Sender(section, SystemClock()), SystemClock(), size=10, first_pause_seconds=0.001,
                     longest_pause_seconds=0.01)  # fmt: skip
        feed = Feed(section, "lossy", Alone(), box.put)
        start = SystemClock().now().wall // 60 * 60 - 180
        for number in range(4):
            feed.take([Row(level=Level.CLUSTER, labels=("lossy",), gauges={}, counters={("prompt_tokens", ""): 10 * number})],
                      start + 60 * number)  # fmt: skip
        wait_until(lambda: len(box) == 0, 30.0, "all was sent")
        box.close(within_seconds=5.0)
    assert box.tally.batches == {"sent": 3, "dropped": 0}
    assert box.tally.failures == {"throttled": 20, "unavailable": 1, "lost_answer": 1}
    now = datetime.datetime.now(datetime.UTC)
    metric = {
        "Namespace": "LLMFleet",
        "MetricName": "llm_cluster_prompt_tokens",
        "Dimensions": [{"Name": "cluster", "Value": "lossy"}],
    }
    answer = client(moto).get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}],
        StartTime=now - datetime.timedelta(minutes=10), EndTime=now, ScanBy="TimestampAscending",
    )  # fmt: skip
    assert answer["MetricDataResults"][0]["Values"] == [10.0, 10.0, 10.0]
