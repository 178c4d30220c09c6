"""What CloudWatch takes, in one place, and what is wrong with a datum that it would refuse.

Source: PutMetricData and MetricDatum in the CloudWatch API reference; the service refuses a whole request for one bad datum.
"""

import math
import re
from enum import StrEnum

from exporter.publish.cloudwatch.data import Datum, numbers

MOST_DATA = 1000
MOST_DIMENSIONS = 30
MOST_VALUES = 150
LONGEST_NAME = 255
LONGEST_DIMENSION_NAME = 255
LONGEST_DIMENSION_VALUE = 1024
LARGEST = 2.0**360
SMALLEST = 2.0**-360
OLDEST_SECONDS = 14 * 86400.0
NEWEST_SECONDS = 2 * 3600.0

MOST_BYTES = 100_000
"""Of a request before it is packed. CloudWatch takes 1 MB, but writing so much at once would hold up the loop."""

UNITS = frozenset({"Seconds", "Bytes", "Count", "Percent", "None"})
"""Those of the closed list that are used."""

_ASCII = re.compile(r"[\x20-\x7e]+")


class Reason(StrEnum):
    """Why a data point was left out or refused."""

    NOT_FINITE = "not_finite"
    OUT_OF_RANGE = "out_of_range"
    NAME = "name"
    UNIT = "unit"
    DIMENSION = "dimension"
    TOO_MANY_DIMENSIONS = "too_many_dimensions"
    TOO_MANY_VALUES = "too_many_values"
    TIMESTAMP = "timestamp"
    POD_CAP = "pod_cap"
    METRIC_CAP = "metric_cap"
    REFUSED = "refused"


def fault(datum: Datum) -> Reason | None:
    """Why the service would refuse a datum; None when it would take it."""
    if not 0 < len(datum.name) <= LONGEST_NAME or not _ASCII.fullmatch(datum.name):
        return Reason.NAME
    if datum.unit not in UNITS:
        return Reason.UNIT
    if len(datum.dimensions) > MOST_DIMENSIONS:
        return Reason.TOO_MANY_DIMENSIONS
    if not all(_dimension(name, value) for name, value in datum.dimensions):
        return Reason.DIMENSION
    found = numbers(datum.value)
    if len(found) > 2 * MOST_VALUES:
        return Reason.TOO_MANY_VALUES
    if not all(map(math.isfinite, found)):
        return Reason.NOT_FINITE
    return None if all(_in_range(number) for number in found) else Reason.OUT_OF_RANGE


def timely(start: float, now: float) -> bool:
    """Whether a window of that beginning is taken now; a minute is left for the way."""
    return now - OLDEST_SECONDS + 60.0 <= start <= now + NEWEST_SECONDS - 60.0


def _dimension(name: str, value: str) -> bool:
    if not 0 < len(name) <= LONGEST_DIMENSION_NAME or name.startswith(":") or not _ASCII.fullmatch(name):
        return False
    # The service wants a character that is no blank in a value.
    return len(value) <= LONGEST_DIMENSION_VALUE and bool(_ASCII.fullmatch(value)) and not value.isspace()


def _in_range(number: float) -> bool:
    return number == 0 or SMALLEST <= abs(number) <= LARGEST
