"""One moment of an exporter that has read recorded pages: as its page, and as the batch that it pushes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from collector.clock import Instant, SystemClock
from collector.read import Body, understand
from collector.signals import Lane
from collector.snapshot import Snapshot
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Receipt
from exporter.publish.prometheus import Format, render
from tests.real.frozen import Samples, collect

PAGES = Path(__file__).parents[1] / "pages"
READ = {
    "llama": ("vllm-0.32.0-idle", "vllm-0.32.0-load-queued"),
    "llama-lora": ("vllm-0.32.0-idle", "vllm-0.32.0-lora-running-waiting"),
    "qwen": ("sglang-0.5.23-idle", "sglang-0.5.23-load-queued"),
    "mistral": ("tgi-3.3.7-from-source-idle", "tgi-3.3.7-from-source-load"),
}
"""Recorded pages of each pool's pod: at first, and under load, so that the counters have increases."""


class _Held(Collector):
    """Families as they were once."""

    def __init__(self, families: tuple[Metric, ...]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


@dataclass(frozen=True, slots=True)
class Moment:
    """A cut, what the exporter said of itself, and the page of the very same moment."""

    cluster: str
    cut: Snapshot
    own: tuple[Metric, ...]
    page: Samples

    def snapshot(self) -> Snapshot:
        return self.cut

    def push(self, settings: Settings) -> Receipt:
        courier = Courier(settings, resource_of(self.cluster), clock=SystemClock(), max_pods=500, own=lambda _: self.own)
        try:
            return courier.send(self)
        finally:
            courier.close()


def read_moment(cluster: str = "real") -> Moment:
    """Read the recorded pages now, as an exporter of that cluster."""
    clock = SystemClock()
    groups = [{"pool": pool, "urls": [f"http://127.0.0.1:{8000 + number}"]} for number, pool in enumerate(READ)]
    hub = Hub(parse_config(f"cluster: {cluster}\nstatic_targets: {groups}"), clock)
    now = clock.now()
    for target in hub.state.tracks.values():
        for number, name in enumerate(READ[target.target.pool]):
            at = Instant(now.mono + number * 1e-3, now.wall + number * 1e-3)
            hub.take(understand(target.target, Lane.FULL, Body((PAGES / f"{name}.prom").read_bytes(), "text/plain"), at=at))
    cut, own = hub.snapshot(), tuple(hub.own.registry.collect())
    registry = CollectorRegistry()
    registry.register(_Held(own))
    page = render(cut, Format.TEXT, max_pods=500)[0] + generate_latest(registry).decode()
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return Moment(cluster, cut, own, collect((sample.name, sample.labels, sample.value) for sample in samples))
