"""What CloudWatch would bill for a configuration and the pools just seen: an estimate from list prices, no invoice."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from collector.signals import SIGNALS, Fold, Kind, Level
from collector.snapshot import Row, Snapshot
from collector.totals import Child
from exporter.publish.cloudwatch import emf
from exporter.publish.cloudwatch.active import Active
from exporter.publish.cloudwatch.batch import split
from exporter.publish.cloudwatch.data import HEARTBEAT, Datum, as_parameter, heartbeat, make_data
from exporter.publish.cloudwatch.limits import MOST_VALUES, fault
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.cloudwatch.window import Gain, Place, Statistics, Subject, Window

HOURS_A_MONTH = 730.0
_MANY = 1000


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices in US dollars, as second-hand sources gave them. They change and differ by region: check them at the source."""

    as_of: str = "2026-08"
    region: str = "us-east-1"
    source: str = "https://aws.amazon.com/cloudwatch/pricing/"
    metric_tiers: tuple[tuple[float, float], ...] = ((10_000, 0.30), (250_000, 0.10), (1_000_000, 0.05), (math.inf, 0.02))
    """Number of metrics up to which, and price of each of them for a month."""

    thousand_requests: float = 0.01
    log_gigabyte: float = 0.50


PRICES = Prices()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Metrics by level and signal, requests or bytes of log in a month, and what all that costs."""

    metrics: Mapping[tuple[Level, str], int]
    requests_a_month: float
    log_bytes_a_month: float
    refused: Mapping[str, int]

    @property
    def number(self) -> int:
        return sum(self.metrics.values())

    @property
    def metrics_cost(self) -> float:
        cost, below = 0.0, 0.0
        for upto, price in PRICES.metric_tiers:
            cost += max(min(self.number, upto) - below, 0) * price
            below = upto
        return cost

    @property
    def requests_cost(self) -> float:
        return self.requests_a_month / 1000 * PRICES.thousand_requests

    @property
    def log_cost(self) -> float:
        return self.log_bytes_a_month / 1e9 * PRICES.log_gigabyte

    @property
    def all_cost(self) -> float:
        return self.metrics_cost + self.requests_cost + self.log_cost

    def share(self, level: Level | None = None, signal: str | None = None) -> float:
        """Dollars a month for the metrics of a level, of a signal, or of both."""
        some = sum(count for key, count in self.metrics.items() if level in (None, key[0]) and signal in (None, key[1]))
        return self.metrics_cost * some / self.number if self.number else 0.0


def estimate(snapshot: Snapshot, settings: Settings) -> Estimate:
    """For the pools of a snapshot at their busiest: every ratio known, every bucket of every histogram in use."""
    rows = [row for row in (snapshot.cluster, *snapshot.pools, *snapshot.pods) if row.level in settings.wanted]
    active = Active(most_metrics=settings.max_metrics, most_pods=settings.max_pods)
    counted: Counter[tuple[Level, str]] = Counter({(Level.EXPORTER, HEARTBEAT): 1})
    refused: Counter[str] = Counter()
    data = [heartbeat(snapshot.cluster.labels[0])]
    for signal, place, datum in _busiest(rows, settings):
        if reason := fault(datum) or active.refusal(place, datum, 0.0):
            refused[reason] += 1
            continue
        counted[place[0], signal] += 1
        data.append(datum)
    windows = HOURS_A_MONTH * 3600 / settings.period
    if settings.emf:
        documents = emf.documents(data, namespace=settings.namespace, log_group=settings.emf_log_group, start=0.0,
                                  resolution=settings.resolution)  # fmt: skip
        size = sum(len(msgspec.json.encode(document)) + 1 for _, document in documents)
        return Estimate(metrics=counted, requests_a_month=0.0, log_bytes_a_month=size * windows, refused=refused)
    requests = sum(1 for _ in split(as_parameter(one, start=0.0, resolution=settings.resolution) for one in data))
    return Estimate(metrics=counted, requests_a_month=requests * windows, log_bytes_a_month=0.0, refused=refused)


def _busiest(rows: Iterable[Row], settings: Settings) -> Iterator[tuple[str, Place, Datum]]:
    """Every datum that a full window could hold, with its signal."""
    most_values = emf.MOST_VALUES if settings.emf else MOST_VALUES
    for row in rows:
        place = (row.level, row.labels)
        for signal in sorted(settings.wanted[row.level]):
            window = Window(0.0, {place: _full(signal, row)})
            for _, datum in make_data(window, most_values=most_values):
                yield signal, place, datum


def _full(signal: str, row: Row) -> Subject:
    once = Statistics(1, 0.5, 0.5, 0.5)
    kind = SIGNALS[signal].kind
    if kind is Kind.HISTOGRAM:
        return Subject(histograms=_gains(signal, row))
    if kind is Kind.COUNTER:
        return Subject(counters={child: _MANY for child in row.counters if child[0] == signal})
    return Subject(gauges=dict.fromkeys(_children(signal, row), once))


def _children(signal: str, row: Row) -> list[Child]:
    """What is shown, and a ratio that will be there once there is traffic."""
    shown = [child for child in row.gauges if child[0] == signal]
    known_later = SIGNALS[signal].fold in (Fold.RATIO, Fold.DERIVED) and not SIGNALS[signal].labels
    return shown or ([(signal, "")] if known_later else [])


def _gains(signal: str, row: Row) -> dict[str, Gain]:
    histogram = row.histograms.get(signal)
    if histogram is None:
        return {}
    ladders = histogram.sources or {SIGNALS[signal].ladder: ()}
    return {signal: Gain({ladder: (_MANY,) * (len(ladder) + 1) for ladder in ladders}, 0)}
