"""Dashboards and alarms put by the command into stand-ins for CloudWatch, and read back through the real SDK.

MiniStack keeps composite alarms, but neither what suppresses one nor metric math nor a PromQL query; moto keeps metric math
and knows no composite alarms. Neither checks a dashboard's body. What AWS would check is checked in tests/unit.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import MANAGED_BY, Kind, Placing, Subject
from alerts.cloudwatch.promql import promql_alarms
from collector.naming import cloudwatch_name
from collector.signals import Level
from exporter.aws.alarms import delete_alarms, ours, put_alarms
from exporter.cli import main
from tests.real.promapi import query
from tests.real.running import Running, output_of, program
from tests.strict_body import complaints

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
POOL = ("prod-east", "serving", "llama-70b")
ACCOUNT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
MADE = alarms([Subject(Level.POOL, POOL)], Placing())
NAMES = [alarm.name for alarm in MADE]


def client(stand_in: Running) -> Any:
    return boto3.client("cloudwatch", endpoint_url=stand_in.url, region_name="us-east-1", aws_access_key_id="test",
                        aws_secret_access_key="test")  # fmt: skip


def run(stand_in: Running | None, *arguments: str) -> Result:
    """The command, on a stand-in or on none and then without credentials."""
    bare: dict[str, str | None] = {key: None for key in os.environ if key.startswith("AWS_")}
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    where = ["--endpoint-url", stand_in.url] if stand_in else ["--region", "us-east-1"]
    environment = {**bare, **nowhere, **(ACCOUNT if stand_in else {})}
    return CliRunner().invoke(main, ["cloudwatch", *arguments, *where], env=environment)


def lines(stand_in: Running, *arguments: str) -> list[list[str]]:
    """What a command that succeeds prints, line by line, in two words."""
    done = run(stand_in, *arguments)
    assert done.exit_code == 0, done.stderr
    return [line.split(" ", 1) for line in done.stdout.splitlines()]


def there(stand_in: Running) -> dict[str, Mapping[str, Any]]:
    found = client(stand_in).get_paginator("describe_alarms").paginate(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    return {alarm["AlarmName"]: alarm for page in found for kind in ("MetricAlarms", "CompositeAlarms") for alarm in page[kind]}


@pytest.fixture(params=["moto", "ministack"])
def stand_in(request: pytest.FixtureRequest) -> Running:
    running: Running = request.getfixturevalue(request.param)
    return running


def test_dashboards_come_back_as_they_are_printed(stand_in: Running) -> None:
    printed = json.loads(run(None, "dashboards", "--print").stdout)
    assert [line[1].partition(":")[0] for line in lines(stand_in, "dashboards", "--put")] == list(printed)
    for name, body in printed.items():
        kept = json.loads(client(stand_in).get_dashboard(DashboardName=name)["DashboardBody"])
        assert complaints(kept) == []
        alarm_widgets = [widget for widget in kept["widgets"] if widget["type"] == "alarm"]
        assert kept == body or alarm_widgets, name


def test_alarms_are_put_changed_put_again_and_deleted(ministack: Running, tmp_path: Path) -> None:
    pool = "--pool=" + "/".join(POOL)
    cloudwatch = client(ministack)
    cloudwatch.put_metric_alarm(AlarmName="llm-fleet/by-hand", Namespace="N", MetricName="M", Statistic="Sum", Period=60,
                                EvaluationPeriods=1, Threshold=1.0, ComparisonOperator="GreaterThanThreshold")  # fmt: skip
    assert lines(ministack, "alarms", "--put", pool) == [["created", name] for name in NAMES]

    kept = there(ministack)
    assert set(NAMES) <= set(kept)
    for alarm in MADE:
        told = kept[alarm.name]
        for key in ("AlarmRule", "Threshold", "ComparisonOperator", "TreatMissingData", "EvaluationPeriods", "ActionsEnabled"):
            assert told.get(key) == alarm.request.get(key), (alarm.name, key)
        tags = cloudwatch.list_tags_for_resource(ResourceARN=told["AlarmArn"])["Tags"]
        assert {"Key": MANAGED_BY[0], "Value": MANAGED_BY[1]} in tags

    again = {name: what for what, name in lines(ministack, "alarms", "--put", pool)}
    assert list(again) == NAMES
    # Only those of which something was not kept look as if they were not as asked for.
    assert {name for name, what in again.items() if what != "unchanged"} == {
        alarm.name for alarm in MADE if {"ActionsSuppressor", "Metrics"} & set(alarm.request)
    }
    assert set(there(ministack)) == set(kept)

    (tmp_path / "slo.yaml").write_text("thresholds: {saturation_ratio: 0.7}\n", encoding="utf-8")
    lines(ministack, "alarms", "--put", pool, f"--config={tmp_path / 'slo.yaml'}")
    assert there(ministack)["llm-fleet/LLMPoolSaturated/" + "/".join(POOL) + "/if"]["Threshold"] == 0.7

    gone = [name for _, name in lines(ministack, "alarms", "--delete")]
    assert sorted(gone) == sorted(NAMES)
    assert "llm-fleet/by-hand" in there(ministack)
    assert lines(ministack, "alarms", "--delete") == []
    cloudwatch.delete_alarms(AlarmNames=["llm-fleet/by-hand"])


def test_metric_math_put_again_is_unchanged(moto: Running) -> None:
    metric = [alarm for alarm in MADE if alarm.kind is Kind.METRIC]
    cloudwatch = client(moto)
    assert {what for _, what in put_alarms(cloudwatch, metric, "llm-fleet", MANAGED_BY)} == {"created"}
    assert {what for _, what in put_alarms(cloudwatch, metric, "llm-fleet", MANAGED_BY)} == {"unchanged"}
    kept = there(moto)
    assert all(kept[alarm.name]["Metrics"] == alarm.request["Metrics"] for alarm in metric)
    gone = list(delete_alarms(cloudwatch, ours(cloudwatch, "llm-fleet", MANAGED_BY)))
    assert sorted(gone) == sorted(alarm.name for alarm in metric)


def test_dashboards_show_the_alarms_that_tell_somebody(ministack: Running) -> None:
    lines(ministack, "alarms", "--put", "--cluster=shown")
    lines(ministack, "dashboards", "--put", "--board=llm-fleet-pool")
    body = json.loads(client(ministack).get_dashboard(DashboardName="llm-fleet-pool")["DashboardBody"])
    lines(ministack, "alarms", "--delete")
    (shown,) = [widget["properties"]["alarms"] for widget in body["widgets"] if widget["type"] == "alarm"]
    assert sorted(arn.split(":alarm:")[1] for arn in shown) == [
        f"llm-fleet/{name}/shown" for name in ("LLMClusterNoReportingPods", "LLMClusterReportingLow", "LLMClusterSilent")
    ]
    assert complaints(body) == []


def test_pools_that_send_metrics_are_found(ministack: Running) -> None:
    named = {"cluster": "found", "namespace": "serving", "pool": "qwen"}
    datum = {"MetricName": cloudwatch_name("reporting_ratio", Level.POOL), "Value": 1.0,
             "Dimensions": [{"Name": name, "Value": value} for name, value in named.items()]}  # fmt: skip
    client(ministack).put_metric_data(Namespace="Found", MetricData=[datum])
    made = [name for _, name in lines(ministack, "alarms", "--put", "--namespace=Found", "--prefix=found")]
    gone = [name for _, name in lines(ministack, "alarms", "--delete", "--prefix=found")]
    assert "found/LLMPoolSaturated/found/serving/qwen" in made
    assert sorted(gone) == sorted(made)


def test_alarms_that_are_described_no_more_are_pruned(ministack: Running, tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text("alerts: {LLMClusterReportingLow: false}\n")
    lines(ministack, "alarms", "--put", "--prefix=pruned", "--cluster=one", "--cluster=two")
    before = {name for name in there(ministack) if name.startswith("pruned/")}
    config = f"--config={tmp_path / 'slo.yaml'}"
    done = lines(ministack, "alarms", "--put", "--prune", "--prefix=pruned", "--cluster=two", config)
    gone = {name for what, name in done if what == "deleted"}
    assert gone == {"pruned/LLMClusterReportingLow/two", "pruned/LLMClusterReportingLow/two/if"}
    assert {name for name in there(ministack) if name.startswith("pruned/")} == before - gone
    lines(ministack, "alarms", "--delete", "--prefix=pruned")


def test_promql_alarms_are_put_and_deleted(moto: Running) -> None:
    made = [name for _, name in lines(moto, "alarms", "--put", "--promql")]
    assert set(made) <= set(there(moto))
    assert [name for _, name in lines(moto, "alarms", "--delete", "--promql")] == made
    assert not set(made) & set(there(moto))


def test_what_a_stand_in_refuses_is_said_and_ends_with_one(moto: Running) -> None:
    done = run(moto, "alarms", "--put", "--cluster=refused")
    lines(moto, "alarms", "--delete")
    assert done.exit_code == 1
    assert "PutCompositeAlarm: " in done.stderr


def test_without_credentials_only_printing_works() -> None:
    assert run(None, "alarms", "--print", "--cluster=c").exit_code == 0
    done = run(None, "alarms", "--put", "--cluster=c")
    assert done.exit_code == 2
    assert "no AWS credentials" in done.stderr


@pytest.mark.parametrize("alarm", promql_alarms(Placing())[0], ids=lambda alarm: alarm.name)
def test_prometheus_answers_the_query_of_every_promql_alarm(prometheus: Running, alarm: Any) -> None:
    answer = query(prometheus, alarm.request["EvaluationCriteria"]["PromQLCriteria"]["Query"])
    assert answer["status"] == "success"
    assert answer["data"]["resultType"] == "vector"
    assert not answer.get("warnings")


def test_cloudformation_has_nothing_to_say_of_the_templates() -> None:
    paths = [str(path) for path in sorted((ROOT / "alerts/generated/cloudwatch").iterdir())]
    assert output_of([program("cfn-lint"), "--regions", "us-east-1", "--", *paths]) == ""
