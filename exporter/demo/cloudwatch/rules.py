"""What CloudWatch refuses, written from its API reference alone: one bad datum refuses the whole request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MEGABYTE = 1_000_000
WEEK = 7 * 86400.0
_SCALES = ("", "Kilo", "Mega", "Giga", "Tera")
_SIZES = [f"{scale}{kind}" for kind in ("bytes", "bits") for scale in _SCALES[1:]] + ["Bytes", "Bits"]
UNITS = {"Seconds", "Microseconds", "Milliseconds", "Percent", "Count", "Count/Second", "None", *_SIZES,
         *(f"{size}/Second" for size in _SIZES)}  # fmt: skip
_STATISTICS = ("SampleCount", "Sum", "Minimum", "Maximum")


class Refusal(Exception):
    """A request that is not taken."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def check_request(body: Mapping[str, Any], *, size: int, now: float) -> None:
    """Raise Refusal for a PutMetricData request that the service would not take."""
    if size > MEGABYTE:
        raise Refusal("RequestEntityTooLarge", f"{size} bytes", 413)
    _text("Namespace", body.get("Namespace"), 255)
    if body["Namespace"].startswith(("AWS/", ":")):
        raise Refusal("InvalidParameterValue", "Namespace must not begin with AWS/ or a colon")
    data = body.get("MetricData") or []
    if not 1 <= len(data) <= 1000:
        raise Refusal("InvalidParameterValue", f"MetricData has {len(data)} members, 1 to 1000 are taken")
    for index, datum in enumerate(data):
        _check_datum(f"MetricData.member.{index + 1}", datum, now)


def _check_datum(where: str, datum: Mapping[str, Any], now: float) -> None:
    _text(f"{where}.MetricName", datum.get("MetricName"), 255)
    dimensions = datum.get("Dimensions") or []
    if len(dimensions) > 30:
        raise Refusal("InvalidParameterValue", f"{where} has {len(dimensions)} dimensions, 30 are taken")
    names = [dimension.get("Name") for dimension in dimensions]
    if len(set(names)) != len(names):
        raise Refusal("InvalidParameterValue", f"{where} names a dimension twice")
    for dimension in dimensions:
        _text(f"{where}.Dimensions.Name", dimension.get("Name"), 255)
        _text(f"{where}.Dimensions.Value", dimension.get("Value"), 1024)
        if dimension["Name"].startswith(":"):
            raise Refusal("InvalidParameterValue", f"{where}: a dimension's name begins with a colon")
    if datum.get("Unit", "None") not in UNITS:
        raise Refusal("InvalidParameterValue", f"{where}.Unit: {datum['Unit']!r} is no unit")
    if datum.get("StorageResolution", 60) not in (1, 60):
        raise Refusal("InvalidParameterValue", f"{where}.StorageResolution must be 1 or 60")
    at = datum.get("Timestamp", now)
    if not now - 2 * WEEK <= at <= now + 7200:
        raise Refusal("InvalidParameterValue", f"{where}.Timestamp is {now - at:g} s from now")
    _check_value(where, datum)


def _check_value(where: str, datum: Mapping[str, Any]) -> None:
    given = [key for key in ("Value", "Values", "StatisticValues") if key in datum]
    if len(given) != 1 or ("Counts" in datum and given != ["Values"]):
        raise Refusal("InvalidParameterCombination", f"{where} must have one of Value, Values and StatisticValues")
    if given == ["Value"]:
        _number(where, datum["Value"])
    elif given == ["Values"]:
        _check_values(where, datum["Values"], datum.get("Counts"))
    else:
        _check_statistics(where, datum["StatisticValues"])


def _check_values(where: str, values: list[float], counts: list[float] | None) -> None:
    if not 1 <= len(values) <= 150 or len(set(values)) != len(values):
        raise Refusal("InvalidParameterValue", f"{where}.Values has {len(values)} members, 1 to 150 different ones are taken")
    if counts is not None and len(counts) != len(values):
        raise Refusal("InvalidParameterValue", f"{where}: Values and Counts have different lengths")
    for value in values:
        _number(where, value)
    if any(not _finite(count) or count <= 0 for count in counts or ()):
        raise Refusal("InvalidParameterValue", f"{where}.Counts must be above zero")


def _check_statistics(where: str, seen: Mapping[str, float]) -> None:
    if any(name not in seen for name in _STATISTICS):
        raise Refusal("MissingParameter", f"{where}.StatisticValues is not whole")
    for name in _STATISTICS:
        _number(where, seen[name])
    if seen["SampleCount"] <= 0 or seen["Minimum"] > seen["Maximum"]:
        raise Refusal("InvalidParameterValue", f"{where}.StatisticValues contradicts itself")


def _number(where: str, value: Any) -> None:
    if not _finite(value):
        raise Refusal("InvalidParameterValue", f"{where}: {value!r} is no finite number")
    if abs(value) > 2.0**360 or 0 < abs(value) < 2.0**-360:
        raise Refusal("InvalidParameterValue", f"{where}: {value!r} is out of range")


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(where: str, value: Any, longest: int) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= longest or not value.strip():
        raise Refusal("InvalidParameterValue", f"{where} must be 1 to {longest} characters")
    if not value.isascii() or not value.isprintable():
        raise Refusal("InvalidParameterValue", f"{where} must be printable ASCII")
