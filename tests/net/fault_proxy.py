"""An HTTP proxy before one server that spoils requests as planned: refuses, delays, or takes them and loses the answer."""

import http.client
import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["pass", "throttle", "unavailable", "slow", "lost", "reset", "expired", "denied", "garbage"]
_ERRORS = {
    "throttle": (400, "Throttling", "Rate exceeded"),
    "unavailable": (503, "ServiceUnavailable", "busy"),
    "expired": (403, "ExpiredToken", "The security token included in the request is expired"),
    "denied": (403, "AccessDenied", "not authorized to perform: cloudwatch:PutMetricData"),
}


@dataclass(slots=True)
class Proxy:
    """What happened to each request, in order; beyond the plan every request passes."""

    url: str = ""
    plan: deque[Fault] = field(default_factory=deque)
    seen: list[Fault] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    slow_seconds: float = 0.2


@contextmanager
def spoiling(upstream: str, *plan: Fault) -> Iterator[Proxy]:
    proxy = Proxy(plan=deque(plan))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault = proxy.plan.popleft() if proxy.plan else "pass"
            proxy.seen.append(fault)
            if fault == "reset":
                self.cut()
            elif fault in _ERRORS:
                status, code, message = _ERRORS[fault]
                written = json.dumps({"__type": code, "message": message}).encode()
                self.answer(status, written, {"x-amzn-query-error": f"{code};Sender"})
            else:
                status, written = self.forward(body)
                if fault == "slow":
                    proxy.held.wait(proxy.slow_seconds)
                if fault == "lost":
                    self.cut()
                else:
                    self.answer(status, b"<html>" if fault == "garbage" else written, {})

        def forward(self, body: bytes) -> tuple[int, bytes]:
            where = urlsplit(upstream)
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            connection.request("POST", self.path, body, headers)
            answer = connection.getresponse()
            written = answer.read()
            connection.close()
            return answer.status, written

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/x-amz-json-1.0",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def cut(self) -> None:
            """The connection ends without an answer."""
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _threads(Handler) as proxy.url:
        try:
            yield proxy
        finally:
            proxy.held.set()


@contextmanager
def responding(status: int) -> Iterator[str]:
    """A server that answers everything with a status and a page for people."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _threads(Handler) as url:
        yield url


@contextmanager
def _threads(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
