"""Delta temporality: what came since the back end last took a point of the series.

Judged by what was taken, not by what was built: a batch that was lost is part of the next one, with the longer span.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum

from exporter.publish.otlp.data import DELTA, Point, per_bucket

Key = tuple[Hashable, ...]


class Ledger:
    """What was told of each living series: the sum of the increases that were taken."""

    def __init__(self) -> None:
        self._told: dict[Key, Point] = {}
        self._seen: set[Key] = set()

    def __len__(self) -> int:
        return len(self._told)

    def since(self, metric: Metric) -> Metric:
        """A cumulative metric as increases; gauges as they are."""
        if not isinstance(metric.data, Sum | Histogram):
            return metric
        points = [_increase(self._told.get(_key(metric, point)), point) for point in metric.data.data_points]
        return replace(metric, data=replace(metric.data, data_points=points, aggregation_temporality=DELTA))  # type: ignore[arg-type]

    def take(self, metrics: Iterable[Metric]) -> None:
        """Note cumulative metrics as taken."""
        for key, point in _series(metrics):
            self._told[key] = _told(self._told.get(key), point)

    def see(self, metrics: Iterable[Metric]) -> None:
        """These series are there."""
        self._seen.update(key for key, _ in _series(metrics))

    def forget(self) -> None:
        """Forget the series that were not seen since the last time."""
        self._told = {key: point for key, point in self._told.items() if key in self._seen}
        self._seen = set()


def _series(metrics: Iterable[Metric]) -> Iterator[tuple[Key, Point]]:
    for metric in metrics:
        if isinstance(metric.data, Sum | Histogram):
            for point in metric.data.data_points:
                yield _key(metric, point), point


def _key(metric: Metric, point: Point) -> Key:
    return (metric.name, *sorted((point.attributes or {}).items()))


def _goes_on(before: Point | None, now: Point) -> bool:
    """True when a point continues what was told: the same start, nothing fell. A start at the point's own time tells none: the
    total is this very moment's, or the clock was set back behind its beginning."""
    if before is None:
        return False
    if before.start_time_unix_nano != now.start_time_unix_nano and not (_startless(before) or _startless(now)):
        return False
    if isinstance(now, HistogramDataPoint):
        return isinstance(before, HistogramDataPoint) and now.count >= before.count
    return isinstance(before, NumberDataPoint) and now.value >= before.value


def _startless(point: Point) -> bool:
    return (point.start_time_unix_nano or 0) >= point.time_unix_nano


def _increase(before: Point | None, now: Point) -> Point:
    """The whole of a series that is new or began anew counts from its own start."""
    if not _goes_on(before, now):
        return now
    assert before is not None
    start = min(before.time_unix_nano, now.time_unix_nano)
    if isinstance(now, NumberDataPoint) and isinstance(before, NumberDataPoint):
        return replace(now, start_time_unix_nano=start, value=now.value - before.value)
    assert isinstance(now, HistogramDataPoint)
    assert isinstance(before, HistogramDataPoint)
    return replace(now, start_time_unix_nano=start, count=now.count - before.count,
                   sum=max(now.sum - before.sum, 0.0), bucket_counts=_bucket_gains(before.bucket_counts, now.bucket_counts),
                   )  # fmt: skip


def _bucket_gains(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """Gain of each bucket, none negative.

    Counts up to a bound never fall; those between two bounds can, after a page that was read between two writes of the engine.
    What a bucket would lose is told later, since the ledger keeps what was told.
    """
    gains = [high - low for low, high in zip(accumulate(before), accumulate(now), strict=True)]
    return per_bucket(tuple(accumulate(reversed(gains), min))[::-1])


def _told(before: Point | None, now: Point) -> Point:
    if not (isinstance(now, HistogramDataPoint) and isinstance(before, HistogramDataPoint) and _goes_on(before, now)):
        return now
    gains = _bucket_gains(before.bucket_counts, now.bucket_counts)
    return replace(now, bucket_counts=[told + gain for told, gain in zip(before.bucket_counts, gains, strict=True)])
