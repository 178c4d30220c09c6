"""The sink beside a process whose configuration is read anew."""

import asyncio
from typing import Any

import pytest

from collector.signals import Level
from exporter.config import parse_config
from exporter.demo.cloudwatch.server import serving
from exporter.hub import Hub
from exporter.publish.cloudwatch import sink
from exporter.publish.cloudwatch.batch import Batch, unpack
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone
from tests.conftest import FakeClock

CONFIG = "cluster: prod\nscrape: {full_interval: 5s}\ncloudwatch: {region: us-east-1, levels: [pool], endpoint_url: 'URL'}"


async def test_samples_come_as_often_as_the_configuration_of_the_moment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    with serving() as cloudwatch:
        config = parse_config(CONFIG.replace("URL", cloudwatch.url))
        slower = parse_config(CONFIG.replace("URL", cloudwatch.url).replace("5s", "20s"))
        assert config.cloudwatch
        hub = Hub(config, FakeClock(wall=1000.0))

        async def sleep(seconds: float) -> None:
            pauses.append(round(seconds, 1))
            hub.configure(slower)
            if len(pauses) == 3:
                enough.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(sink, "asyncio", _with(sleep))
        async with sink.to_cloudwatch(hub, config.cloudwatch):
            await asyncio.wait_for(enough.wait(), 10.0)
    assert pauses == [5.0, 20.0, 20.0]


def _with(sleep: Any) -> Any:
    """asyncio with another sleep, for one module."""
    return type("asyncio", (), {**vars(asyncio), "sleep": staticmethod(sleep)})


def test_the_heartbeat_of_a_renamed_cluster_without_pools_has_the_new_name() -> None:
    config = parse_config(CONFIG.replace("URL", "http://127.0.0.1:1"))
    assert config.cloudwatch
    hub = Hub(config, FakeClock())
    made: list[Batch] = []
    feed = Feed(config.cloudwatch, "prod", Alone(), made.append)
    feed.take(hub.snapshot().rows, 0.0)
    feed.take(hub.snapshot().rows, 60.0)
    hub.configure(parse_config(CONFIG.replace("prod", "west").replace("URL", "http://127.0.0.1:1")))
    feed.take(hub.snapshot().rows, 120.0)
    feed.take(hub.snapshot().rows, 180.0)
    beats = [one["Dimensions"] for batch in made for piece in batch.pieces for one in unpack(piece)]
    assert beats == [[{"Name": "cluster", "Value": name}] for name in ("prod", "prod", "west")]
    assert not any(row.level is Level.POOL for row in hub.snapshot().rows)
