"""What real receivers of OTLP make of our push: the series of our page, whatever the protocol and the translation."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.publish.otlp.settings import GRPC, HTTP, Settings
from tests.real import programs
from tests.real.frozen import Samples, collect, differences
from tests.real.moment import Moment, read_moment
from tests.real.promapi import vector, written
from tests.real.running import Running, free_port, program, running, wait_until
from tests.real.test_scrapers import OWN, VICTORIA_PRECISION

pytestmark = pytest.mark.real
OTLP_FLAGS = ("--web.enable-otlp-receiver",)
STRATEGIES = [
    "UnderscoreEscapingWithSuffixes",
    "NoUTF8EscapingWithSuffixes",
    "UnderscoreEscapingWithoutSuffixes",
    "NoTranslation",
]


def settings(url: str, protocol: str = HTTP) -> Settings:
    return Settings(endpoint=url, protocol=protocol, header_files={})


def bare(rows: list[tuple[str, dict[str, str], float]]) -> Samples:
    """Without what a receiver adds: scope labels, target_info."""
    kept = ((name, {key: text for key, text in labels.items() if not key.startswith("otel_scope_")}, value)
            for name, labels, value in rows if not OWN.fullmatch(name))  # fmt: skip
    return collect(kept)


def page_of(collector: Running) -> Samples:
    families = text_string_to_metric_families(collector.get("/metrics").text)
    return bare([(one.name, dict(one.labels), one.value) for family in families for one in family.samples])


def stored(store: Running, job: str = "real/llm-fleet-exporter") -> Samples:
    query = f'{{__name__=~"llm_.*|process_.*",job="{job}"}}'
    found = [(dict(one["metric"]), float(one["value"][1])) for one in vector(store, query)]
    return bare([(labels.pop("__name__"), labels, value) for labels, value in found])


@pytest.fixture(scope="module")
def moment() -> Moment:
    moment = read_moment()
    assert len(moment.page) > 2000
    return moment


def test_the_moment_speaks_of_most_of_the_table(moment: Moment) -> None:
    names = {dict(series)["__name__"] for series in moment.page}
    assert names >= {
        "llm_pool_requests_total", "llm_pool_time_to_first_token_seconds_bucket", "llm_pod_info", "llm_exporter_build_info",
        "llm_exporter_scrape_duration_seconds_bucket", "llm_exporter_target_up", "process_cpu_seconds_total",
    }  # fmt: skip
    assert len(names) > 120


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[tuple[Running, dict[str, str]]]:
    """A Collector with OTLP in and its prometheus exporter out: the page, and the URL of each protocol."""
    urls = {HTTP: f"http://127.0.0.1:{free_port()}", GRPC: f"http://127.0.0.1:{free_port()}"}
    page, own = free_port(), free_port()
    endpoints = {
        "http": {"endpoint": urls[HTTP].removeprefix("http://")},
        "grpc": {"endpoint": urls[GRPC].removeprefix("http://")},
    }
    config = programs.write_yaml(tmp_path / "otelcol.yaml", {
        "receivers": {"otlp": {"protocols": endpoints}},
        "exporters": {"prometheus": {"endpoint": f"127.0.0.1:{page}"}},
        "service": {
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["prometheus"]}},
            "telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": own}}}}]}},
        },
    })  # fmt: skip
    command = [program("otelcol"), f"--config={config}"]
    with running(command, url=f"http://127.0.0.1:{page}", ready="/metrics", log=tmp_path / "log") as collector:
        yield collector, {HTTP: f"{urls[HTTP]}/v1/metrics", GRPC: urls[GRPC]}


@pytest.mark.parametrize("protocol", [HTTP, GRPC])
def test_the_collectors_page_equals_ours(protocol: str, moment: Moment, collector: tuple[Running, dict[str, str]]) -> None:
    page, urls = collector
    receipt = moment.push(settings(urls[protocol], protocol))
    assert not receipt.rejected
    wait_until(lambda: len(page_of(page)) >= len(moment.page), 20, "all series on the Collector's page")
    assert differences(moment.page, page_of(page)) == []
    assert "warn" not in page.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_prometheus_stores_our_page_whatever_its_translation(strategy: str, moment: Moment, tmp_path: Path) -> None:
    port = free_port()
    config = programs.write_yaml(tmp_path / "p.yaml", {"otlp": {"translation_strategy": strategy}})
    command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
               f"--web.listen-address=127.0.0.1:{port}", *OTLP_FLAGS]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/-/ready", log=tmp_path / "log") as prometheus:
        receipt = moment.push(settings(f"{prometheus.url}/api/v1/otlp/v1/metrics"))
        assert not receipt.rejected
        wait_until(lambda: len(stored(prometheus)) >= len(moment.page), 20, "all series in Prometheus")
        assert differences(moment.page, stored(prometheus)) == []


def test_remote_write_brings_our_page_into_victoriametrics(moment: Moment, victoria: Running, tmp_path: Path) -> None:
    """Through the shipped gateway."""
    before = written(victoria)
    environment = {"REMOTE_WRITE_URL": f"{victoria.url}/api/v1/write"}
    gateway = programs.ROOT / "collector" / "otel" / "gateway.yaml"
    with programs.start_collector(gateway, tmp_path, environment) as (_, variables):
        receipt = moment.push(settings(f"http://127.0.0.1:{variables['HTTP_PORT']}/v1/metrics"))
        assert not receipt.rejected
        wait_until(lambda: written(victoria) - before >= len(moment.page), 30, "all samples in VictoriaMetrics")
        job = f"{moment.cluster}/llm-fleet-exporter"
        wait_until(lambda: len(stored(victoria, job)) >= len(moment.page), 30, "all series in VictoriaMetrics")
        assert differences(moment.page, stored(victoria, job), tolerance=VICTORIA_PRECISION) == []
