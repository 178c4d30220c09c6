"""Alarms from the rules: good requests, the numbers of the rules, arithmetic that says what the rules say."""

import copy
import re
from dataclasses import replace

import promql_parser
import pytest

from alerts.cloudwatch.alarms import HEARTBEAT_PERIODS, alarms, left_out
from alerts.cloudwatch.model import MANAGED_BY, Placing, Subject, words
from alerts.cloudwatch.promql import promql_alarms
from alerts.cloudwatch.sheet import CannotTell
from alerts.cloudwatch.told import check
from alerts.model import Check, How, Value, alerts_of
from alerts.rules import GROUPS
from alerts.slo import DEFAULTS, THRESHOLDS, TTFT, BurnWindow, Change, Severity, Thresholds
from collector.naming import CLOUDWATCH_NAMESPACE, CLOUDWATCH_SIGNALS, cloudwatch_name
from collector.signals import Level
from tests.promql import descend
from tests.strict_alarm import complaints, evaluated

POOL = Subject(Level.POOL, ("prod-east", "serving", "llama-70b"))
CLUSTER = Subject(Level.CLUSTER, ("prod-east",))
PAGE, TICKET = "arn:aws:sns:us-east-1:123456789012:page", "arn:aws:sns:us-east-1:123456789012:ticket"
PLACING = Placing(actions={Severity.PAGE: (PAGE,), Severity.TICKET: (TICKET,)})
MADE = alarms([POOL], PLACING)
BY_NAME = {alarm.name: alarm.request for alarm in MADE}
QUERIED, NOT_QUERIED = promql_alarms(PLACING)
OF_POOL = "prod-east/serving/llama-70b"


def part(alert, condition=""):
    return BY_NAME[f"llm-fleet/{alert}/{OF_POOL}/if {condition}".strip()]


def told(request):
    """The expression of an alarm, and what each id in it is: name, own dimensions, statistic, period."""
    expression = next(one["Expression"] for one in request["Metrics"] if one["ReturnData"])
    meaning = {}
    for one in request["Metrics"]:
        if "MetricStat" in one:
            metric = one["MetricStat"]["Metric"]
            own = {pair["Name"]: pair["Value"] for pair in metric["Dimensions"][3:]}
            meaning[one["Id"]] = (metric["MetricName"], own, one["MetricStat"]["Stat"], one["MetricStat"]["Period"])
    return expression, meaning


@pytest.mark.parametrize("alarm", MADE + QUERIED, ids=lambda alarm: alarm.name)
def test_a_strict_reader_has_nothing_to_say(alarm):
    assert complaints(alarm.kind.value, alarm.request) == []


def test_names_are_unique_and_say_what_of_what():
    assert len(BY_NAME) == len(MADE)
    assert f"llm-fleet/LLMPoolSaturated/{OF_POOL}" in BY_NAME
    assert f"llm-fleet/LLMPoolTTFTBudgetBurn/1h/{OF_POOL}" in BY_NAME


def test_every_alarm_is_put_after_those_that_it_names():
    there = set()
    for alarm in MADE:
        named = re.findall(r'ALARM\("([^"]+)"\)', alarm.request.get("AlarmRule", ""))
        named += [alarm.request[key] for key in ("ActionsSuppressor",) if key in alarm.request]
        assert set(named) <= there, alarm.name
        there.add(alarm.name)


def test_only_alerts_tell_somebody_and_by_severity():
    tell = {name: request["AlarmActions"] for name, request in BY_NAME.items() if request.get("AlarmActions")}
    parts = [request for name, request in BY_NAME.items() if "/if" in name or "/away/" in name]
    assert parts
    assert all(request["ActionsEnabled"] is False and "AlarmActions" not in request for request in parts)
    assert tell[f"llm-fleet/LLMPoolSaturated/{OF_POOL}"] == [PAGE]
    assert tell[f"llm-fleet/LLMPoolImbalanced/{OF_POOL}"] == [TICKET]
    assert all(BY_NAME[name]["OKActions"] == actions for name, actions in tell.items())


def test_every_alarm_carries_our_tag_and_its_severity():
    for alarm in MADE + QUERIED:
        tags = {tag["Key"]: tag["Value"] for tag in alarm.request["Tags"]}
        assert tags[MANAGED_BY[0]] == MANAGED_BY[1]
        assert tags["severity"] in {str(severity) for severity in Severity}


def test_the_text_names_the_runbook():
    request = BY_NAME[f"llm-fleet/LLMPoolSaturated/{OF_POOL}"]
    assert request["AlarmDescription"].endswith("alerts/runbook.md#llmpoolsaturated")


def test_a_pool_is_quiet_while_it_or_its_cluster_is_away():
    away = BY_NAME[f"llm-fleet/away/{OF_POOL}"]
    assert away["AlarmRule"] == f'ALARM("llm-fleet/LLMPoolNoReportingPods/{OF_POOL}") OR ALARM("llm-fleet/away/prod-east")'
    assert BY_NAME["llm-fleet/away/prod-east"]["AlarmRule"] == (
        'ALARM("llm-fleet/LLMClusterSilent/prod-east") OR ALARM("llm-fleet/LLMClusterNoReportingPods/prod-east")'
    )
    saturated = BY_NAME[f"llm-fleet/LLMPoolSaturated/{OF_POOL}"]
    assert saturated["ActionsSuppressor"] == f"llm-fleet/away/{OF_POOL}"
    # What says that the pool is away must not keep itself quiet.
    assert BY_NAME[f"llm-fleet/LLMPoolNoReportingPods/{OF_POOL}"]["ActionsSuppressor"] == "llm-fleet/away/prod-east"
    assert "ActionsSuppressor" not in BY_NAME["llm-fleet/LLMClusterSilent/prod-east"]


def test_silence_of_an_exporter_is_an_alarm():
    heartbeat = BY_NAME["llm-fleet/LLMClusterSilent/prod-east/if"]
    metric = heartbeat["Metrics"][1]["MetricStat"]
    assert metric["Metric"]["Dimensions"] == [{"Name": "cluster", "Value": "prod-east"}]
    assert metric["Metric"]["MetricName"] == cloudwatch_name("cloudwatch_writers", Level.EXPORTER)
    assert (heartbeat["TreatMissingData"], heartbeat["ComparisonOperator"], heartbeat["Threshold"]) == (
        "breaching", "LessThanThreshold", 1)  # fmt: skip
    assert (heartbeat["EvaluationPeriods"], heartbeat["DatapointsToAlarm"]) == (HEARTBEAT_PERIODS, HEARTBEAT_PERIODS)


@pytest.mark.parametrize(("change", "breaching", "looked_at"), [
    (Change(pending_seconds=600), 10, 10),
    (Change(pending_seconds=30, keep_firing_seconds=120), HEARTBEAT_PERIODS, HEARTBEAT_PERIODS + 2),
])  # fmt: skip
def test_silence_waits_as_the_settings_say_and_never_less_than_one_is_late_now_and_then(change, breaching, looked_at):
    settings = replace(DEFAULTS, changes={"LLMClusterSilent": change})
    made = {alarm.name: alarm.request for alarm in alarms([CLUSTER], replace(PLACING, settings=settings))}
    heartbeat = made["llm-fleet/LLMClusterSilent/prod-east/if"]
    assert (heartbeat["DatapointsToAlarm"], heartbeat["EvaluationPeriods"]) == (breaching, looked_at)


def test_saturation_has_the_limit_and_the_waits_of_the_rule():
    request = part("LLMPoolSaturated")
    assert told(request) == ("m1", {"m1": ("llm_pool_saturation_ratio", {}, "Minimum", 60)})
    assert (request["ComparisonOperator"], request["Threshold"]) == ("GreaterThanOrEqualToThreshold", THRESHOLDS.saturation_ratio)
    # for: 2m and keep_firing_for: 2m
    assert (request["DatapointsToAlarm"], request["EvaluationPeriods"]) == (2, 4)
    # Overloaded pods fall silent: that must not end it.
    assert request["TreatMissingData"] == "ignore"


def test_falling_below_takes_the_highest_of_a_period():
    assert told(part("LLMPoolReportingLow"))[1] == {"m1": ("llm_pool_reporting_ratio", {}, "Maximum", 60)}
    assert part("LLMPoolReportingLow")["ComparisonOperator"] == "LessThanThreshold"


@pytest.mark.parametrize(("counts", "share"), [
    ({"stop": 90, "length": 4, "error": 6}, 0.06),
    ({"stop": 9, "error": 10}, 0),  # 19 requests are too few to judge
    ({"stop": 10, "error": 10}, 0.5),
    ({"stop": 94, "length": 0, "abort": 0, "error": 0, "other": 6}, 0),
])  # fmt: skip
def test_the_error_share_is_of_all_that_finished_and_wants_enough_of_them(counts, share):
    expression, meaning = told(part("LLMPoolErrorRateHigh"))
    assert {name for name, *_ in meaning.values()} == {"llm_pool_requests"}
    assert {stat for _, _, stat, _ in meaning.values()} == {"Sum"}
    values = {known: counts.get(own["outcome"], 0) for known, (_, own, _, _) in meaning.items()}
    assert evaluated(expression, values) == pytest.approx(share)
    assert part("LLMPoolErrorRateHigh")["Threshold"] == THRESHOLDS.error_ratio


def test_a_latency_objective_is_judged_by_its_own_bound_budget_and_floor():
    expression, meaning = told(part("LLMPoolTTFTBudgetBurn/1h", "1h"))
    assert meaning == {
        "m1": ("llm_pool_time_to_first_token_seconds", {}, "PR(0:1)", 3600),
        "m2": ("llm_pool_time_to_first_token_seconds_exact", {}, "SampleCount", 3600),
    }
    assert evaluated(expression, {"m1": 85.0, "m2": 100}) == pytest.approx(0.15)
    assert evaluated(expression, {"m1": 0.0, "m2": 99}) == 0
    request = part("LLMPoolTTFTBudgetBurn/1h", "1h")
    assert (request["ComparisonOperator"], request["Threshold"]) == ("GreaterThanThreshold", 0.144)  # 14.4 times 1 %
    short, meaning = told(part("LLMPoolTTFTBudgetBurn/1h", "5m"))
    assert {period for *_, period in meaning.values()} == {300}
    assert evaluated(short, {"m1": 85.0, "m2": 1}) == pytest.approx(0.15)  # the floor is of the long window alone
    assert BY_NAME[f"llm-fleet/LLMPoolTTFTBudgetBurn/1h/{OF_POOL}"]["AlarmRule"] == (
        f'ALARM("llm-fleet/LLMPoolTTFTBudgetBurn/1h/{OF_POOL}/if 1h") AND '
        f'ALARM("llm-fleet/LLMPoolTTFTBudgetBurn/1h/{OF_POOL}/if 5m")'
    )


@pytest.mark.parametrize(("counts", "refused", "share"), [
    ({"stop": 98, "error": 1}, 1, 0.02),  # failed and refused ones are bad
    ({"stop": 50, "length": 40, "other": 10, "abort": 500}, 0, 0),  # an abort is neither
    ({"stop": 90, "error": 9}, 0, 0),  # 99 are too few
    ({}, 100, 1.0),
])  # fmt: skip
def test_availability_counts_what_failed_and_what_was_refused(counts, refused, share):
    expression, meaning = told(part("LLMPoolAvailabilityBudgetBurn/6h", "6h"))
    values = {known: counts.get(own["outcome"], 0) if own else refused for known, (_, own, _, _) in meaning.items()}
    assert "abort" not in {own.get("outcome") for _, own, _, _ in meaning.values()}
    assert evaluated(expression, values) == pytest.approx(share)
    assert part("LLMPoolAvailabilityBudgetBurn/6h", "6h")["Threshold"] == pytest.approx(6 * 0.005)


def test_every_number_comes_from_the_settings():
    settings = replace(
        DEFAULTS,
        thresholds=Thresholds(saturation_ratio=0.7, error_ratio=0.11),
        objectives=(replace(TTFT, bound_seconds=0.1, objective=0.9),),
        windows=(BurnWindow("2h", "10m", 5, Severity.TICKET, 600),),
        changes={"LLMPoolImbalanced": Change(disabled=True)},
    )
    made = {alarm.name: alarm.request for alarm in alarms([POOL], replace(PLACING, settings=settings))}
    assert made[f"llm-fleet/LLMPoolSaturated/{OF_POOL}/if"]["Threshold"] == 0.7
    assert made[f"llm-fleet/LLMPoolErrorRateHigh/{OF_POOL}/if"]["Threshold"] == 0.11
    long = made[f"llm-fleet/LLMPoolTTFTBudgetBurn/2h/{OF_POOL}/if 2h"]
    assert long["Threshold"] == pytest.approx(0.5)
    assert told(long)[1]["m1"] == ("llm_pool_time_to_first_token_seconds", {}, "PR(0:0.1)", 7200)
    assert not [name for name in made if "Imbalanced" in name or "ITL" in name or "/1h/" in name]


def test_windows_that_differ_in_the_short_one_alone_have_alarms_of_their_own():
    windows = (BurnWindow("1h", "5m", 14.4, Severity.PAGE, 120), BurnWindow("1h", "30m", 2, Severity.TICKET, 900))
    placing = replace(PLACING, settings=replace(DEFAULTS, windows=windows))
    for made in (alarms([POOL], placing), promql_alarms(placing)[0]):
        names = [alarm.name for alarm in made]
        assert len(set(names)) == len(names)
        assert {name.split("/")[-4 if "/promql/" not in name else -1] for name in names if "TTFT" in name} >= {"1h-5m", "1h-30m"}


@pytest.mark.parametrize(("changed", "alert"), [
    ({"changes": {"LLMPoolSaturated": Change(pending_seconds=2 * 86_400)}}, "LLMPoolSaturated"),
    ({"changes": {"LLMPoolSaturated": Change(keep_firing_seconds=2 * 86_400)}}, "LLMPoolSaturated"),
    ({"changes": {"LLMClusterSilent": Change(pending_seconds=2 * 86_400)}}, "LLMClusterSilent"),
    ({"windows": (BurnWindow("1h", "90s", 14.4, Severity.PAGE, 120),)}, "LLMPoolTTFTBudgetBurn/1h"),
])  # fmt: skip
def test_what_aws_would_refuse_is_left_out_with_the_reason(changed, alert):
    placing = replace(PLACING, settings=replace(DEFAULTS, **changed))
    queried, left = promql_alarms(placing)
    made = alarms([POOL], placing)
    assert not [found for alarm in made + queried for found in complaints(alarm.kind.value, alarm.request)]
    assert alert in {one.alert for one in left_out(placing)}
    assert (alert in {one.alert for one in left}) is ("changes" in changed)


def test_another_namespace_and_prefix_are_used_throughout():
    made = alarms([POOL], Placing(prefix="team-a", namespace="Team A"))
    assert all(alarm.name.startswith("team-a/") for alarm in made)
    spoken = [one["MetricStat"]["Metric"]["Namespace"] for alarm in made for one in alarm.request.get("Metrics", ())
              if "MetricStat" in one]  # fmt: skip
    assert set(spoken) == {"Team A"}
    named = [name for alarm in made for name in re.findall(r'"([^"]+)"', alarm.request.get("AlarmRule", ""))]
    assert all(name.startswith("team-a/") for name in named)


def test_two_pools_of_one_cluster_share_its_alarms():
    other = Subject(Level.POOL, ("prod-east", "serving", "qwen"))
    both = alarms([POOL, other, POOL, CLUSTER], PLACING)
    names = [alarm.name for alarm in both]
    assert len(set(names)) == len(names)
    assert names.count("llm-fleet/LLMClusterSilent/prod-east") == 1
    assert len(alarms([CLUSTER], PLACING)) + 2 * (len(MADE) - len(alarms([CLUSTER], PLACING))) == len(both)


def test_every_metric_is_sent_unless_configured_otherwise():
    sent = {cloudwatch_name(name, level) for name in CLOUDWATCH_SIGNALS for level in (Level.POOL, Level.CLUSTER)}
    sent.add(cloudwatch_name("cloudwatch_writers", Level.EXPORTER))
    asked = [one["MetricStat"]["Metric"] for alarm in MADE for one in alarm.request.get("Metrics", ()) if "MetricStat" in one]
    assert {re.sub("_exact$", "", metric["MetricName"]) for metric in asked} <= sent
    assert {metric["Namespace"] for metric in asked} == {CLOUDWATCH_NAMESPACE}


def test_every_alert_has_an_alarm_or_a_reason():
    left = {one.alert for one in left_out(PLACING)}
    for title in ("/".join(words(rule)) for rule in alerts_of(GROUPS)):
        assert any(name.startswith(f"llm-fleet/{title}/") for name in BY_NAME) is (title not in left), title
    of_pools = {one.alert: one.reason for one in left_out(PLACING) if one.alert.startswith(("LLMPool", "LLMCluster"))}
    assert of_pools == {
        "LLMPoolPrefixHitDrop": "it needs PromQL",
        "LLMPoolVersionsDiffer": "it needs PromQL",
        "LLMClusterClockSkew": "it needs PromQL",
        **{f"LLMPool{word}BudgetBurn/3d": "it looks back 72 h; a period is a day at most"
           for word in ("TTFT", "ITL", "E2E", "Availability")},
    }  # fmt: skip


@pytest.mark.parametrize("subject", [
    lambda: Subject(Level.POOL, ("a", "b")), lambda: Subject(Level.POOL, ("a", "", "c")),
    lambda: Subject(Level.CLUSTER, ('a"b',)), lambda: Subject(Level.CLUSTER, ("a\nb",)),
    lambda: alarms([Subject(Level.POOL, ("c" * 120, "n" * 63, "p" * 63))], PLACING),
])  # fmt: skip
def test_what_cannot_be_the_name_of_an_alarm_is_refused(subject):
    with pytest.raises(ValueError, match=r"expected|cannot stand|at most 255"):
        subject()


def test_any_language_may_name_a_pool():
    made = alarms([Subject(Level.POOL, ("größe", "名前", "модель-70b"))], PLACING)
    assert not [found for alarm in made for found in complaints(alarm.kind.value, alarm.request)]


@pytest.mark.parametrize(("wrong", "reason"), [
    (Check(values=(Value(signal="saturation_ratio"),), comparison="==", limit=0), "no comparison"),
    (Check(values=(Value(signal="requests_swapped"),), comparison=">", limit=0), "not sent to CloudWatch"),
    (Check(values=(Value(signal="requests", how=How.INCREASE, window_seconds=60),),
           over=(Value(signal="requests", how=How.INCREASE, window_seconds=300),), comparison=">", limit=0), "different windows"),
    (Check(values=(Value(signal="requests", how=How.INCREASE, window_seconds=2 * 86_400),), comparison=">", limit=0),
     "a day at most"),
    (Check(values=(Value(signal="pods"), Value(signal="requests")), comparison=">", limit=0), "at most 10"),
])  # fmt: skip
def test_what_metric_math_cannot_say_is_refused(wrong, reason):
    with pytest.raises(CannotTell, match=reason):
        check(wrong, POOL, PLACING)


@pytest.mark.parametrize(("comparison", "limit", "harmless"), [(">", 5, 0), (">=", 0, -1), ("<", 0.5, 1.5), ("<=", 0, 1)])
def test_where_the_other_conditions_do_not_hold_nothing_breaches(comparison, limit, harmless):
    also = Check(values=(Value(signal="requests_waiting"),), comparison=">", limit=1)
    running = Value(signal="requests_running")
    made = check(Check(values=(running,), comparison=comparison, limit=limit, also=(also,)), POOL, PLACING)
    expression = made.metrics[0]["Expression"]
    assert evaluated(expression, {"m1": 7, "m2": 0}) == harmless
    assert evaluated(expression, {"m1": 7, "m2": 2}) == 7


def test_promql_alarms_read_raw_series_alone():
    for alarm in QUERIED:
        query = alarm.request["EvaluationCriteria"]["PromQLCriteria"]["Query"]
        selectors = [node for node in descend(promql_parser.parse(query)) if isinstance(node, promql_parser.VectorSelector)]
        assert selectors
        assert not [node.name for node in selectors if ":" in node.name or not node.name.startswith("llm_")]
        assert len(query) <= 10_000


@pytest.mark.parametrize("pool", ["=~chat-[0-9]{2}", '=~a"b{1,2}', "pool:x:y", "=~}.*{"])
def test_promql_alarms_take_any_selector(pool):
    made, left = promql_alarms(replace(PLACING, settings=replace(DEFAULTS, selector={"pool": pool})))
    assert {one.alert for one in left} == {one.alert for one in NOT_QUERIED}
    for alarm in made:
        query = alarm.request["EvaluationCriteria"]["PromQLCriteria"]["Query"]
        selectors = [node for node in descend(promql_parser.parse(query)) if isinstance(node, promql_parser.VectorSelector)]
        assert all(node.name.startswith("llm_") for node in selectors)


def test_promql_alarms_wait_as_the_rules_do():
    by_name = {alarm.name: alarm.request for alarm in QUERIED}
    saturated = by_name["llm-fleet/promql/LLMPoolSaturated"]
    assert saturated["EvaluationCriteria"]["PromQLCriteria"]["PendingPeriod"] == 120
    assert saturated["EvaluationCriteria"]["PromQLCriteria"]["RecoveryPeriod"] == 120
    assert saturated["EvaluationInterval"] in (20, 30)
    assert saturated["AlarmActions"] == [PAGE]
    assert by_name["llm-fleet/promql/LLMPoolTTFTBudgetBurn/3d"]["AlarmActions"] == [TICKET]


def test_every_alert_has_a_promql_alarm_or_a_reason():
    made = {alarm.name.removeprefix("llm-fleet/promql/") for alarm in QUERIED}
    left = {one.alert for one in NOT_QUERIED}
    every = {"/".join(words(rule)) for rule in alerts_of(GROUPS)}
    assert made | left == every
    assert not made & left
    assert not [one for one in left if one.startswith(("LLMPool", "LLMCluster"))]


def broken(alarm, change):
    request = copy.deepcopy(dict(alarm.request))
    change(request)
    return complaints(alarm.kind.value, request)


BURN = next(alarm for alarm in MADE if alarm.name.endswith("if 1h"))
COMPOSITE = next(alarm for alarm in MADE if "ActionsSuppressor" in alarm.request)
QUERY = QUERIED[0]
WRONG = {
    "name too long": (BURN, lambda r: r.update(AlarmName="x" * 256)),
    "control character": (BURN, lambda r: r.update(AlarmName="a\tb")),
    "unknown key": (BURN, lambda r: r.update(Nosuch=1)),
    "text too long": (BURN, lambda r: r.update(AlarmDescription="x" * 1025)),
    "no comparison": (BURN, lambda r: r.pop("ComparisonOperator")),
    "comparison": (BURN, lambda r: r.update(ComparisonOperator=">")),
    "missing data": (BURN, lambda r: r.update(TreatMissingData="bad")),
    "two ways": (BURN, lambda r: r.update(MetricName="x")),
    "odd period": (BURN, lambda r: r["Metrics"][1]["MetricStat"].update(Period=61)),
    "two periods": (BURN, lambda r: r["Metrics"][1]["MetricStat"].update(Period=120)),
    "too long a look": (BURN, lambda r: r.update(EvaluationPeriods=200, DatapointsToAlarm=1)),
    "more points than periods": (BURN, lambda r: r.update(DatapointsToAlarm=2)),
    "statistic": (BURN, lambda r: r["Metrics"][1]["MetricStat"].update(Stat="Mean")),
    "unit": (BURN, lambda r: r["Metrics"][1]["MetricStat"].update(Unit="Tokens")),
    "too many metrics": (BURN, lambda r: r["Metrics"].extend([{**r["Metrics"][1], "Id": f"x{at}"} for at in range(9)])),
    "nothing returned": (BURN, lambda r: r["Metrics"][0].update(ReturnData=False)),
    "two returned": (BURN, lambda r: r["Metrics"][1].update(ReturnData=True)),
    "unknown id": (BURN, lambda r: r["Metrics"][0].update(Expression="m1 + m9 + m2")),
    "function": (BURN, lambda r: r["Metrics"][0].update(Expression="SUM([m1, m2])")),
    "search": (BURN, lambda r: r["Metrics"][0].update(Expression="SEARCH('{A} b', 'Sum', 60) + m1 + m2")),
    "action": (COMPOSITE, lambda r: r.update(AlarmActions=["page"])),
    "six actions": (COMPOSITE, lambda r: r.update(AlarmActions=[f"{PAGE}{at}" for at in range(6)])),
    "rule": (COMPOSITE, lambda r: r.update(AlarmRule='ALARM("a") XOR ALARM("b")')),
    "too many children": (COMPOSITE, lambda r: r.update(AlarmRule=" OR ".join(f'ALARM("{at}")' for at in range(101)))),
    "waits for itself": (COMPOSITE, lambda r: r.update(AlarmRule=f'ALARM("{r["AlarmName"]}")')),
    "suppressor without wait": (COMPOSITE, lambda r: r.pop("ActionsSuppressorWaitPeriod")),
    "no query": (QUERY, lambda r: r["EvaluationCriteria"]["PromQLCriteria"].pop("Query")),
    "long query": (QUERY, lambda r: r["EvaluationCriteria"]["PromQLCriteria"].update(Query="x" * 10_001)),
    "long wait": (QUERY, lambda r: r["EvaluationCriteria"]["PromQLCriteria"].update(PendingPeriod=86_401)),
    "interval": (QUERY, lambda r: r.update(EvaluationInterval=15)),
    "threshold beside a query": (QUERY, lambda r: r.update(Threshold=1.0)),
    "missing data of a query": (QUERY, lambda r: r.update(TreatMissingData="breaching")),
}


@pytest.mark.parametrize(("alarm", "change"), WRONG.values(), ids=WRONG.keys())
def test_the_strict_reader_finds_what_is_wrong(alarm, change):
    assert broken(alarm, change)
    assert not broken(alarm, lambda request: None)


def test_promql_alarms_speak_of_the_pools_that_the_settings_choose():
    chosen, left = promql_alarms(
        replace(PLACING, settings=replace(DEFAULTS, selector={"cluster": "=~prod-.*", "pool": "!=test"}))
    )
    assert {one.alert for one in left} == {one.alert for one in NOT_QUERIED}
    for alarm in chosen:
        query = alarm.request["EvaluationCriteria"]["PromQLCriteria"]["Query"]
        assert 'cluster=~"prod-.*"' in query, alarm.name
        assert complaints(alarm.kind.value, alarm.request) == []


def test_a_record_that_carries_its_own_past_becomes_a_look_back():
    query = {alarm.name: alarm.request for alarm in QUERIED}["llm-fleet/promql/LLMPodMetricsStale"]
    text = query["EvaluationCriteria"]["PromQLCriteria"]["Query"]
    assert "last_over_time(llm_pod_last_sample_timestamp_seconds[1h])" in text
    assert ":known" not in text
