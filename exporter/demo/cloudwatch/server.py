"""The stand-in on a loopback port, in threads of its own: PutMetricData, GetMetricData, ListMetrics in the JSON protocol.

with serving() as cloudwatch:
    boto3.client("cloudwatch", endpoint_url=cloudwatch.url, ...)
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from exporter.demo.cloudwatch.rules import Refusal, check_request
from exporter.demo.cloudwatch.store import Store, key_of


@dataclass(frozen=True, slots=True)
class Received:
    """One PutMetricData request that was taken."""

    namespace: str
    data: list[dict[str, Any]]
    size: int
    packed: bool


@dataclass(slots=True)
class StandIn:
    """What answers at `url`; `told` is called with each request that was taken."""

    url: str = ""
    store: Store = field(default_factory=Store)
    requests: list[Received] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    told: Callable[[Received], None] = lambda _: None
    wall: Callable[[], float] = time.time
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, action: str, raw: bytes, *, packed: bool) -> Mapping[str, Any]:
        """The answer to one request; Refusal where there is none."""
        body = json.loads(gzip.decompress(raw) if packed else raw)
        with self.lock:
            match action:
                case "PutMetricData":
                    return self._put(body, size=len(json.dumps(body)), packed=packed)
                case "GetMetricData":
                    return {"MetricDataResults": [self._get(query, body) for query in body["MetricDataQueries"]]}
                case "ListMetrics":
                    return {"Metrics": list(self._list(body))}
        raise Refusal("InvalidAction", f"{action} is not known here")

    def _put(self, body: dict[str, Any], *, size: int, packed: bool) -> Mapping[str, Any]:
        now = self.wall()
        try:
            check_request(body, size=size, now=now)
        except Refusal as refusal:
            self.refusals.append(refusal)
            raise
        self.store.put(body["Namespace"], body["MetricData"], now)
        received = Received(body["Namespace"], body["MetricData"], size, packed)
        self.requests.append(received)
        self.told(received)
        return {}

    def _get(self, query: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = query["MetricStat"]
        key = key_of(asked["Metric"]["Namespace"], asked["Metric"])
        found = self.store.periods(key, start=body["StartTime"], end=body["EndTime"], period=asked["Period"])
        points = [(at, value) for at, one in found if (value := one.statistic(asked["Stat"])) is not None]
        if body.get("ScanBy") != "TimestampAscending":
            points.reverse()
        return {"Id": query["Id"], "Label": asked["Metric"]["MetricName"], "StatusCode": "Complete",
                "Timestamps": [at for at, _ in points], "Values": [value for _, value in points]}  # fmt: skip

    def _list(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for namespace, name, dimensions in sorted(self.store.bins):
            if body.get("Namespace", namespace) == namespace and body.get("MetricName", name) == name:
                yield {"Namespace": namespace, "MetricName": name,
                       "Dimensions": [{"Name": one, "Value": value} for one, value in dimensions]}  # fmt: skip


@contextmanager
def serving(stand_in: StandIn | None = None, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[StandIn]:
    """Serve until the block ends."""
    stand_in = stand_in or StandIn()
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    with ThreadingHTTPServer((host, port), handler) as server:
        server.daemon_threads = True
        stand_in.url = f"http://{host}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield stand_in
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if not self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
                raise Refusal("MissingAuthenticationToken", "the request is not signed", 403)
            action = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            packed = self.headers.get("Content-Encoding") == "gzip"
            self._answer(200, self.stand_in.answer(action, raw, packed=packed), {})
        except Refusal as refusal:
            error = {"__type": f"com.amazonaws.cloudwatch#{refusal.code}", "message": refusal.message}
            self._answer(refusal.status, error, {"x-amzn-query-error": f"{refusal.code};Sender"})

    def _answer(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        written = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(written)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who wants to know is told."""
