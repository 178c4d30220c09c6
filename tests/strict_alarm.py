"""A strict reader of alarm requests: what AWS would refuse, and what it would take and never evaluate as meant.

The service model of the SDK checks types and lengths. Beyond it stand the rules of the API reference of PutMetricAlarm,
PutCompositeAlarm and MetricDataQuery, and of "Limits that apply to alarms based on metric math expressions".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

MODEL = botocore.session.get_session().get_service_model("cloudwatch")
MOST_METRICS, MOST_EXPRESSIONS = 10, 10
LONGEST_RULE, MOST_CHILDREN, MOST_ELEMENTS = 10_240, 100, 500
LONGEST_SHORT_SECONDS, LONGEST_SECONDS = 86_400, 604_800

_STATISTIC = re.compile(r"Average|Sum|Minimum|Maximum|SampleCount|IQM|(p|tm|tc|ts|wm)\d{1,2}(\.\d{1,10})?|PR\([\d.]+:[\d.]+\)")
# Of a single series these are numbers over a range that CloudWatch widens as it likes; it advises against them in alarms.
_UNSAFE = re.compile(r"\b(AVG|MIN|MAX|SUM|STDDEV|DATAPOINT_COUNT|RUNNING_SUM|REMOVE_EMPTY|FILL|RATE|SEARCH)\(")
_COMPARISONS = {"GreaterThanOrEqualToThreshold", "GreaterThanThreshold", "LessThanThreshold", "LessThanOrEqualToThreshold"}
_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d{12}:.+")
_CLASSIC = {"Namespace", "MetricName", "Dimensions", "Period", "Unit", "Statistic", "ExtendedStatistic", "Metrics", "Threshold",
            "ComparisonOperator", "ThresholdMetricId", "EvaluationPeriods", "DatapointsToAlarm"}  # fmt: skip

Complaints = Iterator[str]


def complaints(operation: str, request: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with a request; empty when it is good."""
    shape = MODEL.operation_model(operation).input_shape
    unknown = [f"unknown {key}" for key in request if key not in shape.members]
    report = ParamValidator().validate(dict(request), shape)
    found = [*unknown, *([report.generate_report()] if report.has_errors() else []), *_enums(request, shape)]
    return found + list(_common(request)) + list(_metric(request) if operation == "PutMetricAlarm" else _composite(request))


def evaluated(expression: str, values: Mapping[str, float]) -> float:
    """CloudWatch's metric math at one moment, for what our expressions use: arithmetic, comparison, AND, IF."""
    python = re.sub(r"\bAND\b", "and", expression)
    names = {"IF": lambda only, then, other: then if only else other, **values}
    return float(eval(python, {"__builtins__": {}}, names))


def _enums(value: Any, shape: Any) -> Complaints:
    """What the SDK leaves to the service: values of closed lists, and longest lengths."""
    if shape.type_name == "structure":
        for key, item in value.items():
            if key in shape.members:
                yield from _enums(item, shape.members[key])
    elif shape.type_name == "list":
        if len(value) > shape.metadata.get("max", len(value)):
            yield f"{shape.name}: {len(value)} of at most {shape.metadata['max']}"
        for item in value:
            yield from _enums(item, shape.member)
    elif shape.type_name == "string":
        if shape.enum and value not in shape.enum:
            yield f"{value!r} is not in {shape.name}"
        if len(value) > shape.metadata.get("max", len(value)):
            yield f"{shape.name}: {len(value)} characters of at most {shape.metadata['max']}"
    elif shape.type_name == "integer" and value > shape.metadata.get("max", value):
        yield f"{shape.name}: {value} of at most {shape.metadata['max']}"


def _common(request: Mapping[str, Any]) -> Complaints:
    if re.search(r"[\x00-\x1f\x7f]", request.get("AlarmName", "")):
        yield "a control character in the name"
    for key in ("AlarmActions", "OKActions", "InsufficientDataActions"):
        yield from (f"{action} is no ARN" for action in request.get(key, ()) if not _ARN.fullmatch(action))
    if len(request.get("Tags", ())) > 50:
        yield "more than 50 tags"
    if any(tag["Key"].startswith("aws:") for tag in request.get("Tags", ())):
        yield "a tag of AWS"


def _metric(request: Mapping[str, Any]) -> Complaints:
    ways = [key for key in ("MetricName", "Metrics", "EvaluationCriteria") if key in request]
    if len(ways) != 1:
        yield f"wants one of MetricName, Metrics, EvaluationCriteria; has {ways}"
    elif ways == ["EvaluationCriteria"]:
        yield from _promql(request)
    else:
        yield from _classic(request)


def _promql(request: Mapping[str, Any]) -> Complaints:
    if extra := _CLASSIC & set(request):
        yield f"{extra} beside EvaluationCriteria"
    if "TreatMissingData" in request:
        yield "TreatMissingData does not apply to PromQL"
    if not _interval(request.get("EvaluationInterval", 0)):
        yield f"EvaluationInterval {request.get('EvaluationInterval')}"


def _classic(request: Mapping[str, Any]) -> Complaints:
    for key in ("ComparisonOperator", "Threshold", "EvaluationPeriods"):
        if key not in request:
            yield f"lacks {key}"
    if request.get("ComparisonOperator") not in _COMPARISONS:
        yield f"comparison {request.get('ComparisonOperator')}"
    if request.get("TreatMissingData", "missing") not in ("breaching", "notBreaching", "ignore", "missing"):
        yield f"TreatMissingData {request['TreatMissingData']}"
    periods = request.get("EvaluationPeriods", 1)
    if not 1 <= request.get("DatapointsToAlarm", periods) <= periods:
        yield "more data points than periods"
    if "EvaluationInterval" in request:
        yield "EvaluationInterval without PromQL"
    yield from _metrics(request.get("Metrics", []), periods)


def _metrics(metrics: list[dict[str, Any]], periods: int) -> Complaints:
    stats = [one for one in metrics if "MetricStat" in one]
    expressions = [one for one in metrics if "Expression" in one]
    if len(stats) > MOST_METRICS or len(expressions) > MOST_EXPRESSIONS:
        yield f"{len(stats)} metrics and {len(expressions)} expressions, at most {MOST_METRICS} each"
    if len(stats) + len(expressions) != len(metrics):
        yield "neither metric nor expression, or both"
    if [one.get("ReturnData") for one in metrics].count(True) != 1 or any("ReturnData" not in one for one in metrics):
        yield "one of them has to be returned, and each has to say"
    ids = [one["Id"] for one in metrics]
    if len(set(ids)) != len(ids) or not all(re.fullmatch("[a-z][A-Za-z0-9_]*", one) for one in ids):
        yield f"ids {ids}"
    seconds = {one["MetricStat"]["Period"] for one in stats}
    if len(seconds) != 1:
        yield f"periods {seconds}"
    for period in seconds:
        if not _interval(period) or period > LONGEST_SHORT_SECONDS:
            yield f"period {period}"
        if period * periods > (LONGEST_SECONDS if period >= 3600 else LONGEST_SHORT_SECONDS):
            yield f"{periods} periods of {period} s are too long"
    for one in stats:
        if not _STATISTIC.fullmatch(one["MetricStat"]["Stat"]):
            yield f"statistic {one['MetricStat']['Stat']}"
    for one in expressions:
        read = set(re.findall(r"\b[a-z]\w*", one["Expression"]))
        if read - set(ids) or not read:
            yield f"{one['Expression']} reads {read - set(ids)}"
        if _UNSAFE.search(one["Expression"]):
            yield f"{one['Expression']} is not for alarms"
    if unread := set(ids) - {"e1"} - set(re.findall(r"\bm\d+", " ".join(one["Expression"] for one in expressions))):
        yield f"{unread} is asked for and not read"


def _composite(request: Mapping[str, Any]) -> Complaints:
    rule = request.get("AlarmRule", "")
    children = set(re.findall(r'ALARM\("([^"]+)"\)', rule))
    rest = re.sub(r'ALARM\("[^"]+"\)|\b(AND|OR|NOT|TRUE|FALSE)\b|[()\s]', "", rule)
    if rest or not rule:
        yield f"a rule that cannot be read: {rule}"
    if len(children) > MOST_CHILDREN or len(rule) > LONGEST_RULE or rule.count("(") + len(children) > MOST_ELEMENTS:
        yield f"a rule of {len(children)} alarms and {len(rule)} characters"
    if request.get("AlarmName") in children:
        yield "it waits for itself"
    given = {key in request for key in ("ActionsSuppressor", "ActionsSuppressorWaitPeriod", "ActionsSuppressorExtensionPeriod")}
    if len(given) > 1:
        yield "a suppressor wants both periods, and they want it"


def _interval(seconds: int) -> bool:
    return seconds in (10, 20, 30) or (seconds >= 60 and seconds % 60 == 0)
