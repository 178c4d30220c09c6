"""What the exporter says of itself, through prometheus-client; names come from the table."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from collector.clock import Clock
from collector.model import Failure, Reading
from collector.naming import find, metric
from collector.reasons import FailureReason, Oddity
from collector.signals import Level
from collector.state import State
from exporter import __version__
from exporter.publish.outbox import Outbox
from exporter.publish.prometheus import Format


def _name(signal: str) -> str:
    return metric(signal, Level.EXPORTER)


class SelfMetrics(Collector):
    """Registry of the process: the tally of State, and what only this object counts."""

    def __init__(self, state: State, clock: Clock) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._state = state
        self._clock = clock
        self.registry = CollectorRegistry()
        self.series = 0
        self.pods_dropped = 0
        self.reload_successful = True
        self.reloaded_at = clock.now().wall
        self.sources_good: Mapping[str, bool] = {}
        self.outboxes: list[Outbox[Any]] = []
        self.values: dict[str, Callable[[], float | None]] = {}
        """Gauges of the exporter that others know, by signal; None where one is not known."""
        row = find("scrape_duration_seconds", Level.EXPORTER)
        self._durations = Histogram(_name(row.name), row.help, row.labels, registry=self.registry, buckets=row.ladder)
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def note_reload(self, successful: bool) -> None:
        """How the last reading of the configuration went."""
        self.reload_successful = successful
        if successful:
            self.reloaded_at = self._clock.now().wall

    def note(self, outcome: Reading | Failure) -> None:
        """Count one attempt."""
        self._durations.labels(outcome.lane).observe(outcome.duration_seconds)

    def render(self, form: Format) -> str:
        """The own part of the page, with the end mark where the format has one."""
        if form is Format.OPENMETRICS:
            page: bytes = generate_openmetrics(self.registry)  # type: ignore[no-untyped-call]
        else:
            page = generate_latest(self.registry)
        return page.decode()

    def collect(self) -> Iterator[Metric]:
        tracks = list(self._state.tracks.values())  # the loop goes on beside us
        yield self._gauge("build_info", [((__version__, platform.python_version()), 1)])
        yield self._gauge("config_last_reload_successful", [((), float(self.reload_successful))])
        yield self._gauge("config_last_reload_success_timestamp_seconds", [((), self.reloaded_at)])
        good = [((source,), float(good)) for source, good in sorted(self.sources_good.items())]
        yield self._gauge("target_source_last_read_successful", good)
        up: dict[tuple[str, ...], float] = {}
        for track in tracks:
            if track.last_look is not None:  # two paths of one port are one series: up when both are
                where = (track.target.namespace, track.target.pool, track.target.pod, track.target.address)
                up[where] = min(up.get(where, 1.0), float(track.failure is None))
        yield self._gauge("target_up", list(up.items()))
        tally = self._state.tally
        yield self._counter("target_failures", [((reason,), tally.failures[reason]) for reason in FailureReason])
        yield self._counter("page_oddities", [((kind,), tally.oddities[kind]) for kind in Oddity])
        yield self._counter("increase_discarded", sorted(tally.discarded.items()))
        yield self._gauge("targets", [((), len(self._state.tracks))])
        yield self._gauge("series", [((), self.series)])
        now = self._clock.now().mono
        yield self._gauge("unstable_targets", [((), sum(track.unstable_until > now for track in tracks))])
        yield self._counter("label_values_capped", [(("adapter",), self._state.adapter_names.refused)])
        yield self._gauge("pods_dropped", [((), self.pods_dropped)])
        unknown = sum(max((reading.unknown_families for reading in list(track.readings.values())), default=0) for track in tracks)
        yield self._gauge("unknown_families", [((), unknown)])
        yield from self._sinks()
        for signal, ask in self.values.items():
            value = ask()
            yield self._gauge(signal, [] if value is None else [((), value)])

    def _sinks(self) -> Iterator[Metric]:
        tallies = [(one.sink, one.tally) for one in self.outboxes]
        counts = {"batches": "batches", "failures": "failures", "points_rejected": "rejected"}
        for signal, field in counts.items():
            rows = [((sink, key), n) for sink, tally in tallies for key, n in sorted(getattr(tally, field).copy().items())]
            yield self._counter(f"sink_{signal}", rows)
        yield self._counter("sink_points_sent", [((sink,), tally.sent) for sink, tally in tallies])
        yield self._gauge("sink_queued_batches", [((one.sink,), len(one)) for one in self.outboxes])
        lasts = [((sink,), tally.last_success) for sink, tally in tallies if tally.last_success is not None]
        yield self._gauge("sink_last_success_timestamp_seconds", lasts)

    def _gauge(self, signal: str, samples: Sequence[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
        row = find(signal, Level.EXPORTER)
        family = GaugeMetricFamily(_name(signal), row.help, labels=row.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family

    def _counter(self, signal: str, samples: Sequence[tuple[tuple[str, ...], int]]) -> CounterMetricFamily:
        row = find(signal, Level.EXPORTER)
        family = CounterMetricFamily(_name(signal), row.help, labels=row.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family
