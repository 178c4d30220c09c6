"""OTLP back ends on loopback that fail on purpose: HTTP on the standard library's server, gRPC on OpenTelemetry's own stubs."""

import gzip
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse

from tests.net.pki import server_context
from tests.otlp_reader import metrics_of

PATIENCE_SECONDS = 10.0
PROTOCOLS = ("http/protobuf", "grpc")


@dataclass(frozen=True, slots=True)
class Fault:
    """One answer: `status` by a name for both protocols, `wait` for Retry-After or RetryInfo; a `slow` one takes nothing."""

    status: str = "ok"
    wait: int | None = None
    refused: int = 0
    slow: bool = False
    hang_up: bool = False


OK = Fault()
HTTP_STATUS = {"ok": 200, "unauthorized": 401, "forbidden": 403, "throttled": 429, "server": 500, "unavailable": 503}
GRPC_CODE = {
    "unauthorized": grpc.StatusCode.UNAUTHENTICATED, "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "throttled": grpc.StatusCode.RESOURCE_EXHAUSTED, "server": grpc.StatusCode.INTERNAL,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
}  # fmt: skip


@dataclass(slots=True)
class BackEnd:
    """Answers each request with what was planned for it, the last for ever; keeps those that it took, with their headers."""

    plan: list[Fault]
    url: str = ""
    attempts: int = 0
    taken: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    released: threading.Event = field(default_factory=threading.Event)

    def fault(self) -> Fault:
        with self.changed:
            fault = self.plan[min(self.attempts, len(self.plan) - 1)]
            self.attempts += 1
            self.changed.notify_all()
        if fault.slow:
            self.released.wait(PATIENCE_SECONDS)
        return fault

    def take(self, request: ExportMetricsServiceRequest, headers: dict[str, str]) -> None:
        with self.changed:
            self.taken.append(request)
            self.headers.append(headers)
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_SECONDS)

    @property
    def points(self) -> int:
        return sum(
            len(getattr(metric, metric.WhichOneof("data")).data_points) for one in self.taken for metric in metrics_of(one)
        )


UNPACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}


def answer_of(fault: Fault) -> ExportMetricsServiceResponse:
    answer = ExportMetricsServiceResponse()
    if fault.refused:
        answer.partial_success.rejected_data_points = fault.refused
        answer.partial_success.error_message = "too old"
    return answer


@contextmanager
def http_back_end(*plan: Fault, tls: tuple[Path, Path] | None = None) -> Iterator[BackEnd]:
    back_end = BackEnd(list(plan) or [OK])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault = back_end.fault()
            if fault.hang_up:
                self.connection.shutdown(socket.SHUT_WR)
                self.close_connection = True
                return
            if fault.status == "ok" and not fault.slow:
                unpack = UNPACK[self.headers.get("Content-Encoding", "")]
                back_end.bodies.append(body)
                headers = {name.lower(): value for name, value in self.headers.items()} | {":path": self.path}
                back_end.take(ExportMetricsServiceRequest.FromString(unpack(body)), headers)
            said = answer_of(fault).SerializeToString()
            try:
                self.send_response(HTTP_STATUS[fault.status])
                self.send_header("Content-Length", str(len(said)))
                if fault.wait is not None:
                    self.send_header("Retry-After", str(fault.wait))
                self.end_headers()
                self.wfile.write(said)
            except OSError:
                pass  # the other side went before we were done

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    if tls:
        server.socket = server_context(*tls).wrap_socket(server.socket, server_side=True)
    back_end.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield back_end
    finally:
        back_end.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Service(service.MetricsServiceServicer):
    def __init__(self, back_end: BackEnd) -> None:
        self._back_end = back_end

    def Export(self, request: Any, context: Any) -> Any:
        fault = self._back_end.fault()
        if fault.status != "ok":
            if fault.wait is not None:
                detail = AnyMessage()
                detail.Pack(RetryInfo(retry_delay=Duration(seconds=fault.wait)))
                packed = Status(code=GRPC_CODE[fault.status].value[0], details=[detail]).SerializeToString()
                context.set_trailing_metadata((("grpc-status-details-bin", packed),))
            context.abort(GRPC_CODE[fault.status], "told to fail")
        if not fault.slow:
            self._back_end.take(request, dict(context.invocation_metadata()))
        return answer_of(fault)


@contextmanager
def grpc_back_end(*plan: Fault, tls: tuple[Path, Path] | None = None) -> Iterator[BackEnd]:
    back_end = BackEnd(list(plan) or [OK])
    server = grpc.server(futures.ThreadPoolExecutor(4))
    service.add_MetricsServiceServicer_to_server(_Service(back_end), server)
    if tls:
        certificate, key = (path.read_bytes() for path in tls)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    back_end.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    server.start()
    try:
        yield back_end
    finally:
        back_end.released.set()
        server.stop(None).wait()


def back_end_for(protocol: str, *plan: Fault, tls: tuple[Path, Path] | None = None) -> Any:
    return http_back_end(*plan, tls=tls) if protocol == "http/protobuf" else grpc_back_end(*plan, tls=tls)


@contextmanager
def black_hole() -> Iterator[str]:
    """Takes connections and never says a word."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(64)
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


@contextmanager
def half_closed() -> Iterator[str]:
    """Takes a connection, reads what comes first and closes its own side without an answer."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(64)
        door.settimeout(0.05)
        ending = threading.Event()

        def meet() -> None:
            kept = []
            while not ending.is_set():
                try:
                    guest, _ = door.accept()
                except TimeoutError:
                    continue
                guest.settimeout(1)
                kept.append(guest)
                try:
                    guest.recv(65536)
                    guest.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
            for guest in kept:
                guest.close()

        thread = threading.Thread(target=meet)
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            ending.set()
            thread.join()


@contextmanager
def dripping(head: bytes, piece: bytes, *, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Answers each connection with a beginning, then a byte now and then for ever: each single read is quick."""
    ending = threading.Event()

    def drip(guest: socket.socket) -> None:
        try:
            with server_context(*tls).wrap_socket(guest, server_side=True) if tls else guest as own:
                own.recv(65536)
                own.sendall(head)
                while not ending.wait(0.02):
                    own.sendall(piece)
        except OSError:
            pass  # the other side went, as it should

    def meet() -> None:
        while not ending.is_set():
            try:
                guest, _ = door.accept()
            except TimeoutError:
                continue
            threads.append(threading.Thread(target=drip, args=(guest,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0.05)
        threads = [threading.Thread(target=meet)]
        threads[0].start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{door.getsockname()[1]}"
        finally:
            ending.set()
            for thread in threads:
                thread.join()
