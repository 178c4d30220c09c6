"""What the exporter says of itself, as OTLP."""

import pytest
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, Counter, Histogram

from exporter.publish.otlp.data import nanoseconds
from exporter.publish.otlp.own import Own

BEGAN = 1_800_000_000.0


@pytest.mark.parametrize("wall", [BEGAN + 60, BEGAN - 3600], ids=["later", "after the clock was set back"])
def test_no_point_starts_after_its_moment(wall: float) -> None:
    registry = CollectorRegistry()
    Histogram("llm_exporter_thing_seconds", "h", registry=registry).observe(1)
    Counter("llm_exporter_things_total", "h", registry=registry).inc()
    Counter("llm_exporter_pod_things_total", "h", ["pod"], registry=registry).labels(pod="a").inc()
    own = Own(Resource({}), began=BEGAN)
    try:
        points = [point for _, metric in own.metrics(registry.collect(), wall=wall) for point in metric.data.data_points]
    finally:
        own.close()
    totals = [point for point in points if point.start_time_unix_nano]
    assert len(totals) >= 3
    assert {point.time_unix_nano for point in totals} == {nanoseconds(wall)}
    assert all((point.start_time_unix_nano or 0) <= point.time_unix_nano for point in totals)
