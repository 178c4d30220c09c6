"""What the exporter says of itself, as OTLP: through the SDK's meter provider, under the names of our page.

Observable instruments cannot be histograms, and the provider remembers each set of attributes for ever, 2,000 at most. So the
histogram, and what has a label for each pod, go the way of the relayed metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, Metric, Sum
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from collector.naming import EXPORTER_UNITS_BY_NAME
from collector.signals import Kind
from exporter import __version__
from exporter.publish.otlp.data import Point, attributes, histogram_point, metric_of, nanoseconds, number_point

SCOPE = InstrumentationScope("llm-fleet-exporter", __version__)
_PER_POD = "pod"


class Own:
    """The meter provider and what it is asked for; call from one thread."""

    def __init__(self, resource: Resource, *, began: float) -> None:
        self._began = nanoseconds(began)
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        self._meter = self.provider.get_meter(SCOPE.name, SCOPE.version)
        self._samples: dict[str, Sequence[Sample]] = {}
        self._known: set[str] = set()

    def metrics(self, families: Iterable[Family], *, wall: float) -> Iterator[tuple[InstrumentationScope, Metric]]:
        """The families of the registry as they were at a moment, and what the SDK says of itself, each with its scope."""
        at = nanoseconds(wall)
        self._samples = {}
        for family in families:
            if family.type == "histogram":
                yield from ((SCOPE, metric) for metric in self._histograms(family, at))
            elif any(_PER_POD in sample.labels for sample in family.samples):
                yield SCOPE, self._relay(family, at)
            else:
                self._observe(family)
        data = self._reader.get_metrics_data()
        for scope in (scope for one in data.resource_metrics for scope in one.scope_metrics) if data else ():
            known = SCOPE if scope.scope.name == SCOPE.name else scope.scope
            yield from ((known, _at(metric, at)) for metric in scope.metrics)

    def close(self) -> None:
        self.provider.shutdown()

    def _observe(self, family: Family) -> None:
        """Let the provider find the present samples; the instrument is made when its family is first seen."""
        name = _name(family)
        self._samples[name] = family.samples
        if name in self._known:
            return
        self._known.add(name)
        make = self._meter.create_observable_counter if family.type == "counter" else self._meter.create_observable_gauge
        make(name, [self._observer(name)], unit=_unit(name), description=family.documentation)

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            for sample in self._samples.get(name, ()):
                yield Observation(sample.value, attributes(sample.labels.keys(), sample.labels.values()))

        return observe

    def _start(self, at: int) -> int:
        """A clock that was set back must not put a start after its point."""
        return min(self._began, at)

    def _relay(self, family: Family, at: int) -> Metric:
        kind = Kind.COUNTER if family.type == "counter" else Kind.GAUGE
        start = self._start(at) if kind is Kind.COUNTER else 0
        points = [number_point(sample.value, attributes(sample.labels.keys(), sample.labels.values()), start, at)
                  for sample in family.samples]  # fmt: skip
        name = _name(family)
        sound: list[Point] = [point for point in points if not isinstance(point, str)]
        return metric_of(name, kind, sound, unit=_unit(name), help_text=family.documentation)

    def _histograms(self, family: Family, at: int) -> Iterator[Metric]:
        points: list[Point] = []
        series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
        for sample in family.samples:
            series.setdefault(tuple((key, value) for key, value in sample.labels.items() if key != "le"), []).append(sample)
        for labels, samples in series.items():
            buckets = sorted((float(one.labels["le"]), int(one.value)) for one in samples if "le" in one.labels)
            total = next(one.value for one in samples if one.name.endswith("_sum"))
            own = attributes((key for key, _ in labels), (value for _, value in labels))
            points.append(histogram_point([bound for bound, _ in buckets[:-1]], tuple(count for _, count in buckets), total, own,
                                          self._start(at), at))  # fmt: skip
        if points:
            yield metric_of(family.name, Kind.HISTOGRAM, points, unit=_unit(family.name), help_text=family.documentation)


def _name(family: Family) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _unit(name: str) -> str:
    """Of our own families as the table says; those of the process have it in their names."""
    bare = name.removesuffix("_total")
    return EXPORTER_UNITS_BY_NAME.get(name) or ("s" if bare.endswith("_seconds") else "By" if bare.endswith("_bytes") else "")


def _at(metric: Metric, at: int) -> Metric:
    """The provider stamps with the moment of the look; what it shows is as old as the batch."""
    if not isinstance(metric.data, Gauge | Sum):
        return metric
    points = [replace(point, time_unix_nano=at, start_time_unix_nano=min(point.start_time_unix_nano or 0, at))
              for point in metric.data.data_points]  # fmt: skip
    return replace(metric, data=replace(metric.data, data_points=points))
