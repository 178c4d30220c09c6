"""Alarms in an account: put, put again, change, delete, against an account that keeps what AWS's documentation says it keeps.

The client and its checks of requests are the real SDK's; only the service behind it is a dictionary. What the stand-ins for
CloudWatch do with the same commands is in tests/real.
"""

import json
from dataclasses import replace

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import MANAGED_BY, Placing, Subject
from alerts.cloudwatch.promql import promql_alarms
from alerts.slo import DEFAULTS, Severity, Thresholds
from collector.signals import Level
from exporter.aws.alarms import delete_alarms, ours, put_alarms, standing
from exporter.aws.boards import put_boards
from exporter.aws.client import AwsError
from exporter.aws.metrics import sent
from exporter.cli import main
from tests.strict_alarm import MODEL

POOL = Subject(Level.POOL, ("prod-east", "serving", "llama-70b"))
PLACING = Placing(actions={Severity.PAGE: ("arn:aws:sns:us-east-1:123456789012:page",)})
MADE = [*alarms([POOL], PLACING), *promql_alarms(PLACING)[0]]


class Account:
    """Alarms, tags and dashboards of one account in one region."""

    def __init__(self):
        self.alarms, self.tags, self.dashboards, self.calls, self.messages, self.metrics = {}, {}, {}, [], [], []
        self.client = boto3.client("cloudwatch", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
        self.client.meta.events.register("before-call.cloudwatch", self._answer)

    def _answer(self, model, params, **kwargs):
        asked = json.loads(params["body"]) if params["body"] else {}
        self.calls.append(model.name)
        try:
            answer = getattr(self, model.name)(**asked)
        except ValueError as error:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": str(error)}}, model.name) from error
        return type("Response", (), {"status_code": 200})(), answer or {}

    def arn(self, name):
        return f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}"

    def PutMetricAlarm(self, *, AlarmName, Tags=(), **rest):
        if AlarmName not in self.alarms:
            # "If you are using this operation to update an existing alarm, any tags you specify are ignored."
            self.tags[self.arn(AlarmName)] = {tag["Key"]: tag["Value"] for tag in Tags}
        self.alarms[AlarmName] = {"AlarmName": AlarmName, "AlarmArn": self.arn(AlarmName), **rest}

    def PutCompositeAlarm(self, **asked):
        for name in json.loads(json.dumps(asked["AlarmRule"])).split('"')[1::2]:
            if name not in self.alarms:
                raise ValueError(f"{name} does not exist")
        if asked.get("ActionsSuppressor", asked["AlarmName"]) not in {*self.alarms, asked["AlarmName"]}:
            raise ValueError("the suppressor does not exist")
        self.PutMetricAlarm(**asked)

    def DescribeAlarms(self, *, AlarmNamePrefix, AlarmTypes, NextToken="0"):
        found = [alarm for name, alarm in sorted(self.alarms.items()) if name.startswith(AlarmNamePrefix)]
        page, at = found[int(NextToken) : int(NextToken) + 50], int(NextToken) + 50
        kinds = {"MetricAlarms": [one for one in page if "AlarmRule" not in one],
                 "CompositeAlarms": [one for one in page if "AlarmRule" in one]}  # fmt: skip
        assert set(AlarmTypes) == {"MetricAlarm", "CompositeAlarm"}
        return kinds | ({"NextToken": str(at)} if at < len(found) else {})

    def ListTagsForResource(self, *, ResourceARN):
        return {"Tags": [{"Key": key, "Value": value} for key, value in self.tags[ResourceARN].items()]}

    def TagResource(self, *, ResourceARN, Tags):
        self.tags[ResourceARN] |= {tag["Key"]: tag["Value"] for tag in Tags}

    def DeleteAlarms(self, *, AlarmNames):
        if len([name for name in AlarmNames if "AlarmRule" in self.alarms.get(name, {})]) > 1:
            raise ValueError("at most one composite alarm in one call")
        for name in AlarmNames:
            kept = [one for one in self.alarms.values() if one["AlarmName"] not in AlarmNames
                    and (f'"{name}"' in one.get("AlarmRule", "") or name == one.get("ActionsSuppressor"))]  # fmt: skip
            if kept:
                raise ValueError(f"{name} is named by {kept[0]['AlarmName']}")
        for name in AlarmNames:
            del self.alarms[name]

    def PutDashboard(self, *, DashboardName, DashboardBody):
        self.dashboards[DashboardName] = DashboardBody
        return {"DashboardValidationMessages": self.messages}

    def ListMetrics(self, *, Namespace, MetricName, RecentlyActive, NextToken="0"):
        at = int(NextToken)
        return {"Metrics": self.metrics[at : at + 2]} | ({"NextToken": str(at + 2)} if at + 2 < len(self.metrics) else {})


@pytest.fixture
def account():
    return Account()


def put(account, made=MADE):
    return dict(put_alarms(account.client, made, "llm-fleet", MANAGED_BY))


def test_put_creates_everything_in_an_order_that_the_service_takes(account):
    assert set(put(account).values()) == {"created"}
    assert set(account.alarms) == {alarm.name for alarm in MADE}
    assert all(tags[MANAGED_BY[0]] == MANAGED_BY[1] for tags in account.tags.values())


def test_put_again_changes_nothing(account):
    put(account)
    before = json.dumps(account.alarms, sort_keys=True)
    account.calls.clear()
    assert set(put(account).values()) == {"unchanged"}
    assert not {call for call in account.calls if call.startswith(("Put", "Tag", "Delete"))}
    assert json.dumps(account.alarms, sort_keys=True) == before


def test_an_order_of_metrics_that_differs_is_no_change(account):
    put(account)
    for alarm in account.alarms.values():
        alarm.get("Metrics", []).reverse()
    assert set(put(account).values()) == {"unchanged"}


def test_what_the_service_leaves_out_because_it_is_empty_is_no_change(account):
    quiet = alarms([POOL], Placing())
    put(account, quiet)
    for alarm in account.alarms.values():
        for key in ("AlarmActions", "OKActions"):
            alarm.pop(key, None)
    assert set(put(account, quiet).values()) == {"unchanged"}


def test_only_what_differs_is_put_again(account):
    put(account)
    settings = replace(DEFAULTS, thresholds=Thresholds(saturation_ratio=0.7))
    changed = {
        name for name, what in put(account, alarms([POOL], replace(PLACING, settings=settings))).items() if what == "changed"
    }
    assert changed == {"llm-fleet/LLMPoolSaturated/prod-east/serving/llama-70b/if"}
    assert account.alarms[changed.pop()]["Threshold"] == 0.7


def test_a_changed_tag_is_set_apart_since_an_update_ignores_tags(account):
    put(account)
    name = "llm-fleet/LLMPoolSaturated/prod-east/serving/llama-70b"
    account.tags[account.arn(name)]["severity"] = "info"
    assert {one for one, what in put(account).items() if what == "changed"} == {name}
    assert account.tags[account.arn(name)]["severity"] == "critical"
    assert set(put(account).values()) == {"unchanged"}


def test_an_alarm_of_somebody_else_is_never_touched(account):
    name = "llm-fleet/LLMClusterSilent/prod-east"
    account.PutMetricAlarm(AlarmName=name, Threshold=1.0, Tags=[{"Key": "team", "Value": "other"}])
    with pytest.raises(AwsError, match="not tagged managed-by=llm-fleet-exporter: choose another --prefix") as caught:
        put(account)
    assert caught.value.wrong_usage
    assert account.alarms[name]["Threshold"] == 1.0
    list(delete_alarms(account.client, ours(account.client, "llm-fleet", MANAGED_BY)))
    assert set(account.alarms) == {name}


def test_delete_takes_out_everything_of_ours_and_nothing_else(account):
    account.PutMetricAlarm(AlarmName="llm-fleet/by-hand", Tags=[])
    account.PutMetricAlarm(AlarmName="llm-fleet-2/one", Tags=[{"Key": MANAGED_BY[0], "Value": MANAGED_BY[1]}])
    put(account)
    gone = list(delete_alarms(account.client, ours(account.client, "llm-fleet", MANAGED_BY)))
    assert set(gone) == {alarm.name for alarm in MADE}
    assert set(account.alarms) == {"llm-fleet/by-hand", "llm-fleet-2/one"}
    assert list(delete_alarms(account.client, ours(account.client, "llm-fleet", MANAGED_BY))) == []


def test_many_alarms_are_deleted_a_hundred_at_a_time(account):
    tags = [{"Key": MANAGED_BY[0], "Value": MANAGED_BY[1]}]
    for at in range(230):
        account.PutMetricAlarm(AlarmName=f"llm-fleet/{at:03}", Tags=tags)
    account.calls.clear()
    assert len(list(delete_alarms(account.client, standing(account.client, "llm-fleet").values()))) == 230
    assert account.calls.count("DeleteAlarms") == 3
    assert account.calls.count("DescribeAlarms") == 5


def test_a_refusal_says_what_and_why(account):
    with pytest.raises(AwsError, match=r"PutCompositeAlarm: ValidationError: .* does not exist"):
        put(account, [alarm for alarm in MADE if "AlarmRule" in alarm.request])


def test_what_cloudwatch_says_of_a_dashboard_is_passed_on(account):
    account.messages = [{"DataPath": "/widgets/3/properties", "Message": "Should have required property 'region'"}]
    assert list(put_boards(account.client, {"one": {"widgets": []}})) == [
        ("one", ["/widgets/3/properties: Should have required property 'region'"])
    ]
    assert account.dashboards == {"one": '{"widgets": []}'}


def command(account, monkeypatch, *arguments):
    monkeypatch.setattr("exporter.aws.client.open_client", lambda **where: account.client)
    return CliRunner().invoke(main, ["cloudwatch", *arguments, "--region", "us-east-1"])


def test_deleting_a_pool_leaves_its_cluster_to_the_other_pools(account, monkeypatch):
    one, other, cluster = (("--pool", "e/s/one"), ("--pool", "e/s/other"), ("--cluster", "e"))
    command(account, monkeypatch, "alarms", "--put", *other)
    before = set(account.alarms)
    command(account, monkeypatch, "alarms", "--put", *one, *other)
    done = command(account, monkeypatch, "alarms", "--delete", *one)
    assert (done.exit_code, done.stderr) == (0, "")
    assert set(account.alarms) == before
    assert command(account, monkeypatch, "alarms", "--delete", *other, *cluster).exit_code == 0
    assert not account.alarms


def test_pruning_leaves_the_alarms_of_the_other_door(account, monkeypatch):
    put(account)
    for chosen in (("--promql",), ("--pool", "prod-east/serving/llama-70b")):
        assert command(account, monkeypatch, "alarms", "--put", "--prune", *chosen).exit_code == 0
        assert set(account.alarms) == {alarm.name for alarm in MADE}


def test_a_pool_that_no_alarm_can_name_is_said_and_the_others_get_theirs(account, monkeypatch):
    labels = ("cluster", "namespace", "pool")
    account.metrics = [
        {"Dimensions": [{"Name": name, "Value": value} for name, value in zip(labels, ("e", "s", pool), strict=True)]}
        for pool in ('a"b', "llama")
    ]
    done = command(account, monkeypatch, "alarms", "--put")
    assert done.exit_code == 0, done.output
    assert "no alarms for 'e/s/a\"b': 'a\"b' cannot stand in the name of an alarm" in done.stderr
    assert "llm-fleet/LLMPoolSaturated/e/s/llama" in account.alarms


def test_a_complaint_about_a_dashboard_ends_the_command_with_one(account, monkeypatch):
    account.messages = [{"DataPath": "/widgets/3", "Message": "is odd"}]
    done = command(account, monkeypatch, "dashboards", "--put", "--board", "llm-fleet-pool")
    assert (done.exit_code, done.stderr) == (1, "llm-fleet-pool: /widgets/3: is odd\n")
    assert done.stdout.startswith("put llm-fleet-pool: ")
    assert set(account.dashboards) == {"llm-fleet-pool"}


def test_the_reasons_for_refusing_a_dashboard_are_all_said(account, monkeypatch):
    messages = [{"DataPath": "/widgets/0", "Message": "lacks a type"}, {"DataPath": "/start", "Message": "is no time"}]
    error = {"Error": {"Code": "InvalidParameterInput", "Message": "invalid"}, "dashboardValidationMessages": messages}

    def refuse(**asked):
        raise ClientError(error, "PutDashboard")

    account.PutDashboard = refuse
    done = command(account, monkeypatch, "dashboards", "--put")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "PutDashboard: InvalidParameterInput: invalid", "/widgets/0: lacks a type", "/start: is no time"]  # fmt: skip


def test_the_sdk_reads_these_messages_where_we_look_for_them(account):
    (shape,) = [one for one in MODEL.operation_model("PutDashboard").error_shapes if one.name == "DashboardInvalidInputError"]
    assert set(shape.members["dashboardValidationMessages"].member.members) == {"DataPath", "Message"}


def test_only_pools_that_the_settings_speak_of_get_alarms(account, monkeypatch, tmp_path):
    def metric(pool):
        values = {"cluster": "east", "namespace": "serving", "pool": pool}
        return {"Dimensions": [{"Name": name, "Value": value} for name, value in values.items()]}

    account.metrics = [metric("llama"), metric("llama-test"), metric("qwen")]
    (tmp_path / "slo.yaml").write_text('selector: {pool: "!~.*-test"}\n')
    done = command(account, monkeypatch, "alarms", "--put", "--config", str(tmp_path / "slo.yaml"))
    assert done.exit_code == 0, done.output
    assert {name.split("/")[4] for name in account.alarms if name.count("/") > 3 and "Saturated" in name} == {"llama", "qwen"}
    (tmp_path / "slo.yaml").write_text("selector: {pool: nosuch}\n")
    done = command(account, monkeypatch, "alarms", "--put", "--config", str(tmp_path / "slo.yaml"))
    assert done.exit_code == 2
    assert "no pool that the settings speak of sent metrics into LLMFleet within three hours" in done.stderr


@pytest.mark.parametrize(("text", "through"), [
    ("llama", {"llama"}), ("=llama", {"llama"}), ("!=llama", {"qwen"}), ("=~lla.*", {"llama"}), ("!~lla.*", {"qwen"}),
])  # fmt: skip
def test_a_selector_is_read_as_prometheus_reads_it(text, through):
    placing = Placing(settings=replace(DEFAULTS, selector={"pool": text}))
    assert {pool for pool in ("llama", "qwen") if placing.speaks_of(Subject(Level.POOL, ("c", "n", pool)))} == through


def test_pools_are_those_that_send_metrics_with_exactly_their_dimensions(account):
    def metric(**values):
        return {"Dimensions": [{"Name": name, "Value": value} for name, value in values.items()]}

    account.metrics = [metric(cluster="b", namespace="n", pool="p"), metric(pool="p", cluster="a", namespace="n"),
                       metric(cluster="a"), metric(cluster="a", namespace="n", pool="p", outcome="stop")]  # fmt: skip
    found = sent(account.client, "LLMFleet", "llm_pool_reporting_ratio", ("cluster", "namespace", "pool"))
    assert found == [("a", "n", "p"), ("b", "n", "p")]
