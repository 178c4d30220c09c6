"""OTLP metrics read back as samples of a page, by the rules of OpenTelemetry's specification of the translation."""

from collections.abc import Iterable

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Series = tuple[str, frozenset[tuple[str, str]]]
NO_VALUE = pb.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK


def encoded(metrics: Iterable[Metric]) -> ExportMetricsServiceRequest:
    """As it goes over the wire."""
    scope = ScopeMetrics(InstrumentationScope("test"), list(metrics), "")
    return encode_metrics(MetricsData([ResourceMetrics(Resource({}), [scope], "")]))


def metrics_of(request: ExportMetricsServiceRequest) -> list[pb.Metric]:
    return [metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]


def samples(metrics: Iterable[pb.Metric], *, ended: bool = False) -> dict[Series, float]:
    """Samples by name and labels; two of one series fail. With `ended` those that a flag ends."""
    found: dict[Series, float] = {}

    def add(name: str, point: pb.NumberDataPoint | pb.HistogramDataPoint, value: float, **more: str) -> None:
        labels = {one.key: one.value.string_value for one in point.attributes} | more
        series = (name, frozenset(labels.items()))
        assert series not in found, series
        found[series] = value

    for metric in metrics:
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            if bool(point.flags & NO_VALUE) is not ended:
                continue
            if isinstance(point, pb.NumberDataPoint):
                add(metric.name, point, point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)
                continue
            count = 0
            for bound, inside in zip((*point.explicit_bounds, float("inf")), point.bucket_counts, strict=True):
                count += inside
                add(f"{metric.name}_bucket", point, count, le=str(bound))
            add(f"{metric.name}_sum", point, point.sum)
            add(f"{metric.name}_count", point, point.count)
    return found
