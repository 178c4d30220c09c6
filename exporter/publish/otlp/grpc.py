"""OTLP over gRPC: the SDK's exporter, its stub wrapped to give each request one attempt and to hear the answer."""

from collections.abc import Sequence
from typing import Any

import grpc
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import MeterProvider
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from exporter.publish.otlp.answers import Taken, of_message
from exporter.publish.otlp.codes import of_error
from exporter.publish.otlp.headers import HeaderFiles
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Unsent

_LONGEST_RECONNECT_PAUSE_MS = 5000
"""gRPC's own is two minutes, in which each attempt would fail at once whatever the server does."""

_COMPRESSIONS = {"": None, "none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip,
                 "deflate": grpc.Compression.Deflate}  # fmt: skip


class Heard:
    """A stub that keeps what the server said. Unsent passes through the exporter, whose own tries end at any other error."""

    def __init__(self, stub: Any, headers: HeaderFiles) -> None:
        self._stub = stub
        self._headers = headers
        self.answer = Taken()
        self.more: Sequence[pb.Metric] = ()

    def Export(self, request: Any, metadata: Sequence[tuple[str, str]], timeout: float) -> Any:
        own = tuple((name.lower(), value) for name, value in self._headers.read().items())
        if self.more:
            request.resource_metrics[0].scope_metrics[0].metrics.extend(self.more)
        try:
            response = self._stub.Export(request, metadata=(*metadata, *own), timeout=timeout)
        except grpc.RpcError as error:
            raise of_error(error.code(), error.details() or "", error.trailing_metadata() or ()) from error
        self.answer = of_message(response)
        return response


class GrpcSender:
    """Sends one request at a time; call from one thread."""

    def __init__(self, settings: Settings, provider: MeterProvider | None = None) -> None:
        self._headers = HeaderFiles(settings.header_files, ascii_only=True)
        options: Any = (("grpc.max_reconnect_backoff_ms", _LONGEST_RECONNECT_PAUSE_MS),)
        self._exporter = OTLPMetricExporter(
            endpoint=settings.endpoint or None, timeout=settings.timeout, channel_options=options, meter_provider=provider,
            compression=_COMPRESSIONS[settings.compression],
        )  # fmt: skip

    def send(self, data: MetricsData, more: Sequence[pb.Metric] = ()) -> Taken:
        """Send one request; Unsent when it was not taken."""
        # The exporter has no public place to hear an answer at: its stub is the only one that sees it.
        stub = self._exporter._client
        if not isinstance(stub, Heard):
            stub = self._exporter._client = Heard(stub, self._headers)  # type: ignore[assignment]
        stub.more = more
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise Unsent("not_encoded", again=False)
        return stub.answer

    def close(self) -> None:
        self._exporter.shutdown()
