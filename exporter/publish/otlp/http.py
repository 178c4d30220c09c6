"""OTLP over HTTP: the SDK's exporter on a requests session of ours, which gives each request one attempt and hears the answer."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import MeterProvider
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from requests import PreparedRequest, Response
from requests.auth import AuthBase

from exporter.publish.otlp.answers import Taken, of_status, taken
from exporter.publish.otlp.deadline import Cuttable
from exporter.publish.otlp.headers import HeaderFiles
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Unsent

MOST_ANSWER_BYTES = 64 << 10


class OneTry(requests.Session):
    """Sends each request once and keeps what was said, which the SDK's exporter would not.

    `steps` finish a request: headers, a signature. A failure is raised as Unsent, which the exporter takes for final, and kept
    in `failure`.
    """

    def __init__(self, steps: Sequence[Callable[[PreparedRequest], None]], *, timeout_seconds: float) -> None:
        super().__init__()
        self.auth = _Untouched()
        self._adapter = Cuttable()
        for scheme in ("http://", "https://"):
            self.mount(scheme, self._adapter)
        self.answer = Taken()
        self.failure: Unsent | None = None
        self._steps = steps
        self._timeout_seconds = timeout_seconds

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        self.answer, self.failure = Taken(), None
        try:
            return self._send(request, **options)
        except Unsent as failure:
            self.failure = failure
        except requests.RequestException as error:
            self.failure = _unsent(error)
        except OSError as error:  # a certificate that was named and is not there
            self.failure = Unsent("tls", str(error)[:200])
        raise self.failure

    def _send(self, request: PreparedRequest, **options: Any) -> Response:
        for step in self._steps:
            step(request)
        if isinstance(self.verify, str):
            options["verify"] = self.verify  # requests would prefer its own variables to an authority that was named
        with self._adapter.within(self._timeout_seconds) as over:
            try:
                with super().send(request, **{**options, "allow_redirects": False, "stream": True}) as response:
                    body = _read(response)
            except OSError:
                if not over.is_set():
                    raise
            if over.is_set():
                raise Unsent("timeout", "the answer came too slowly")
        if not 200 <= response.status_code < 300:
            raise of_status(response.status_code, response.headers, body)
        self.answer = taken(body)
        return response


class _Untouched(AuthBase):
    """Without an auth of its own, requests would put the user's netrc in the place of our headers."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        return request


def _read(response: Response) -> bytes:
    """The body up to a cap."""
    body = b""
    for part in response.iter_content(4096):
        body += part
        if len(body) >= MOST_ANSWER_BYTES:
            break
    return body


def _unsent(error: requests.RequestException) -> Unsent:
    if isinstance(error, requests.Timeout):
        return Unsent("timeout", str(error)[:200])
    if isinstance(error, requests.exceptions.SSLError):
        return Unsent("tls", str(error)[:200])
    if isinstance(error, requests.ConnectionError):
        return Unsent("connection_lost", str(error)[:200])
    return Unsent("refused", str(error)[:200], again=False)


class HttpSender:
    """Sends one request at a time; call from one thread."""

    def __init__(self, settings: Settings, provider: MeterProvider | None = None) -> None:
        headers = HeaderFiles(settings.header_files)
        self._more: Sequence[pb.Metric] = ()
        steps: list[Callable[[PreparedRequest], None]] = [self._add, lambda request: request.headers.update(headers.read())]
        if settings.aws_region:
            from exporter.publish.otlp.aws import Signer

            steps.append(Signer(settings.aws_region).sign)
        self._session = OneTry(steps, timeout_seconds=settings.timeout)
        self._exporter = OTLPMetricExporter(
            endpoint=settings.endpoint or None, timeout=settings.timeout, session=self._session, meter_provider=provider,
            compression=_compression(settings.compression),
        )  # fmt: skip

    def send(self, data: MetricsData, more: Sequence[pb.Metric] = ()) -> Taken:
        """Send one request; Unsent when it was not taken."""
        self._session.failure = None
        self._more = more
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise self._session.failure or Unsent("not_encoded", again=False)
        return self._session.answer

    def close(self) -> None:
        self._exporter.shutdown()

    def _add(self, request: PreparedRequest) -> None:
        """Put more messages into a request that the exporter has packed already."""
        if not self._more:
            return
        unpack, pack = _PACKINGS[request.headers.get("Content-Encoding", "")]
        body = ExportMetricsServiceRequest.FromString(unpack(request.body))
        body.resource_metrics[0].scope_metrics[0].metrics.extend(self._more)
        request.prepare_body(pack(body.SerializeToString()), None)


_PACKINGS: dict[str, tuple[Callable[..., bytes], Callable[..., bytes]]] = {
    "": (bytes, bytes), "gzip": (gzip.decompress, gzip.compress), "deflate": (zlib.decompress, zlib.compress),
}  # fmt: skip


def _compression(name: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http import Compression

    return Compression(name) if name else None
