"""`serve` that publishes to CloudWatch, and `cloudwatch estimate`, as processes of their own."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from exporter.demo.cloudwatch.server import StandIn
from exporter.demo.cloudwatch.server import serving as stand_in
from tests.cli.process import Serving, run_beside, serve
from tests.net import engines
from tests.net.fault_proxy import Fault, spoiling
from tests.net.scripted import hang, serving

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}
PATIENCE_SECONDS = 20.0


def config(tmp_path: Path, target: str, section: Mapping[str, object]) -> Path:
    path = tmp_path / "fleet.yaml"
    whole = {"cluster": "prod", "scrape": {"fast_interval": "100ms", "full_interval": "200ms"}, "cloudwatch": dict(section),
             "static_targets": [{"pool": "chat", "namespace": "serving", "urls": [target]}]}  # fmt: skip
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


@asynccontextmanager
async def publishing(tmp_path: Path, url: str, **more: object) -> AsyncIterator[Serving]:
    async with serving(engines.vllm()) as target:
        section = {"region": "us-east-1", "endpoint_url": url, "period": "1s", **more}
        async with serve(config(tmp_path, target.url, section), env=KEYS) as process:
            yield process


async def until(cloudwatch: StandIn, requests: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while len(cloudwatch.requests) < requests:
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def waiting(process: Serving, batches: int) -> int:
    """Number of batches in its queue, once they are so many."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = re.search(r'llm_exporter_sink_queued_batches\{sink="cloudwatch"\} (\d+)', await own(process))
        if found and int(found[1]) >= batches:
            return int(found[1])
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def own(process: Serving) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{process.base}/metrics") as response:
        return await response.text()


async def test_serve_publishes_each_period_and_at_the_end_what_is_open(tmp_path: Path) -> None:
    with stand_in() as cloudwatch:
        async with publishing(tmp_path, cloudwatch.url) as process:
            await until(cloudwatch, 3)
            page = await own(process)
            before = len(cloudwatch.requests)
            process.signal(signal.SIGTERM)
            assert await process.end(within=8.0) == 0
        assert len(cloudwatch.requests) > before
        assert not cloudwatch.refusals
    assert 'llm_exporter_sink_batches_total{outcome="dropped",sink="cloudwatch"} 0.0' in page
    active = next(line for line in page.splitlines() if line.startswith("llm_exporter_cloudwatch_active_metrics "))
    assert float(active.split()[1]) == len(cloudwatch.store.bins)
    stamps = [request.data[0]["Timestamp"] for request in cloudwatch.requests]
    assert stamps == sorted(stamps)
    names = {name for _, name, _ in cloudwatch.store.bins}
    assert {"llm_pool_requests_waiting", "llm_cluster_reporting_ratio", "llm_exporter_cloudwatch_writers"} <= names
    assert not any(name.startswith("llm_pod_") for name in names)


PLAN: list[Fault] = ["throttle", "unavailable", *["slow"] * 50]


async def test_a_back_end_that_fails_makes_no_signal_older_and_holds_no_end_up(tmp_path: Path) -> None:
    """The age of the pod's signals, asked for again and again while CloudWatch throttles, fails, and is slow."""
    with stand_in() as cloudwatch, spoiling(cloudwatch.url, *PLAN) as proxy:
        proxy.slow_seconds = 2.0
        async with publishing(tmp_path, proxy.url) as process:
            await process.line("state changed", "fresh")
            ages = []
            async with aiohttp.ClientSession() as session:
                end = time.monotonic() + 3.0
                while time.monotonic() < end:
                    async with session.get(f"{process.base}/picker/v1/endpoints") as response:
                        ages += [one["age_seconds"] for one in (await response.json())["endpoints"]]
                    await asyncio.sleep(0.02)
            page = await own(process)
            process.signal(signal.SIGTERM)
            assert await process.end(within=8.0) == 0
    assert 'reason="throttled",sink="cloudwatch"' in page
    assert len(ages) > 50
    assert "slow" in proxy.seen
    assert sorted(ages)[len(ages) // 2] < 0.15
    assert max(ages) < 1.0  # a send that held up the loop would make them two seconds old


async def test_one_that_never_answers_holds_no_end_up(tmp_path: Path) -> None:
    async with serving(hang) as silent, publishing(tmp_path, silent.url) as process:
        await asyncio.wait_for(silent.arrived.wait(), PATIENCE_SECONDS)
        begun = time.monotonic()
        process.signal(signal.SIGTERM)
        assert await process.end(within=8.0) == 0
        assert time.monotonic() - begun < 6.0


async def test_emf_goes_to_stdout_as_whole_lines(tmp_path: Path) -> None:
    async with serving(engines.vllm()) as target:
        path = config(tmp_path, target.url, {"emf": "stdout", "period": "1s"})
        async with serve(path) as process:
            assert process.process.stdout is not None
            lines = [json.loads(await asyncio.wait_for(process.process.stdout.readline(), PATIENCE_SECONDS)) for _ in range(3)]
    assert all(line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "LLMFleet" for line in lines)


async def test_two_with_one_lease_are_one_writer(tmp_path: Path) -> None:
    with stand_in() as cloudwatch:
        async with publishing(tmp_path, cloudwatch.url, lease_file="lease") as first:
            await until(cloudwatch, 1)
            async with publishing(tmp_path, cloudwatch.url, lease_file="lease") as second:
                await second.line("another exporter writes to CloudWatch")
                first.process.kill()
                await second.line("this exporter writes to CloudWatch from now on")
                have = len(cloudwatch.requests)
                await until(cloudwatch, have + 2)
        beats = [bins for (_, name, _), bins in cloudwatch.store.bins.items() if name == "llm_exporter_cloudwatch_writers"]
    assert {one.total for one in beats[0].values()} == {1.0}


async def test_what_waited_in_one_that_was_killed_is_written_by_the_other(tmp_path: Path) -> None:
    """The first has an endpoint where nobody answers."""
    lease, folders = str(tmp_path / "lease"), (tmp_path / "first", tmp_path / "second")
    for folder in folders:
        folder.mkdir()
    with stand_in() as cloudwatch:
        async with publishing(folders[0], "http://127.0.0.1:1", lease_file=lease) as first:
            await first.line("sending failed")
            async with publishing(folders[1], cloudwatch.url, lease_file=lease) as second:
                await second.line("another exporter writes to CloudWatch")
                await waiting(first, await waiting(first, 1) + 4)
                killed = time.time()
                first.process.kill()
                await second.line("this exporter writes to CloudWatch from now on")
                await until(cloudwatch, 5)
        beats = [bins for (_, name, _), bins in cloudwatch.store.bins.items() if name == "llm_exporter_cloudwatch_writers"]
    before = [start for start in sorted(beats[0]) if start < int(killed)]
    assert before == [before[0] + index for index in range(len(before))]
    assert len(before) >= 3
    assert {one.total for one in beats[0].values()} == {1.0}


def test_nothing_of_the_sdk_is_loaded_without_the_section() -> None:
    code = "import sys, exporter.app, exporter.config; print([m for m in sys.modules if m.startswith(('boto', 'rich'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_an_estimate_for_the_pools_just_seen(tmp_path: Path) -> None:
    async with serving(engines.vllm()) as target:
        path = config(tmp_path, target.url, {"region": "us-east-1"})
        done = await run_beside("cloudwatch", "estimate", "--config", str(path), "--output", "json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["metrics"] == 1 + sum(level["metrics"] for name, level in found["levels"].items() if name != "exporter")
    assert found["dollars_per_month"]["metrics"] == pytest.approx(0.3 * found["metrics"])
    assert found["requests_per_month"] == 43_800
    assert {one["signal"] for one in found["signals"]} >= {"requests", "time_to_first_token_seconds", "error_ratio"}


async def test_an_estimate_says_what_it_misses(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text('cluster: c\nstatic_targets: [{pool: p, urls: ["http://127.0.0.1:9/"]}]\n', encoding="utf-8")
    done = await run_beside("cloudwatch", "estimate", "--config", str(path))
    assert done.code == 1
    assert "1 of 1 targets failed: what they would show is missing here" in done.err
    assert "the configuration has no section 'cloudwatch' yet" in done.err
    assert "together $" in done.out


async def test_the_demo_prints_what_arrived() -> None:
    """At the end at the latest: what is open goes out with the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "exporter", "demo", "--cloudwatch", "--listen", "127.0.0.1:0", "--speed", "8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            fresh = 0
            while fresh < 7:
                line = await process.stdout.readline()
                assert line
                fresh += b"state=fresh" in line
            process.send_signal(signal.SIGTERM)
            rest = (await process.stdout.read()).decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert "CloudWatch took" in rest
    assert re.search(r"^  llama-70b +requests \d+, tokens \d+, waiting up to", rest, re.MULTILINE)
