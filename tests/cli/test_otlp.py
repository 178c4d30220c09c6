"""`serve` before a back end that takes connections and says nothing: it reads on, and ends in time."""

import asyncio
import signal
import time
from pathlib import Path

import aiohttp
import pytest

from tests.cli.process import serve
from tests.net.otlp_back_ends import PROTOCOLS, black_hole
from tests.net.scripted import answer, say, serving

both = pytest.mark.parametrize("protocol", PROTOCOLS)


@both
async def test_the_process_reads_on_and_ends_in_time_before_a_black_hole(protocol: str, tmp_path: Path) -> None:
    with black_hole() as url:
        async with serving(say(answer())) as engine:
            config = tmp_path / "c.yaml"
            config.write_text(
                "cluster: c\nscrape: {fast_interval: 50ms, full_interval: 100ms}\n"
                f"otlp: {{endpoint: '{url}', protocol: {protocol}, interval: 50ms, queue: 3}}\n"
                f"static_targets: [{{pool: a, urls: ['{engine.url}']}}]\n", encoding="utf-8")  # fmt: skip
            async with serve(config) as running:
                ages, page = await watch(running.base, until='llm_exporter_sink_batches_total{outcome="dropped",sink="otlp"}')
                assert max(ages) < 5.0, "an attempt at the hole takes ten seconds"
                assert page['llm_exporter_sink_queued_batches{sink="otlp"}'] <= 4
                begun = time.monotonic()
                running.signal(signal.SIGTERM)
                assert await running.end(5.0) == 0
                assert time.monotonic() - begun < 4.5


async def watch(base: str, until: str) -> tuple[list[float], dict[str, float]]:
    """Ages of the pod's sample while pages are read, until a counter moved."""
    ages: list[float] = []
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            async with session.get(f"{base}/metrics") as response:
                text = await response.text()
            page = {
                name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
            }
            ages += [value for name, value in page.items() if name.startswith("llm_pod_signal_age_seconds")]
            if page.get(until, 0) > 0 and len(ages) > 20:
                return ages, page
            await asyncio.sleep(0.05)
    raise AssertionError(f"{until} did not move")
