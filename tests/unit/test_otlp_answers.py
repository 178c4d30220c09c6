"""What answers mean by OTLP's specification: taken, refused in part, worth another try, or not."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from exporter.publish.otlp.answers import Taken, of_status, retry_after, taken
from exporter.publish.otlp.codes import of_error


def part(refused: int, word: str = "") -> bytes:
    return ExportMetricsServiceResponse(
        partial_success={"rejected_data_points": refused, "error_message": word}  # type: ignore[arg-type]
    ).SerializeToString()


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"", Taken()), (part(3, "too old"), Taken(3, "too old")), (part(0, "a hint"), Taken(0, "a hint")),
     (part(-5), Taken(0)), (b"<html>", Taken()), (b"\xff\xff", Taken())],
)  # fmt: skip
def test_a_request_that_was_taken(body: bytes, expected: Taken) -> None:
    assert taken(body) == expected


@pytest.mark.parametrize(
    ("status", "reason", "again"),
    [(302, "redirect", False), (400, "bad_request", False), (401, "unauthorized", False), (403, "forbidden", False),
     (404, "not_found", False), (408, "refused", False), (413, "too_large", False), (429, "throttled", True),
     (500, "server", False), (501, "server", False), (502, "unavailable", True), (503, "unavailable", True),
     (504, "timeout", True)],
)  # fmt: skip
def test_statuses(status: int, reason: str, again: bool) -> None:
    failure = of_status(status, {"retry-after": "7"}, b"")
    assert (failure.reason, failure.again, failure.after_seconds) == (reason, again, 7.0)


def test_the_servers_words_are_heard_and_cut_short() -> None:
    assert "full up" in str(of_status(400, {}, Status(message="full up").SerializeToString()))
    assert len(str(of_status(400, {}, b"x" * 100_000))) < 300


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0.0), ("120", 120.0), (" 3 ", 3.0), ("-1", 0.0), ("soon", 0.0), ("nan", 0.0), ("1e999", 0.0),
     ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0), ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
     ("Wed, 21 Oct 999999999999 07:28:00 GMT", 0.0)],
)  # fmt: skip
def test_retry_after(text: str, seconds: float) -> None:
    assert retry_after(text, now=1_800_000_000.0) == seconds


def details(seconds: int | None) -> list[tuple[str, str | bytes]]:
    packed = []
    if seconds is not None:
        one = Any()
        one.Pack(RetryInfo(retry_delay=Duration(seconds=seconds, nanos=500_000_000)))
        packed.append(one)
    return [("grpc-status-details-bin", Status(code=8, details=packed).SerializeToString())]


def test_a_full_server_is_asked_again_only_if_it_says_when() -> None:
    told = of_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", details(2))
    assert (told.reason, told.again, told.after_seconds) == ("throttled", True, 2.5)
    broken = Status(details=[Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")]).SerializeToString()
    for metadata in ([], details(None), *([("grpc-status-details-bin", raw)] for raw in (b"\xff", broken))):
        mute = of_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "message larger than max", metadata)
        assert (mute.reason, mute.again) == ("throttled", False)


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_codes_as_the_specification_lists_them(code: grpc.StatusCode) -> None:
    again = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
    assert of_error(code, "", []).again is (code.name in again)
