"""A real endpoint picker beside us on one page of a vLLM: it reads the same load as we do."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.model import Values
from tests.conftest import Understand
from tests.real.isolated import Isolated, start_isolated
from tests.real.programs import picker_environment
from tests.real.running import program, wait_until

pytestmark = pytest.mark.real_heavy
PAGE = "vllm-0.32.0-load-queued"
METRICS = "http://127.0.0.1:9090/metrics"


@pytest.fixture(scope="module")
def epp(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    """The picker beside an apiserver of our own, in a network of its own: it listens on every interface."""
    folder = tmp_path_factory.mktemp("epp")
    command = [sys.executable, "-m", "tests.real.one_pod", str(pages / f"{PAGE}.prom"), program("epp"),
               "--pool-name=tiny", "--pool-namespace=serving",
               "--secure-serving=false", "--tracing=false", "--metrics-endpoint-auth=false",
               "--refresh-prometheus-metrics-interval=200ms"]  # fmt: skip
    environment = picker_environment(folder)
    with start_isolated(command, url=METRICS, folder=folder, environment=environment) as epp:
        yield epp


def pool_gauges(epp: Isolated) -> dict[str, float]:
    page = epp.get(METRICS).decode()
    return {name: float(value) for name, value in re.findall(r"^inference_pool_(\w+)\{[^}]*\} (\S+)$", page, re.MULTILINE)}


def test_the_picker_reads_the_load_that_we_read(epp: Isolated, understand_page: Understand) -> None:
    (ours,) = understand_page(PAGE).rows.values()
    assert isinstance(ours, Values)
    assert ours.gauges["requests_waiting"] > 0
    wait_until(lambda: pool_gauges(epp).get("average_queue_size"), 20, "a queue in the picker's eyes")
    seen = pool_gauges(epp)
    assert seen["ready_pods"] == 1
    assert seen["average_queue_size"] == ours.gauges["requests_waiting"]
    assert seen["average_running_requests"] == ours.gauges["requests_running"]
    assert seen["average_kv_cache_utilization"] == pytest.approx(ours.gauges["kv_cache_usage_ratio"], abs=0)
