"""Series that are over: told once as points without a value, or back ends would show their last one for minutes.

The SDK's points have no place for that flag, so these are OpenTelemetry's own messages, added to a request on its way.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import Gauge, Histogram, HistogramDataPoint, Metric, Sum

NO_VALUE = pb.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK


@dataclass(frozen=True, slots=True)
class Form:
    """What is needed to speak of a metric's series once more."""

    name: str
    unit: str
    kind: str
    bounds: tuple[float, ...]


Key = tuple[tuple[str, ...], tuple[str, ...]]
"""Names and values of a series' attributes."""


class Living:
    """Series that the back end holds, and when each was last seen. With delta temporality only gauges last."""

    def __init__(self, *, delta: bool = False) -> None:
        self._delta = delta
        self._series: dict[Form, dict[Key, int]] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._round = 0

    def __len__(self) -> int:
        return sum(map(len, self._series.values()))

    def begin(self) -> None:
        """What is seen from now on is there."""
        self._round += 1

    def see(self, metrics: Iterable[Metric]) -> None:
        """These are there; the back end need not hold them yet."""
        for form, keys in self._of(metrics):
            held = self._series.get(form, {})
            for key in keys:
                if key in held:
                    held[key] = self._round

    def take(self, metrics: Iterable[Metric]) -> None:
        """The back end holds these."""
        for form, keys in self._of(metrics):
            self._series.setdefault(form, {}).update(dict.fromkeys(keys, self._round))

    def ended(self) -> "Ended":
        """What was not seen since the beginning of this round."""
        over = {form: {key for key, seen in held.items() if seen != self._round} for form, held in self._series.items()}
        return Ended({form: keys for form, keys in over.items() if keys})

    def forget(self, ended: "Ended") -> None:
        """The back end was told."""
        for form, keys in ended.series.items():
            for key in keys:
                del self._series[form][key]
            if not self._series[form]:
                del self._series[form]

    def _of(self, metrics: Iterable[Metric]) -> Iterator[tuple[Form, Iterator[Key]]]:
        for metric in metrics:
            if not self._delta or isinstance(metric.data, Gauge):
                yield _form(metric), self._keys(metric)

    def _keys(self, metric: Metric) -> Iterator[Key]:
        for point in metric.data.data_points:
            own = point.attributes or {}
            names = tuple(own)
            # One tuple of names for all series that have them: there are few, and many series.
            yield self._names.setdefault(names, names), tuple(map(str, own.values()))


@dataclass(frozen=True, slots=True)
class Ended:
    """Series that are over, by metric."""

    series: dict[Form, set[Key]]

    def parts(self, most: int) -> "Iterator[Ended]":
        """The same in portions of at most so many series."""
        for form, keys in self.series.items():
            ordered = sorted(keys)
            for index in range(0, len(ordered), most):
                yield Ended({form: set(ordered[index : index + most])})

    def messages(self, at: int) -> list[pb.Metric]:
        """A point without a value for each, at a time in nanoseconds.

        Each is a metric of its own: the Collector's prometheus exporter leaves a metric at the first such point in it.
        """
        return [_message(form, key, at) for form, keys in self.series.items() for key in sorted(keys)]


def _form(metric: Metric) -> Form:
    data = metric.data
    bounds: tuple[float, ...] = ()
    if isinstance(data, Histogram):
        point = next(iter(data.data_points), None)
        bounds = tuple(point.explicit_bounds) if isinstance(point, HistogramDataPoint) else ()
        return Form(metric.name, metric.unit or "", "histogram", bounds)
    if isinstance(data, Sum):
        return Form(metric.name, metric.unit or "", "sum", bounds)
    return Form(metric.name, metric.unit or "", "gauge", bounds)


def _message(form: Form, key: Key, at: int) -> pb.Metric:
    message = pb.Metric(name=form.name, unit=form.unit)
    own = [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in zip(*key, strict=True)]
    if form.kind == "histogram":
        message.histogram.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
        message.histogram.data_points.add(attributes=own, time_unix_nano=at, flags=NO_VALUE, explicit_bounds=form.bounds,
                                          bucket_counts=[0] * (len(form.bounds) + 1))  # fmt: skip
        return message
    if form.kind == "sum":
        message.sum.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
        message.sum.is_monotonic = True
    getattr(message, form.kind).data_points.add(attributes=own, time_unix_nano=at, flags=NO_VALUE)
    return message
