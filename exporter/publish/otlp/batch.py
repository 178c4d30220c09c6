"""The requests that one moment becomes: parts that a server takes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from exporter.publish.otlp.ended import Ended


@dataclass(frozen=True, slots=True)
class Request:
    """A part of a batch: `cumulative` is what it holds as totals, `points` their number; or series that ended, and when
    in nanoseconds."""

    scopes: tuple[ScopeMetrics, ...]
    points: int
    ended: Ended | None = None
    ended_at: int = 0

    @property
    def cumulative(self) -> Iterator[Metric]:
        return (metric for scope in self.scopes for metric in scope.metrics)


def message(request: Request, resource: Resource) -> MetricsData:
    """What the SDK's exporters take."""
    return MetricsData([ResourceMetrics(resource, request.scopes, "")])


def split(metrics: Iterable[tuple[InstrumentationScope, Metric]], *, most_points: int) -> Iterator[Request]:
    """Requests of at most so many points; a metric with more is spread over several."""
    waiting: list[tuple[InstrumentationScope, Metric]] = []
    room = most_points
    for scope, metric in metrics:
        points: Sequence[object] = metric.data.data_points
        while points:
            taken, points = points[:room], points[room:]
            waiting.append((scope, replace(metric, data=replace(metric.data, data_points=taken))))  # type: ignore[arg-type]
            room -= len(taken)
            if room == 0:
                yield _request(waiting)
                waiting, room = [], most_points
    if waiting:
        yield _request(waiting)


def _request(parts: Sequence[tuple[InstrumentationScope, Metric]]) -> Request:
    scopes: dict[InstrumentationScope, list[Metric]] = {}
    for scope, metric in parts:
        scopes.setdefault(scope, []).append(metric)
    made = tuple(ScopeMetrics(scope, metrics, "") for scope, metrics in scopes.items())
    return Request(made, sum(len(metric.data.data_points) for _, metric in parts))
