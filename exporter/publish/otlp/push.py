"""The running push: a cut at each interval, handed to the outbox; nothing else of it happens on the loop."""

import asyncio
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from exporter.hub import Hub
from exporter.publish.otlp.batch import Batch
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Outbox

SINK = "otlp"
CLOSE_WITHIN_SECONDS = 1.5
SWITCH_SECONDS = 0.0005
"""Python's own turn of 5 ms would let the loop wait so long each time the thread computes."""


@asynccontextmanager
async def pushing(hub: Hub, settings: Settings, *, cluster: str, region: str = "") -> AsyncIterator[Outbox[Batch]]:
    """Push until the block ends; then what is there by now goes out once more, in time or not at all."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    began = hub.clock.now().wall
    courier = Courier(settings, resource_of(cluster, region), max_pods=hub.max_pods, began=began)
    outbox = Outbox(SINK, courier.send, hub.clock, size=settings.queue)
    hub.own.outboxes.append(outbox)
    ticking = asyncio.create_task(_tick(hub, courier, outbox, settings.interval))
    try:
        yield outbox
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        outbox.put(take(hub))
        await asyncio.to_thread(outbox.close, within_seconds=CLOSE_WITHIN_SECONDS)
        hub.own.outboxes.remove(outbox)
        courier.close()


def take(hub: Hub) -> Batch:
    """This moment. Endpoints are the picker's and are not kept waiting."""
    snapshot = hub.snapshot()
    hub.note_shown(snapshot)
    return Batch(replace(snapshot, endpoints=()), tuple(hub.own.registry.collect()))


async def _tick(hub: Hub, courier: Courier, outbox: Outbox[Batch], interval: float) -> None:
    """At each multiple of the interval since the start, whatever a cut takes; moments that passed meanwhile are left out."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        passed = loop.time() - start
        await asyncio.sleep((math.floor(passed / interval) + 1) * interval - passed)
        courier.max_pods = hub.max_pods
        outbox.put(take(hub))
