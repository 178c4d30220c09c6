"""A batch on its way: built in the outbox' thread, sent request by request; another try begins where the last one ended."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from opentelemetry.metrics import MeterProvider
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.sdk.metrics.export import Metric, MetricsData, ScopeMetrics
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family

from collector.clock import Clock
from collector.naming import GEN_AI, families, otlp_name
from collector.snapshot import Snapshot
from exporter import __version__
from exporter.log import say
from exporter.publish.otlp.answers import Taken
from exporter.publish.otlp.batch import Request, message, split
from exporter.publish.otlp.data import build, nanoseconds
from exporter.publish.otlp.delta import Ledger
from exporter.publish.otlp.ended import Living
from exporter.publish.otlp.own import SCOPE, Own
from exporter.publish.otlp.settings import GRPC, Settings
from exporter.publish.outbox import Receipt

_log = logging.getLogger(__name__)
_RELAYED = frozenset(otlp_name(*family) for family in families()) | frozenset(GEN_AI.values())
"""Names of what a moment holds; what the exporter says of itself is as old as its sending."""


class Sender(Protocol):
    """One protocol: sends a request once, with messages that the SDK cannot make; Unsent when it was not taken."""

    def send(self, data: MetricsData, more: Sequence[pb.Metric] = ()) -> Taken: ...

    def close(self) -> None: ...


def open_sender(settings: Settings, provider: MeterProvider | None = None) -> Sender:
    """The SDK's exporter for the protocol. From then on its own complaints are silenced: the outbox tells what fails."""
    try:
        if settings.protocol == GRPC:
            from exporter.publish.otlp.grpc import GrpcSender

            return GrpcSender(settings, provider)
        from exporter.publish.otlp.http import HttpSender

        return HttpSender(settings, provider)
    finally:
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)


def resource_of(cluster: str, region: str = "") -> Resource:
    """Who speaks. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before what we say.

    The namespace makes one `job` of each cluster, so that what exporters say of themselves does not collide; the instance
    is the same after a restart, so that series go on.
    """
    own = {"service.namespace": cluster, "service.name": SCOPE.name, "service.instance.id": "0", "service.version": __version__,
           "k8s.cluster.name": cluster, "cloud.region": region}  # fmt: skip
    return Resource.create({name: value for name, value in own.items() if value}).merge(OTELResourceDetector().detect())


class Cut(Protocol):
    """A moment whose cut is made on the thread that asks."""

    def snapshot(self) -> Snapshot: ...


class Courier:
    """Turns moments into requests and sends them; lives in the outbox' thread.

    `own` tells what the exporter says of itself when a snapshot is shown.
    """

    def __init__(
        self, settings: Settings, resource: Resource, *, clock: Clock, max_pods: int,
        own: Callable[[Snapshot], Iterable[Family]] = lambda _: (),
    ) -> None:  # fmt: skip
        self.max_pods = max_pods
        self._settings = settings
        self._resource = resource
        self._clock = clock
        self._families = own
        self._own = Own(resource, began=clock.now().wall)
        self._sender = open_sender(settings, self._own.provider)
        self._ledger = Ledger() if settings.temporality == "delta" else None
        self._living = Living(delta=self._ledger is not None)
        self._cut: Cut | None = None
        self._request: Request | None = None
        self._requests: Iterator[Request] = iter(())
        self._sent = 0
        self._rejected: Counter[str] = Counter()

    def send(self, cut: Cut) -> Receipt:
        """Send what is left of a moment. Unsent when the back end did not take it; points of one that was given up halfway are on
        the receipt of the next."""
        if cut is not self._cut:
            self._cut, self._requests = cut, self._make(cut.snapshot())
            self._request = next(self._requests, None)
        while (request := self._request) is not None:
            ended = request.ended.messages(request.ended_at) if request.ended else ()
            self._note(request, self._sender.send(message(self._as_told(request), self._resource), ended))
            self._request = next(self._requests, None)
        receipt = Receipt(self._sent, dict(self._rejected))
        self._sent, self._rejected = 0, Counter()
        return receipt

    def close(self) -> None:
        self._sender.close()
        self._own.close()

    def _make(self, snapshot: Snapshot) -> Iterator[Request]:
        """Requests, each made when the one before was taken; those that tell what ended come last."""
        self._living.begin()
        most = self._settings.most_points
        for request in split(self._metrics(snapshot), most_points=most):
            self._living.see(request.cumulative)
            if self._ledger is not None:
                self._ledger.see(request.cumulative)
            yield request
        if self._ledger is not None:
            self._ledger.forget()
        for ended in self._living.ended().parts(most):
            # At the moment that lacks them: a later one would lie behind points of moments that still wait in the queue.
            relayed = all(form.name in _RELAYED for form in ended.series)
            wall = (snapshot.at if relayed else self._clock.now()).wall
            yield Request((ScopeMetrics(SCOPE, (), ""),), 0, ended, nanoseconds(wall))

    def _metrics(self, snapshot: Snapshot) -> Iterator[tuple[InstrumentationScope, Metric]]:
        for metric in build(snapshot, self._rejected, max_pods=self.max_pods, gen_ai=self._settings.gen_ai):
            yield SCOPE, metric
        yield from self._own.metrics(self._families(snapshot), wall=self._clock.now().wall)

    def _as_told(self, request: Request) -> Request:
        if self._ledger is None:
            return request
        since = self._ledger.since
        scopes = tuple(ScopeMetrics(one.scope, [since(metric) for metric in one.metrics], "") for one in request.scopes)
        return Request(scopes, request.points)

    def _note(self, request: Request, taken: Taken) -> None:
        """Points that a back end refused must not be sent again, so that they count as told."""
        if self._ledger is not None:
            self._ledger.take(request.cumulative)
        self._living.take(request.cumulative)
        if request.ended is not None:
            self._living.forget(request.ended)
        refused = min(taken.refused, request.points)
        self._sent += request.points - refused
        if refused:
            self._rejected["refused"] += refused
        if taken.refused or taken.word:
            say(_log, logging.WARNING, "the back end refused points", sink="otlp", points=taken.refused, said=taken.word[:200])
