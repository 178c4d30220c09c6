"""Publishing to CloudWatch: 40,000 data a minute through the real SDK to the stand-in, and what the loop feels of it."""

import asyncio
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from net import beside, run
from run import PAGE

from collector.clock import SystemClock
from collector.fixed import to_fixed
from collector.ladders import RawHistogram
from collector.model import Target
from collector.read import Body, understand
from collector.signals import Lane
from exporter.app import keep_for_good
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.cloudwatch.sink import to_cloudwatch

DATA_A_MINUTE = 40_000
PERIOD_SECONDS = 10.0
METRICS_A_POOL = 42
POOLS = round(DATA_A_MINUTE / 60 * PERIOD_SECONDS / METRICS_A_POOL)
PERIODS = 3
CALM_SECONDS = 8.0
GOAL_MS = 5.0


def fleet(config: Any) -> Hub:
    """A hub that has read one pod of each pool."""
    hub = Hub(config, SystemClock())
    targets = [Target(url=f"http://10.1.{index // 250}.{index % 250}:8000/metrics", namespace="serving", pool=f"pool-{index}",
                      pod=f"pod-{index}") for index in range(POOLS)]  # fmt: skip
    hub.watch(tuple(targets))
    reading = understand(targets[0], Lane.FULL, Body(PAGE, ""), at=hub.clock.now())
    values = reading.rows[targets[0]]
    for target in targets:
        hub.take(replace(reading, target=target, rows={target: values}))
    return hub


async def live(hub: Hub) -> None:
    """Traffic in every pool: all histograms and counters of one pool after the other move, each about once a second."""
    while True:
        for pool in list(hub.state.pools.values()):
            for signal, ladders in list(pool.totals.ladders.items()):
                for ladder in list(ladders):
                    gain = RawHistogram(ladder, (1,) * (len(ladder) + 1), to_fixed(1.0))
                    pool.totals.add_histogram(signal, gain)
            for child in list(pool.totals.counters):
                pool.totals.add(child, 3)
            await asyncio.sleep(1.0 / POOLS)


async def stalls(late: list[float]) -> None:
    """How much later than asked for the loop comes back, as far as this process was at work meanwhile and not another one."""
    while True:
        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(0.002)
        late.append(min(time.perf_counter() - begun - 0.002, time.process_time() - cpu) * 1000)


async def measure(url: str) -> None:
    section = f"{{region: us-east-1, endpoint_url: '{url}', period: {PERIOD_SECONDS:g}s, signals: ['*'], max_metrics: 100000}}"
    config = parse_config(f"cluster: bench\nscrape: {{stale_after: 10m, down_after: 10m}}\ncloudwatch: {section}")
    assert config.cloudwatch is not None
    hub = fleet(config)
    calm: list[float] = []
    busy: list[float] = []
    traffic = asyncio.create_task(live(hub))
    watching = asyncio.create_task(stalls(calm))
    calm_cpu = time.process_time()
    await asyncio.sleep(CALM_SECONDS)
    calm_share = (time.process_time() - calm_cpu) / CALM_SECONDS
    watching.cancel()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with to_cloudwatch(hub, config.cloudwatch):
        keep_for_good()
        watching = asyncio.create_task(stalls(busy))
        begun, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(PERIODS * PERIOD_SECONDS + 4.0)
        share = (time.process_time() - cpu) / (time.monotonic() - begun)
        watching.cancel()
        (box,) = hub.own.outboxes
        sent, batches, failures = box.tally.sent, dict(box.tally.batches), dict(box.tally.failures)
        metrics = hub.own.values["cloudwatch_active_metrics"]()
    traffic.cancel()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    rate = metrics * 60 / PERIOD_SECONDS
    print(f"\nCloudWatch: {POOLS} pools, {metrics:,} metrics each {PERIOD_SECONDS:g} s ({rate:,.0f} data a minute): "
          f"{sent:,} data sent, requests {batches}, failures {failures or 'none'}")  # fmt: skip
    print(f"  CPU        {share - calm_share:6.1%} of a core more than without it")
    print(f"  memory     {grown:6.0f} MB more, the SDK included")
    print(f"  loop stall {at(busy, 0.99):6.2f} ms p99, {at(busy, 0.999):.1f} ms p99.9, {max(busy):.1f} ms longest (goal: under "
          f"{GOAL_MS:g} ms); without it {at(calm, 0.99):.2f}, {at(calm, 0.999):.1f} and {max(calm):.1f} ms")  # fmt: skip


def at(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def report() -> None:
    """Print all lines."""
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", NO_PROXY="127.0.0.1")
    sys.setswitchinterval(0.0005)
    with beside("cloudwatch") as url:
        run(measure(url))


if __name__ == "__main__":
    report()
