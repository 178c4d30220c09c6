"""The commands about boards and alarms: usage, printing without credentials, and what is said when an account cannot be had."""

import json

import pytest
from click.testing import CliRunner

from exporter.cli import main

ARN = "arn:aws:sns:us-east-1:123456789012:page"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command in an environment that knows of no AWS account."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return lambda *arguments: CliRunner().invoke(main, ["cloudwatch", *arguments])


@pytest.mark.parametrize(("arguments", "said"), [
    ("dashboards", "give one of --put, --print"),
    ("dashboards --put --print", "give one of --put, --print"),
    ("alarms --put --delete", "give one of --put, --print, --delete"),
    ("dashboards --print", "no region: give --region"),
    ("dashboards --print --region Frankfurt", "'Frankfurt' is no AWS region"),
    ("dashboards --print --region us-east-1 --board nosuch", "there are llm-fleet-cluster, llm-fleet-pool, llm-fleet-sagemaker"),
    ("dashboards --print --region us-east-1 --alarm page", "'page' is no ARN"),
    ("dashboards --print --region us-east-1 --namespace AWS/X", "cannot be a namespace"),
    ("dashboards --print --region us-east-1 --namespace a'b", "cannot be a namespace"),
    ("dashboards --put --region us-east-1", "no AWS credentials"),
    ("dashboards --put --region us-east-1 --endpoint-url nowhere", "Invalid endpoint"),
    ("dashboards --put --profile nosuch", "profile (nosuch) could not be found"),
    ("alarms --print", "--print needs --pool"),
    ("alarms --print --pool a/b", "expected cluster/namespace/pool, got 'a/b'"),
    ("alarms --print --pool a//c", "expected cluster/namespace/pool"),
    ("alarms --print --cluster a --critical page", "'page' is no ARN"),
    (f"alarms --print --cluster a {' '.join(f'--warning {ARN}{at}' for at in range(6))}", "at most 5"),
    ("alarms --print --cluster a --prefix a/b", "is not up to 64 letters"),
    (f"alarms --print --cluster {'c' * 250}", "at most 255 characters"),
    ("alarms --print --cluster a --prune", "--prune goes with --put"),
    ("alarms --print --promql --cluster a", "it goes without --pool and --cluster"),
    ("alarms --print --promql --engine tgi", "it goes without --engine"),
    ("alarms --print --pool a/b/c --engine nosuch", "'nosuch' is not one of 'vllm', 'sglang', 'tgi'"),
    ("alarms --print --cluster a --config nosuch.yaml", "nosuch.yaml: cannot be read"),
    ("alarms --delete --region us-east-1", "no AWS credentials"),
])  # fmt: skip
def test_wrong_usage_is_said_in_a_line_and_ends_with_two(run, arguments, said):
    done = run(*arguments.split())
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_one_board_is_printed_as_put_dashboard_takes_it(run, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    body = json.loads(run("dashboards", "--print", "--board", "llm-fleet-pool").stdout)
    assert set(body) == {"start", "periodOverride", "variables", "widgets"}
    assert {widget["properties"].get("region", "eu-west-1") for widget in body["widgets"]} == {"eu-west-1"}


def test_all_boards_are_printed_by_name(run):
    bodies = json.loads(run("dashboards", "--print", "--region", "us-east-1", "--namespace", "Team A").stdout)
    assert set(bodies) == {"llm-fleet-cluster", "llm-fleet-pool", "llm-fleet-sagemaker"}
    assert '{"Team A",cluster' in bodies["llm-fleet-pool"]["widgets"][2]["properties"]["metrics"][0][0]["expression"]


def test_alarms_are_printed_as_requests_and_what_has_none_with_the_reason(run):
    done = run("alarms", "--print", "--pool", "east/serving/llama", "--critical", ARN)
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert {one["operation"] for one in told} == {"PutMetricAlarm", "PutCompositeAlarm"}
    (saturated,) = [
        one["request"] for one in told if one["request"]["AlarmName"] == "llm-fleet/LLMPoolSaturated/east/serving/llama"
    ]
    assert saturated["AlarmActions"] == [ARN]
    assert "no alarm for LLMPodMetricsStale, " in done.stderr
    assert "it looks back 72 h" in done.stderr


def test_promql_alarms_are_printed(run):
    told = json.loads(run("alarms", "--print", "--promql").stdout)
    assert all("EvaluationCriteria" in one["request"] for one in told)


def test_settings_of_the_rules_are_settings_of_the_alarms(run, tmp_path):
    (tmp_path / "slo.yaml").write_text("thresholds: {saturation_ratio: 0.7}\n")
    told = json.loads(run("alarms", "--print", "--pool", "e/s/l", "--config", str(tmp_path / "slo.yaml")).stdout)
    (limit,) = [
        one["request"]["Threshold"] for one in told if one["request"]["AlarmName"] == "llm-fleet/LLMPoolSaturated/e/s/l/if"
    ]
    assert limit == 0.7


@pytest.mark.parametrize(("engine", "lacks"), [
    ((), set()), (("--engine", "vllm"), set()), (("--engine", "sglang"), {"LLMPoolErrorRateHigh"}),
    (("--engine", "tgi"), {"LLMPoolTTFTBudgetBurn", "LLMPoolITLBudgetBurn", "LLMPoolKVHeadroomLow"}),
])  # fmt: skip
def test_alarms_are_for_what_the_named_engine_tells(run, tmp_path, engine, lacks):
    """Printed or as templates, which have no account to ask."""
    printed = json.loads(run("alarms", "--print", "--pool", "e/s/l", *engine).stdout)
    every = json.loads(run("alarms", "--print", "--pool", "e/s/l").stdout)
    names, whole = ({one["request"]["AlarmName"].split("/")[1] for one in told} for told in (printed, every))
    assert whole - names == lacks
    done = CliRunner().invoke(main, ["render", "cloudwatch-alarms", "--out", str(tmp_path), *engine])
    text = "".join((tmp_path / f"{name}.template.yaml").read_text() for name in ("pool", "pool-budgets-critical"))
    assert done.exit_code == 0
    assert {name for name in whole if name.startswith("LLMPool") and f"/{name}/" not in text} == lacks
    assert (": stop}" in text.replace("Value: stop", ": stop}")) is (engine in ((), ("--engine", "vllm")))
