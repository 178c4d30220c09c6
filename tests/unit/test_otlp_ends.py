"""When a series that is over is told to have ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.resources import Resource

from collector.snapshot import Snapshot
from collector.state import State
from exporter.publish.otlp import send
from exporter.publish.otlp.answers import Taken
from exporter.publish.otlp.data import nanoseconds
from exporter.publish.otlp.settings import Settings
from tests.conftest import FakeClock
from tests.make import reading, target, values

NAME = "llm_pod_requests_running"


class Ears:
    """A back end that takes all: times of points, and those of ends."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def send(self, data: MetricsData, more: Sequence[pb.Metric] = ()) -> Taken:
        metrics = [metric for one in data.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
        self.heard += [
            ("point", point.time_unix_nano) for metric in metrics if metric.name == NAME for point in metric.data.data_points
        ]
        self.heard += [("end", metric.gauge.data_points[0].time_unix_nano) for metric in more if metric.name == NAME]
        return Taken()

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Moment:
    held: Snapshot

    def snapshot(self) -> Snapshot:
        return self.held


def test_an_end_that_waited_in_the_queue_lies_before_the_points_that_waited_behind_it(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod falls silent and comes back while the back end is away."""
    ears, pod, state, moments = Ears(), target("a"), State(cluster="c"), []
    monkeypatch.setattr(send, "open_sender", lambda *_: ears)
    state.watch([pod], clock.now())
    for speaks in (True, False, True):
        clock.advance(60)
        if speaks:
            state.absorb(reading(pod, values(requests_running=1, requests_waiting=0), clock.now()))
        moments.append(Moment(state.snapshot(clock.now())))
    clock.advance(300)
    courier = send.Courier(Settings(header_files={}), Resource({}), clock=clock, max_pods=9)
    for moment in moments:
        courier.send(moment)
    first, second, third = (nanoseconds(moment.held.at.wall) for moment in moments)
    assert ears.heard == [("point", first), ("end", second), ("point", third)]
