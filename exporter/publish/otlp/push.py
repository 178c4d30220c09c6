"""The running push: a moment held at each interval and handed to the outbox; the cut and all else happen in its thread."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from prometheus_client.core import Metric as Family

from collector.snapshot import Snapshot
from exporter.hub import Hub
from exporter.log import say
from exporter.publish.otlp.send import Courier, Cut, resource_of
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Outbox

_log = logging.getLogger(__name__)
SINK = "otlp"
CLOSE_WITHIN_SECONDS = 1.2
"""With what the other sinks take, less than the four seconds after which the process ends in any case."""


@asynccontextmanager
async def pushing(hub: Hub, settings: Settings, *, cluster: str, region: str = "") -> AsyncIterator[Outbox[Cut] | None]:
    """Push until the block ends; then what is there by now goes out once more, in time or not at all. None: no push."""

    def own(snapshot: Snapshot) -> Iterable[Family]:
        hub.own.pods_dropped = max(len(snapshot.pods) - hub.max_pods, 0)
        return hub.own.registry.collect()

    try:
        courier = Courier(settings, resource_of(cluster, region), clock=hub.clock, max_pods=hub.max_pods, own=own)
    except Exception as error:  # what the SDK makes of its own variables must not end the scraping
        say(_log, logging.ERROR, "cannot push", sink=SINK, error=repr(error))
        yield None
        return
    endpoint = settings.endpoint or "as OTEL_EXPORTER_OTLP_ENDPOINT says"
    say(_log, logging.INFO, "pushing", sink=SINK, protocol=settings.protocol, endpoint=endpoint, every_seconds=settings.interval)
    outbox = Outbox(SINK, courier.send, hub.clock, size=settings.queue)
    hub.own.outboxes.append(outbox)
    ticking = asyncio.create_task(_tick(hub, courier, outbox, settings.interval))
    try:
        yield outbox
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        outbox.put(hub.moment())
        await asyncio.to_thread(outbox.close, within_seconds=CLOSE_WITHIN_SECONDS)
        hub.own.outboxes.remove(outbox)
        courier.close()


async def _tick(hub: Hub, courier: Courier, outbox: Outbox[Cut], interval: float) -> None:
    """At each multiple of the interval since the start; moments that passed meanwhile are left out."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        passed = loop.time() - start
        await asyncio.sleep((math.floor(passed / interval) + 1) * interval - passed)
        hub.own.sources_good = hub.roster.good
        courier.max_pods = hub.max_pods
        outbox.put(hub.moment())
