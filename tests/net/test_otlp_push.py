"""The push beside a running loop: at its interval, cut in its own thread, once more at the end."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

import exporter.hub
from collector.clock import SystemClock
from collector.held import Held
from collector.snapshot import Snapshot
from exporter.config import Config, parse_config
from exporter.hub import Hub
from exporter.publish.otlp.push import CLOSE_WITHIN_SECONDS, pushing
from exporter.publish.otlp.settings import Settings
from tests.net.otlp_back_ends import BackEnd, Fault, black_hole, http_back_end
from tests.otlp_reader import metrics_of, samples

CONFIG = parse_config("cluster: c\nstatic_targets: [{pool: a, urls: ['http://127.0.0.1:9']}]")


def settings(url: str) -> Settings:
    return Settings(endpoint=f"{url}/v1/metrics", interval=0.05, timeout=5.0, header_files={})


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""

    def wait() -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    await asyncio.to_thread(wait)


def values(back_end: BackEnd, name: str, **wanted: str) -> list[float]:
    found = (one for request in back_end.taken for one in samples(metrics_of(request)).items())
    return [value for (known, labels), value in found if known == name and labels >= wanted.items()]


async def test_moments_are_pushed_at_the_interval_and_cut_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cutters: set[str] = set()
    make = exporter.hub.cut

    def noted(held: Held) -> Snapshot:
        cutters.add(threading.current_thread().name)
        return make(held)

    monkeypatch.setattr(exporter.hub, "cut", noted)
    monkeypatch.setattr(exporter.hub, "SHARED_FOR_SECONDS", 0.0)
    hub = Hub(CONFIG, SystemClock())
    with http_back_end() as back_end:
        async with pushing(hub, settings(back_end.url), cluster="c") as outbox:
            assert outbox is not None
            assert hub.own.outboxes == [outbox]
            await until(lambda: len(back_end.taken) >= 3)
        assert hub.own.outboxes == []
    assert cutters == {"outbox-otlp"}
    sent = values(back_end, "llm_exporter_sink_batches_total", outcome="sent")
    assert len(sent) >= 3
    assert sent == sorted(sent), "what the push says of itself is in the push"
    assert values(back_end, "llm_cluster_pods")
    assert len(set(values(back_end, "process_cpu_seconds_total"))) > 1
    assert outbox.tally.batches["sent"] == len(back_end.taken), "the last moment went out at the end"


async def test_the_pods_beyond_the_cap_are_counted() -> None:
    hub = Hub(replace_max_pods(0), SystemClock())
    with http_back_end() as back_end:
        async with pushing(hub, settings(back_end.url), cluster="c"):
            await until(lambda: bool(back_end.taken))
    assert values(back_end, "llm_exporter_pods_dropped")[0] == 1
    assert not values(back_end, "llm_pod_state")


def replace_max_pods(most: int) -> Config:

    return msgspec.structs.replace(CONFIG, max_pods=most)


async def test_the_end_comes_in_time_whatever_the_back_end_does() -> None:
    with black_hole() as url:
        begun = time.monotonic()
        async with pushing(Hub(CONFIG, SystemClock()), replace(settings(url), timeout=60.0), cluster="c") as outbox:
            assert outbox is not None
            await until(lambda: len(outbox) > 0)
        assert time.monotonic() - begun < CLOSE_WITHIN_SECONDS + 2
        assert outbox.tally.batches["dropped"] >= 1
    for thread in [one for one in threading.enumerate() if one.name == "outbox-otlp"]:
        thread.join(10)  # the hole is gone, so its attempt ends; other tests do not hear of it


async def test_the_log_says_once_that_it_fails_and_once_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with http_back_end(Fault("server"), Fault("server"), Fault("server"), Fault()) as back_end:
        async with pushing(Hub(CONFIG, SystemClock()), settings(back_end.url), cluster="c"):
            await until(lambda: len(back_end.taken) >= 2)
    told = [record.getMessage() for record in caplog.records]
    assert told.count("sending failed") == 1
    assert told.count("sending again") == 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


async def test_what_the_sdk_cannot_use_costs_the_push_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_GRPC_CREDENTIAL_PROVIDER", "nobody")
    wanted = Settings(endpoint="https://127.0.0.1:9", protocol="grpc", header_files={})
    async with pushing(Hub(CONFIG, SystemClock()), wanted, cluster="c") as box:
        assert box is None
    assert "cannot push" in caplog.text
