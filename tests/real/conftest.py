"""The demo and the real programs around it: one of each for a whole run, on free loopback ports."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from exporter.publish.prometheus import Format
from tests.real import programs
from tests.real.frozen import FrozenPage, serve
from tests.real.isolated import Isolated, start_isolated
from tests.real.promapi import vector
from tests.real.running import Running, found, free_port, program, running, wait_until

ROOT = Path(__file__).parents[2]
DEMO_SPEED = 4
ENOUGH_SCRAPES = 12
NewFolder = pytest.TempPathFactory


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_heavy: needs a real counterpart that only `make test-real` runs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Heavy tests run only where the command line names their marker."""
    if "real_heavy" in config.option.markexpr:
        return
    heavy = [item for item in items if item.get_closest_marker("real_heavy")]
    config.hook.pytest_deselected(items=heavy)
    items[:] = [item for item in items if item not in heavy]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: NewFolder) -> Iterator[Running]:
    """The exporter on its simulated fleet, living faster than the clock."""
    port = free_port()
    command = [sys.executable, "-m", "exporter", "demo", "--listen", f"127.0.0.1:{port}", "--speed", str(DEMO_SPEED)]
    log = tmp_path_factory.mktemp("demo") / "log"
    with running(command, url=f"http://127.0.0.1:{port}", ready="/readyz", log=log) as demo:
        yield demo


@pytest.fixture(scope="session")
def demo_job(demo: Running) -> dict[str, object]:
    """The scrape job that the README gives, on the demo."""
    return {"job_name": "llm-fleet", "honor_labels": True, "static_configs": [{"targets": [demo.address]}]}


@pytest.fixture(scope="session")
def frozen(demo: Running) -> Iterator[FrozenPage]:
    """One page of the demo in both formats, held still."""
    pages = {form: requests.get(f"{demo.url}/metrics", headers={"Accept": form.value}, timeout=10).content for form in Format}
    with serve(pages) as frozen:
        yield frozen


@pytest.fixture(scope="session")
def both(demo_job: dict[str, object], tmp_path_factory: NewFolder) -> Iterator[dict[str, Running]]:
    """Prometheus 2 and 3, those that are there, at the same time: each takes half a minute until it knows enough."""
    # A scrape may take as long as the interval: a second is too short for a busy machine, and one that fails ends all series.
    jobs = [{**demo_job, "scrape_interval": "2s"}]
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(programs.start_prometheus(version, jobs, tmp_path_factory.mktemp("prometheus")))
            for version, name in programs.PROMETHEUS.items()
            if found(name)
        }


@pytest.fixture(scope="session", params=list(programs.PROMETHEUS))
def prometheus(request: pytest.FixtureRequest, both: dict[str, Running]) -> Running:
    """Prometheus 2 and 3, each scraping the demo."""
    program(programs.PROMETHEUS[request.param])
    return both[request.param]


@pytest.fixture(scope="session")
def fed(prometheus: Running) -> Running:
    """Prometheus after enough scrapes for rates."""
    enough = f'count_over_time(up{{job="llm-fleet"}}[10m]) >= {ENOUGH_SCRAPES}'
    wait_until(lambda: vector(prometheus, enough), 90, f"{ENOUGH_SCRAPES} scrapes")
    return prometheus


@pytest.fixture(scope="session")
def victoria(tmp_path_factory: NewFolder) -> Iterator[Running]:
    """An empty VictoriaMetrics."""
    with programs.start_victoria(tmp_path_factory.mktemp("victoria")) as victoria:
        yield victoria


@pytest.fixture(scope="session")
def vmagent(victoria: Running, frozen: FrozenPage, demo_job: dict[str, object], tmp_path_factory: NewFolder) -> Iterator[Running]:
    """vmagent, scraping the demo and the frozen page into the VictoriaMetrics."""
    jobs = [demo_job, frozen.job("frozen")]
    with programs.start_vmagent(victoria, jobs, tmp_path_factory.mktemp("vmagent")) as vmagent:
        yield vmagent


@pytest.fixture(scope="session")
def envoy(demo: Running, tmp_path_factory: NewFolder) -> Iterator[tuple[Running, str]]:
    """Envoy before the demo: its admin interface, and the URL of its listener."""
    with programs.start_envoy(demo.address, tmp_path_factory.mktemp("envoy")) as envoy:
        yield envoy


@pytest.fixture(scope="session")
def moto(tmp_path_factory: NewFolder) -> Iterator[Running]:
    with programs.start_moto(tmp_path_factory.mktemp("moto")) as moto:
        yield moto


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: NewFolder) -> Iterator[Running]:
    with programs.start_ministack(tmp_path_factory.mktemp("ministack")) as ministack:
        yield ministack


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: NewFolder) -> Iterator[Isolated]:
    """llm-d's simulator of a vLLM, alone in a network of its own."""
    command = [program("llm-d-inference-sim"), "--port", "8000", "--model", "tiny", "--force-dummy-tokenizer",
               "--time-to-first-token", "20ms", "--inter-token-latency", "5ms",
               "--lora-modules", json.dumps({"name": "adapter-a"}), "--max-loras", "2"]  # fmt: skip
    with start_isolated(command, url="http://127.0.0.1:8000/health", folder=tmp_path_factory.mktemp("simulator")) as simulator:
        yield simulator


@pytest.fixture(scope="session")
def boards() -> dict[str, dict[str, object]]:
    """Generated boards by uid."""
    paths = sorted((ROOT / "dashboards" / "generated").glob("*.json"))
    return {board["uid"]: board for board in (json.loads(path.read_text(encoding="utf-8")) for path in paths)}
