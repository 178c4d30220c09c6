"""llm-d's simulator of a vLLM, read by us: the picker's required signals and the latency histograms are all there."""

import json
import os
import sys
from pathlib import Path

import pytest

from collector.clock import Instant
from collector.model import Target, Values
from collector.read import Body, understand
from collector.signals import Lane
from tests.real.isolated import Isolated

pytestmark = pytest.mark.real
URL = "http://127.0.0.1:8000"
GAUGES = {"requests_running", "requests_waiting", "kv_cache_usage_ratio"}
COUNTERS = {"requests", "prompt_tokens", "generation_tokens"}
HISTOGRAMS = {"time_to_first_token_seconds", "inter_token_latency_seconds", "end_to_end_latency_seconds"}
REQUESTS = 6
ASK = """
import json, sys, urllib.request as u
url, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    body = {"model": model, "prompt": "one two three", "max_tokens": 16, "stream": number % 2 == 0}
    asked = u.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    u.urlopen(asked, timeout=20).read()
"""


@pytest.fixture(scope="module")
def values(simulator: Isolated, target: Target) -> Values:
    """What its page says after some requests, in our vocabulary."""
    simulator.inside(sys.executable, "-c", ASK, URL, "tiny", str(REQUESTS))
    page = simulator.get(f"{URL}/metrics")
    reading = understand(target, Lane.FULL, Body(page, "text/plain; version=0.0.4"), at=Instant(1000.0, 1_800_000_000.0))
    assert reading.engine == "vllm"
    assert not reading.oddities
    return reading.rows[target]


def test_no_required_signal_is_missing(values: Values) -> None:
    assert values.gauges.keys() >= GAUGES
    assert {signal for signal, *_ in values.counters} >= COUNTERS
    assert {signal for signal, *_ in values.histograms} >= HISTOGRAMS


def test_the_signals_tell_the_load_that_there_was(values: Values) -> None:
    total = {signal: sum(count for (name, *_), count in values.counters.items() if name == signal) for signal in COUNTERS}
    assert total["requests"] == REQUESTS
    assert total["prompt_tokens"] == 3 * REQUESTS
    assert total["generation_tokens"] >= REQUESTS
    assert values.gauges["requests_running"] == values.gauges["requests_waiting"] == 0
    assert values.adapters is not None
    assert values.adapters.max == 2


def test_the_simulator_is_out_of_reach_from_here(simulator: Isolated) -> None:
    """It listens on every interface; only a network of its own keeps it from ours."""
    assert simulator.answers(f"{URL}/health")
    assert os.readlink(f"/proc/{simulator.pid}/ns/net") != os.readlink("/proc/self/ns/net")


def test_our_command_reads_it_once(simulator: Isolated, tmp_path: Path) -> None:
    config = {"cluster": "test", "static_targets": [{"pool": "tiny", "urls": [URL]}]}
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    answer = simulator.inside(sys.executable, "-m", "exporter", "once", "--config", str(path), "--output", "json")
    (one,) = json.loads(answer)["targets"]
    assert (one["engine"], one["model"], one["failure"]) == ("vllm", "tiny", None)
    assert one["requests_running"] == one["requests_waiting"] == 0
    assert one["kv_cache_usage_ratio"] is not None
    assert one["adapters"]["max"] == 2
