"""The fleet over HTTP: what each engine answers, and how faults look from outside. The clock is moved by
hand.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.plan import Fault
from exporter.demo.scenario import DEMO
from exporter.demo.serve import DemoServer, DemoTarget

VLLM_POD, SGLANG_POD, TGI_POD = "llama-70b-h100-0", "qwen-32b-0", "mistral-24b-0"
SCRIPTED = Fault("assistants-0", "kill", at=60.0, seconds=20.0)


@dataclass
class Running:
    """A served fleet, its targets by pod, the hand that moves its clock, and a client."""

    server: DemoServer
    targets: dict[str, DemoTarget]
    time: list[float]
    client: aiohttp.ClientSession

    def url(self, pod: str, path: str) -> str:
        return self.targets[pod].url.removesuffix("/metrics") + path

    async def get(self, pod: str, path: str = "/metrics", **headers: str) -> tuple[int, str | None, bytes]:
        sent = {key.replace("_", "-"): value for key, value in ({"Accept_Encoding": "identity"} | headers).items()}
        async with self.client.get(self.url(pod, path), headers=sent) as response:
            return response.status, response.headers.get("Content-Type"), await response.read()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    time = [0.0]
    clock = FleetClock.start(monotonic=lambda: time[0], wall=lambda: 1.7e9)
    server = DemoServer(Fleet(replace(DEMO, faults=(SCRIPTED,)), wall=clock.wall), clock)
    async with server as targets, aiohttp.ClientSession(auto_decompress=False) as client:
        time[0] = 30.0
        yield Running(server, {target.pod: target for target in targets}, time, client)


def sample(page: bytes, name: str) -> float:
    """The sum of the samples of a name."""
    families = text_string_to_metric_families(page.decode())
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


class TestAnswers:
    async def test_targets_say_what_a_configuration_needs(self, running: Running) -> None:
        target = running.targets[VLLM_POD]
        assert (target.pool, target.namespace, target.engine) == ("llama-70b", "serving", "vllm")
        assert target.model == "meta-llama/Llama-3.3-70B-Instruct"
        assert target.accelerator == "H100"
        assert len({each.url for each in running.targets.values()}) == 9

    @pytest.mark.parametrize(
        ("pod", "content_type"),
        [
            (VLLM_POD, "text/plain; version=1.0.0; charset=utf-8"),
            (SGLANG_POD, "text/plain; version=0.0.4; charset=utf-8"),
            (TGI_POD, "text/plain; charset=utf-8"),
        ],
    )
    async def test_metrics(self, running: Running, pod: str, content_type: str) -> None:
        status, seen, body = await running.get(pod)
        assert (status, seen) == (200, content_type)
        assert len(list(text_string_to_metric_families(body.decode()))) > 20

    async def test_page_moves_with_the_clock(self, running: Running) -> None:
        name = "vllm:generation_tokens_total"
        first = sample((await running.get(VLLM_POD))[2], name)
        assert sample((await running.get(VLLM_POD))[2], name) == first > 0
        running.time[0] = 40.0
        assert sample((await running.get(VLLM_POD))[2], name) > first

    async def test_vllm_filters_only_behind_the_slash(self, running: Running) -> None:
        query = "?name[]=vllm:num_requests_running&name[]=vllm:kv_cache_usage_perc"
        status, content_type, body = await running.get(VLLM_POD, f"/metrics/{query}")
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert {family.name for family in text_string_to_metric_families(body.decode())} == {
            "vllm:num_requests_running",
            "vllm:kv_cache_usage_perc",
        }
        assert len((await running.get(VLLM_POD, f"/metrics{query}"))[2]) > 40_000
        assert (await running.get(VLLM_POD, "/metrics/?name[]=nothing"))[2] == b""

    async def test_sglang_filter_leaves_nothing(self, running: Running) -> None:
        assert (await running.get(SGLANG_POD, "/metrics?name[]=sglang:num_running_reqs"))[2] == b""

    async def test_gzip_where_the_engine_has_it(self, running: Running) -> None:
        plain = (await running.get(VLLM_POD, "/metrics", Accept_Encoding="gzip"))[2]
        assert plain.startswith(b"# HELP")
        for pod, path in ((VLLM_POD, "/metrics/"), (SGLANG_POD, "/metrics")):
            zipped = (await running.get(pod, path, Accept_Encoding="gzip"))[2]
            assert gzip.decompress(zipped).startswith(b"# HELP")

    async def test_other_endpoints(self, running: Running) -> None:
        for pod in (VLLM_POD, SGLANG_POD, TGI_POD):
            assert (await running.get(pod, "/health"))[0] == 200
            assert running.targets[pod].model.encode() in (await running.get(pod, "/v1/models"))[2]
            assert (await running.get(pod, "/nosuch"))[0] == 404
        assert (await running.get(VLLM_POD, "/version"))[2] == b'{"version":"0.32.0"}'
        assert (await running.get(SGLANG_POD, "/version"))[0] == 404
        assert b'"max_running_requests":56' in (await running.get(SGLANG_POD, "/v1/loads"))[2]
        assert b'"max_total_tokens":8192' in (await running.get(TGI_POD, "/info"))[2]
        assert b'"sql-v7"' in (await running.get("assistants-0", "/v1/models"))[2]

    async def test_sglang_counts_its_own_scrapes(self, running: Running) -> None:
        await running.get(SGLANG_POD)
        page = (await running.get(SGLANG_POD))[2]
        key = b'sglang:http_responses_total{endpoint="/metrics",method="GET",status_code="200"} 1.0\n'
        assert key in page


class TestFaults:
    async def test_dead_pod_refuses_and_comes_back_on_its_port(self, running: Running) -> None:
        before = (await running.get(VLLM_POD))[2]
        await running.server.kill(VLLM_POD)
        with pytest.raises(aiohttp.ClientConnectorError):
            await running.get(VLLM_POD)
        assert (await running.get("llama-70b-a100-0"))[0] == 200
        running.time[0] = 60.0
        await running.server.restore(VLLM_POD)
        after = (await running.get(VLLM_POD))[2]
        assert sample(after, "vllm:generation_tokens_total") < sample(before, "vllm:generation_tokens_total")
        started = [sample(page, "process_start_time_seconds") for page in (before, after)]
        assert started == [1.7e9, 1.7e9 + 60]

    async def test_dead_pod_drops_the_connections_it_had(self, running: Running) -> None:
        address = running.targets[VLLM_POD].url.split("/")[2].split(":")
        reader, writer = await asyncio.open_connection(address[0], int(address[1]))
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await running.server.kill(VLLM_POD)
        rest = await asyncio.wait_for(reader.read(), 5)
        assert b"HTTP/1.1" not in rest
        writer.close()

    async def test_hung_pod_accepts_and_answers_only_when_restored(self, running: Running) -> None:
        await running.server.hang(SGLANG_POD)
        asked = asyncio.create_task(running.get(SGLANG_POD))
        done, _ = await asyncio.wait({asked}, timeout=0.2)
        assert not done
        await running.server.restore(SGLANG_POD)
        assert (await asyncio.wait_for(asked, 5))[0] == 200

    async def test_frozen_pod_serves_a_page_on_which_nothing_moves(self, running: Running) -> None:
        await running.server.freeze(VLLM_POD)
        before = (await running.get(VLLM_POD))[2]
        running.time[0] = 50.0
        assert (await running.get(VLLM_POD))[2] == before
        await running.server.restore(VLLM_POD)
        running.time[0] = 60.0
        assert (await running.get(VLLM_POD))[2] != before

    async def test_slow_pod(self, running: Running) -> None:
        await running.server.slow(TGI_POD, factor=6.0)
        assert running.server.fleet.pod(TGI_POD).process.lead.slowdown == 6.0
        await running.server.restore(TGI_POD)
        assert running.server.fleet.pod(TGI_POD).process.lead.slowdown == 1.0

    async def test_scripted_faults_happen(self, running: Running) -> None:
        running.time[0] = 61.0
        with pytest.raises(aiohttp.ClientError):
            await running.get(SCRIPTED.pod)
        with pytest.raises(aiohttp.ClientConnectorError):
            await running.get(SCRIPTED.pod)
        running.time[0] = 81.0
        await running.get("assistants-1")
        assert (await running.get(SCRIPTED.pod))[0] == 200

    async def test_unknown_pod(self, running: Running) -> None:
        with pytest.raises(KeyError):
            await running.server.kill("nobody")

    async def test_everything_is_closed_at_the_end(self) -> None:
        clock = FleetClock.start(monotonic=lambda: 0.0, wall=lambda: 0.0)
        async with DemoServer(Fleet(DEMO, wall=clock.wall), clock) as targets:
            url = targets[0].url
        async with aiohttp.ClientSession() as client:
            with pytest.raises(aiohttp.ClientConnectorError):
                await client.get(url)
