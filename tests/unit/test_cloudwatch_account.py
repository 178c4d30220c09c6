"""Alarms in an account: put, put again, change, delete, against an account that keeps what AWS's documentation says it keeps.

The client and its checks of requests are the real SDK's; only the service behind it is a dictionary. What the stand-ins for
CloudWatch do with the same commands is in tests/real.
"""

import json
import re
from dataclasses import replace

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from alerts.cloudwatch.alarms import alarms
from alerts.cloudwatch.model import MANAGED_BY, Kind, Placing, Subject
from alerts.cloudwatch.names import subject_of
from alerts.cloudwatch.promql import promql_alarms
from alerts.slo import DEFAULTS, Severity, Thresholds
from collector.signals import Level
from exporter.aws.alarms import delete_alarms, ours, put_alarms, standing
from exporter.aws.boards import put_boards
from exporter.aws.client import AwsError
from exporter.aws.metrics import sending
from exporter.cli import main
from tests.strict_alarm import MODEL

POOL = Subject(Level.POOL, ("prod-east", "serving", "llama-70b"))
PLACING = Placing(actions={Severity.PAGE: ("arn:aws:sns:us-east-1:123456789012:page",)})
MADE = [*alarms([POOL], PLACING), *promql_alarms(PLACING)[0]]


class Account:
    """Alarms, tags and dashboards of one account in one region."""

    def __init__(self):
        self.alarms, self.tags, self.dashboards, self.calls, self.messages, self.metrics, self.old = {}, {}, {}, [], [], [], []
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

    def ListMetrics(self, *, Namespace, RecentlyActive=None, NextToken="0"):
        """Two at a time; those in `old` were not active recently."""
        found, at = [one for one in self.metrics if RecentlyActive is None or one not in self.old], int(NextToken)
        return {"Metrics": found[at : at + 2]} | ({"NextToken": str(at + 2)} if at + 2 < len(found) else {})


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


def metric(pool="llama", name="llm_pool_reporting_ratio", cluster="east", namespace="serving", **own):
    values = {"cluster": cluster, "namespace": namespace, "pool": pool} | own
    return {"MetricName": name, "Dimensions": [{"Name": key, "Value": value} for key, value in values.items() if value]}


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
    account.metrics = [metric(pool, cluster="e", namespace="s") for pool in ('a"b', "llama")]
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
    account.metrics = [metric("p", cluster="b"), metric("p", cluster="a"), metric("", cluster="a", namespace=""),
                       metric("q", cluster="a", outcome="stop"), metric("q", cluster="a", pod="q-0"), metric("old")]  # fmt: skip
    account.old = account.metrics[-1:]
    seen = sending(account.client, "LLMFleet")
    assert seen.pools() == [("a", "serving", "p"), ("b", "serving", "p")]
    assert ("east", "serving", "old") in seen.listed


SGLANG = [metric(), *(metric(name="llm_pool_requests", outcome=outcome) for outcome in ("abort", "other")),
          metric(name="llm_pool_rejected_requests")]  # fmt: skip
TTFT = metric(name="llm_pool_time_to_first_token_seconds")


def metrics_of(account, alert):
    alarm = account.alarms[f"llm-fleet/{alert}/east/serving/llama/if"]
    return {tuple(pair["Value"] for pair in one["MetricStat"]["Metric"]["Dimensions"][3:])
            for one in alarm["Metrics"] if "MetricStat" in one}  # fmt: skip


@pytest.mark.parametrize("named", [(), ("--pool", "east/serving/llama")])
def test_an_outcome_that_a_pool_does_not_send_is_left_out_of_sums_and_said(account, monkeypatch, named):
    account.metrics = SGLANG
    done = command(account, monkeypatch, "alarms", "--put", *named)
    assert done.exit_code == 0, done.output
    assert metrics_of(account, "LLMPoolAbortRateHigh") == {("abort",), ("other",)}
    assert not [name for name in account.alarms if "ErrorRateHigh" in name or "TTFT" in name]
    assert "no alarm for LLMPoolErrorRateHigh: east/serving/llama does not send llm_pool_requests of error\n" in done.stderr
    assert "no alarm for LLMPoolTTFTBudgetBurn/1h, " in done.stderr
    lacks = "east/serving/llama does not send llm_pool_requests of stop, length, error"
    assert re.search(f"not in the sums of LLMPoolAbortRateHigh, .*: {lacks}\n", done.stderr)
    account.metrics = [*SGLANG, metric(name="llm_pool_requests", outcome="error"), TTFT]
    command(account, monkeypatch, "alarms", "--put", *named)
    assert metrics_of(account, "LLMPoolAbortRateHigh") == {("abort",), ("other",), ("error",)}
    assert "llm-fleet/LLMPoolTTFTBudgetBurn/1h/east/serving/llama" in account.alarms


def test_a_latency_of_an_idle_pool_keeps_its_alarms_and_an_outcome_of_a_former_engine_goes(account, monkeypatch):
    # After a restart of the exporter, refusals of an idle pool are not sent until it serves again.
    account.old = [TTFT, metric(name="llm_pool_requests", outcome="stop"), metric(name="llm_pool_rejected_requests")]
    account.metrics = [*SGLANG[:-1], *account.old]
    assert command(account, monkeypatch, "alarms", "--put").exit_code == 0
    there = {name.split("/")[1] for name in account.alarms}
    assert {"LLMPoolTTFTBudgetBurn", "LLMPoolRejecting", "LLMPoolAvailabilityBudgetBurn"} <= there
    assert metrics_of(account, "LLMPoolAbortRateHigh") == {("abort",), ("other",)}


def test_a_pool_whose_pods_are_all_silent_is_judged_by_what_it_sent_before(account, monkeypatch):
    account.metrics, account.old = SGLANG, SGLANG[1:]
    assert command(account, monkeypatch, "alarms", "--put").exit_code == 0
    assert metrics_of(account, "LLMPoolAbortRateHigh") == {("abort",), ("other",)}


def test_a_pool_that_sends_nothing_of_an_engine_is_taken_for_one_of_vllm_and_said(account, monkeypatch):
    account.metrics = [metric()]
    done = command(account, monkeypatch, "alarms", "--put")
    assert "east/serving/llama sent nothing of an engine within two weeks: its alarms are those of vllm" in done.stderr
    assert len(metrics_of(account, "LLMPoolAbortRateHigh")) == 5


def test_a_named_engine_goes_before_what_is_sent(account, monkeypatch):
    account.metrics = [metric()]
    for named in ((), ("--pool", "east/serving/llama")):
        command(account, monkeypatch, "alarms", "--delete")
        done = command(account, monkeypatch, "alarms", "--put", "--engine", "sglang", *named)
        assert done.exit_code == 0, done.output
        assert metrics_of(account, "LLMPoolAbortRateHigh") == {("abort",), ("other",)}


def pools_of(account):
    return {name.split("/", 2)[2].removesuffix("/if") for name in account.alarms if "NoReportingPods" in name}


def test_pruning_by_name_leaves_what_is_not_named(account, monkeypatch, tmp_path):
    for pool in ("east/serving/llama", "east/serving/qwen", "west/serving/llama"):
        command(account, monkeypatch, "alarms", "--put", "--pool", pool)
    (tmp_path / "slo.yaml").write_text("alerts: {LLMPoolSaturated: false, LLMClusterReportingLow: false}\n")
    changed = ("alarms", "--put", "--prune", "--config", str(tmp_path / "slo.yaml"))
    before = set(account.alarms)
    gone = {f"llm-fleet/LLMPoolSaturated/east/serving/llama{part}" for part in ("", "/if")}
    assert command(account, monkeypatch, *changed, "--pool", "east/serving/llama").exit_code == 0
    assert before - set(account.alarms) == gone
    assert command(account, monkeypatch, *changed, "--cluster", "west").exit_code == 0
    assert before - set(account.alarms) == gone | {f"llm-fleet/LLMClusterReportingLow/west{part}" for part in ("", "/if")}


def test_a_silent_cluster_keeps_its_alarms_and_a_pool_that_is_gone_does_not(account, monkeypatch):
    """Its alarm of silence is on: the nightly run must not take it away."""
    there = [metric(), metric("gone"), metric("asleep"), metric(cluster="silent"), metric(cluster="dead")]
    account.metrics = there
    command(account, monkeypatch, "alarms", "--put")
    everybody = pools_of(account)
    account.metrics, account.old = [there[0], *there[2:4]], there[2:]
    done = command(account, monkeypatch, "alarms", "--put", "--prune")
    assert done.exit_code == 0, done.output
    assert everybody - pools_of(account) == {"east/serving/gone"}
    assert {"llm-fleet/LLMClusterSilent/silent", "llm-fleet/LLMClusterSilent/dead"} <= set(account.alarms)
    for named in (("--pool", "dead/serving/llama"), ("--cluster", "dead")):
        assert command(account, monkeypatch, "alarms", "--delete", *named).exit_code == 0
    assert not [name for name in account.alarms if "/dead" in name]


def test_pruning_leaves_what_the_selector_does_not_speak_of(account, monkeypatch, tmp_path):
    account.metrics = [metric(), metric("test"), metric("gone")]
    command(account, monkeypatch, "alarms", "--put")
    account.metrics = account.metrics[:1]
    (tmp_path / "slo.yaml").write_text('selector: {pool: "!=test"}\n')
    command(account, monkeypatch, "alarms", "--put", "--prune", "--config", str(tmp_path / "slo.yaml"))
    assert pools_of(account) == {"east", "east/serving/llama", "east/serving/test"}


def test_a_pool_that_is_named_and_that_the_selector_leaves_out_is_said(account, monkeypatch, tmp_path):
    (tmp_path / "slo.yaml").write_text('selector: {pool: "!=test"}\n')
    done = command(account, monkeypatch, "alarms", "--put", "--pool=east/serving/test", "--config", str(tmp_path / "slo.yaml"))
    assert done.exit_code == 0
    assert "east/serving/test is named, so it does not matter that the selector leaves it out" in done.stderr


def shown(account, name):
    body = json.loads(account.dashboards[name])
    (widget,) = [widget for widget in body["widgets"] if widget["type"] == "alarm"]
    return [arn.split(":alarm:")[1] for arn in widget["properties"]["alarms"]], body["widgets"][0]["properties"]["markdown"]


def test_boards_show_our_alarms_alone_critical_ones_first(account, monkeypatch):
    put(account)
    account.PutMetricAlarm(AlarmName="llm-fleet/theirs", Tags=[], ActionsEnabled=True)
    assert command(account, monkeypatch, "dashboards", "--put").exit_code == 0
    names, text = shown(account, "llm-fleet-pool")
    severities = [account.tags[account.arn(name)]["severity"] for name in names]
    assert set(names) == {alarm.name for alarm in MADE if alarm.request["ActionsEnabled"]}
    assert severities == sorted(severities, key=[str(severity) for severity in Severity].index)
    assert len(set(severities)) > 2
    assert "not shown" not in text


def test_alarms_that_a_widget_has_no_room_for_are_counted(account, monkeypatch):
    put(account, alarms([Subject(Level.POOL, ("c", "n", f"p{at}")) for at in range(8)], PLACING))
    every = sum(alarm["ActionsEnabled"] for alarm in account.alarms.values())
    assert every > 100
    command(account, monkeypatch, "dashboards", "--put")
    names, text = shown(account, "llm-fleet-pool")
    assert len(names) == 100
    assert f"**{every - 100} more alarms** are not shown: a widget holds 100." in text


@pytest.mark.parametrize("values", [("c", "n", "p"), ("1h", "n", "p"), ("a/b", "n", "if"), ("if", "1h", "if 5m")])
def test_the_name_of_an_alarm_says_what_it_speaks_of(values):
    pool = Subject(Level.POOL, values)
    for alarm in alarms([pool], Placing()):
        whole = pool.cluster if "LLMCluster" in alarm.name or alarm.name.endswith(f"away/{values[0]}") else pool
        assert subject_of(alarm.name, "llm-fleet", condition=alarm.kind is Kind.METRIC) == whole
    assert subject_of("llm-fleet/promql/LLMPoolSaturated", "llm-fleet", condition=True) is None
