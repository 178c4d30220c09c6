"""What a gRPC status means: worth another try or not, and when. Pure; apart because gRPC is much to load."""

from collections.abc import Iterable

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from exporter.publish.outbox import Unsent

_CODES = {
    grpc.StatusCode.CANCELLED: ("connection_lost", True),
    grpc.StatusCode.DEADLINE_EXCEEDED: ("timeout", True),
    grpc.StatusCode.ABORTED: ("unavailable", True),
    grpc.StatusCode.OUT_OF_RANGE: ("unavailable", True),
    grpc.StatusCode.UNAVAILABLE: ("unavailable", True),
    grpc.StatusCode.DATA_LOSS: ("unavailable", True),
    grpc.StatusCode.UNAUTHENTICATED: ("unauthorized", False),
    grpc.StatusCode.PERMISSION_DENIED: ("forbidden", False),
    grpc.StatusCode.UNIMPLEMENTED: ("not_found", False),
    grpc.StatusCode.INVALID_ARGUMENT: ("bad_request", False),
}
_DETAILS = "grpc-status-details-bin"


def of_error(code: grpc.StatusCode, detail: str, metadata: Iterable[tuple[str, str | bytes]]) -> Unsent:
    """Failure from a gRPC status. A server that is full may be asked again only if it says when."""
    wait = retry_info(metadata)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Unsent("throttled", detail[:200], again=wait is not None, after_seconds=wait or 0.0)
    reason, again = _CODES.get(code, ("server", False))
    return Unsent(reason, f"{code.name}: {detail[:200]}", again=again, after_seconds=wait or 0.0)


def retry_info(metadata: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Seconds of the RetryInfo among a status' details; None without one."""
    for key, value in metadata:
        if key == _DETAILS and isinstance(value, bytes):
            try:
                for detail in Status.FromString(value).details:
                    told = RetryInfo()
                    if detail.Unpack(told):
                        return max(float(told.retry_delay.seconds) + float(told.retry_delay.nanos) / 1e9, 0.0)
            except DecodeError:
                return None
    return None
