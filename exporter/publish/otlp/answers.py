"""What an answer over HTTP means: taken, points refused, or a failure that is worth another try or not. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from exporter.publish.outbox import Unsent

AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which OTLP lets a client try again; after any other it must not."""

_STATUS_REASONS = {
    400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 413: "too_large", 429: "throttled",
    502: "unavailable", 503: "unavailable", 504: "timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """A request was taken. `refused`: points of it that were not, which must not be sent again; `word`: what was said."""

    refused: int = 0
    word: str = ""


def taken(body: bytes) -> Taken:
    """The answer to a request that was taken, whole or in part; what cannot be read says nothing was refused."""
    answer = ExportMetricsServiceResponse()
    try:
        answer.ParseFromString(body)
    except DecodeError:
        return Taken()
    return of_message(answer)


def of_message(answer: ExportMetricsServiceResponse) -> Taken:
    part = answer.partial_success
    return Taken(max(part.rejected_data_points, 0), part.error_message)


def of_status(status: int, headers: Mapping[str, str], body: bytes) -> Unsent:
    """Failure from an HTTP status other than 2xx. Headers know no case."""
    reason = "redirect" if 300 <= status < 400 else _STATUS_REASONS.get(status, "server" if status >= 500 else "refused")
    said = _message(body) or f"status {status}"
    return Unsent(reason, said, again=status in AGAIN, after_seconds=retry_after(headers.get("retry-after", "")))


def _message(body: bytes) -> str:
    """The message of a google.rpc.Status, which OTLP asks for; printable text, cut short."""
    try:
        text = Status.FromString(body).message
    except DecodeError:
        text = ""
    return (text or (body.decode("utf-8", "replace") if body[:1].isascii() else ""))[:200]


def retry_after(text: str, *, now: float | None = None) -> float:
    """Seconds that a Retry-After header asks for, as a number or a date; 0 without a readable one."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - (time.time() if now is None else now), 0.0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
