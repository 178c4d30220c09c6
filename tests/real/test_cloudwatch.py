"""Two stand-ins for CloudWatch, asked through the real SDK. Neither enforces AWS's limits."""

import datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.real.running import Running

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
