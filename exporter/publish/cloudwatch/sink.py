"""CloudWatch beside the running process: samples on the loop, all else on two threads, an orderly end in time."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial

from exporter.hub import Hub, Moment
from exporter.log import say
from exporter.publish.cloudwatch.batch import Batch
from exporter.publish.cloudwatch.emf import EmfWriter
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone, FileLease
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.outbox import Outbox, Receipt

_log = logging.getLogger(__name__)
SINK = "cloudwatch"
_END_SECONDS, _FLUSH_SECONDS = 2.5, 1.0


@asynccontextmanager
async def to_cloudwatch(hub: Hub, settings: Settings) -> AsyncIterator[None]:
    """Publish while the block runs."""
    send = _send_to(hub, settings)

    def send_and_note(batch: Batch) -> Receipt:
        receipt = send(batch)
        feed.note_sent()
        return receipt

    outbox = Outbox(SINK, send_and_note, hub.clock, size=settings.max_queued_requests,
                    given_up=lambda batch: batch.receipt)  # fmt: skip
    lease = FileLease(settings.lease_file) if settings.lease_file else Alone()
    feed = Feed(settings, hub.state.cluster, lease, outbox.put)
    hub.own.outboxes.append(outbox)
    hub.own.values["cloudwatch_active_metrics"] = lambda: len(feed.active)
    worker = ThreadPoolExecutor(1, thread_name_prefix=SINK)
    sampling = asyncio.create_task(_sample(hub, feed, worker, settings))
    try:
        yield
    finally:
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling
        await _end(hub, feed, worker, outbox)


def _send_to(hub: Hub, settings: Settings) -> Callable[[Batch], Receipt]:
    if settings.emf:
        return EmfWriter(settings.emf)
    from exporter.publish.cloudwatch.send import Sender
    from exporter.publish.cloudwatch.writers import Writers

    writers = Writers(settings, lambda: hub.state.cluster, hub.clock)
    hub.own.values["cloudwatch_writers"] = lambda: writers.seen
    sender = Sender(settings, hub.clock, after=writers.look)
    sender.open()
    return sender


async def _sample(hub: Hub, feed: Feed, worker: ThreadPoolExecutor, settings: Settings) -> None:
    """The loop holds the state for a moment; what is made of it is made on the worker's thread."""
    loop = asyncio.get_running_loop()
    while True:
        interval = settings.sample_interval(hub.full_interval)
        # A moment after the full interval, so that the sample that ends a window never comes just before its end.
        await asyncio.sleep(interval - hub.clock.now().wall % interval + 0.002)
        try:
            moment, wall = hub.moment(), hub.clock.now().wall
            await loop.run_in_executor(worker, partial(_take, feed, moment, wall))
        except Exception as error:
            say(_log, logging.ERROR, "a sample for CloudWatch was lost", error=repr(error))


def _take(feed: Feed, moment: Moment, wall: float) -> None:
    """Makes many objects and frees them again: meanwhile the collector would find nothing, and hold up the loop for it."""
    gc.disable()
    try:
        feed.take(moment.snapshot().rows, wall)
    finally:
        del moment
        gc.enable()


async def _end(hub: Hub, feed: Feed, worker: ThreadPoolExecutor, outbox: Outbox[Batch]) -> None:
    """The open window, then all that waits, each within its time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _END_SECONDS
    moment, wall = hub.moment(), hub.clock.now().wall
    last = loop.run_in_executor(worker, lambda: feed.finish(moment.snapshot().rows, wall))
    done, _ = await asyncio.wait([last], timeout=_END_SECONDS - _FLUSH_SECONDS)
    if not done:
        say(_log, logging.WARNING, "the last window for CloudWatch was not ready in time")
    elif last.exception() is not None:
        say(_log, logging.ERROR, "the last window for CloudWatch was lost", error=repr(last.exception()))
    await asyncio.to_thread(outbox.close, within_seconds=end - loop.time())
    if done:
        feed.leave()
    worker.shutdown(wait=False, cancel_futures=True)
