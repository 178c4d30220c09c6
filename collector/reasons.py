"""Closed lists of reasons: each failure, left-out thing and discarded increase ends in one of them."""

from enum import StrEnum


class FailureReason(StrEnum):
    """Why an attempt to read a target failed."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    DNS = "dns"
    TLS = "tls"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    HTTP_STATUS = "http_status"
    REDIRECT = "redirect"
    NOT_METRICS = "not_metrics"
    NO_KNOWN_FAMILIES = "no_known_families"
    MALFORMED = "malformed"
    BODY_TOO_LARGE = "body_too_large"
    CONNECTION_LOST = "connection_lost"
    OTHER = "other"


class Oddity(StrEnum):
    """What was left out of a page that is otherwise good."""

    BAD_LINE = "bad_line"
    NOT_FINITE = "not_finite"
    NEGATIVE_COUNT = "negative_count"
    OUT_OF_RANGE = "out_of_range"
    BROKEN_HISTOGRAM = "broken_histogram"


class DiscardReason(StrEnum):
    """Why an increase of an engine's counter was seen and not published."""

    FIRST_SAMPLE = "first_sample"
    GAP = "gap"
    UNSTABLE = "unstable"
    LADDER_CAP = "ladder_cap"


DETAIL_AT_MOST = 300


class ReadError(Exception):
    """An attempt that failed: carries the reason and one line that says what was found.

    The line may quote what a target sent, so it is cut short and holds nothing that a terminal would act on.
    """

    def __init__(self, reason: FailureReason, detail: str) -> None:
        line = "".join(char if char.isprintable() else "?" for char in " ".join(detail.split()))
        self.reason = reason
        self.detail = line if len(line) <= DETAIL_AT_MOST else line[: DETAIL_AT_MOST - 3] + "..."
        super().__init__(f"{reason}: {self.detail}")
