"""The shipped Collector configurations, each run by the real Collector with its ends redirected to this machine."""

import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.naming import families, otlp_name
from exporter.publish.otlp.data import build
from exporter.publish.otlp.settings import GRPC, Settings
from tests.net.otlp_back_ends import BackEnd, grpc_back_end, http_back_end
from tests.otlp_reader import metrics_of
from tests.real import programs
from tests.real.frozen import FrozenPage
from tests.real.moment import read_moment
from tests.real.promapi import vector, written
from tests.real.running import Running, program, wait_until

pytestmark = pytest.mark.real
FOLDER = programs.ROOT / "collector" / "otel"
CONFIGS = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "operator.yaml")
PUSHED = [path for path in CONFIGS if path.name not in ("agent-scrape.yaml", "agent.yaml")]
NOT_BUILT = {"awsemf": "modules refused by the proxy (403)", "loadbalancing": "modules refused by the proxy (403)"}
"""Exporters of the shipped configurations that the tests' Collector lacks: another one stands in for them."""


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@pytest.fixture(scope="module")
def built() -> Mapping[str, set[str]]:
    """Components of the tests' Collector by kind."""
    out = subprocess.run([program("otelcol"), "components"], capture_output=True, text=True, check=True).stdout
    listed: dict[str, Any] = yaml.safe_load(out)
    return {kind: {one["name"] for one in listed[kind]} for kind in ("receivers", "processors", "exporters", "extensions")}


def used(config: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Kind and type of every component."""
    return {(kind, name.partition("/")[0]) for kind in ("receivers", "processors", "exporters", "extensions")
            for name in config.get(kind, {})}  # fmt: skip


def test_every_component_is_built_or_known_to_be_missing(built: Mapping[str, set[str]]) -> None:
    wanted = {one for path in CONFIGS for one in used(yaml.safe_load(path.read_text(encoding="utf-8")))}
    missing = {name for kind, name in wanted if name not in built[kind]}
    assert missing == NOT_BUILT.keys()


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=name_of)
def test_every_file_says_when_to_use_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# When: ")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=name_of)
def test_every_metric_that_is_named_is_one_that_we_emit(path: Path) -> None:
    """Names, and patterns: each alternative of a pattern has to match."""
    emitted = {otlp_name(signal, level) for signal, level in families()}
    text = path.read_text(encoding="utf-8")
    patterns = set(re.findall(r"\^llm_[a-z_()|]+\$?", text))
    for pattern in patterns:
        for single in expand(pattern.strip("^$")):
            matching = [name for name in emitted if (name == single if pattern.endswith("$") else name.startswith(single))]
            assert matching, single
    plain = set(re.findall(r"(?<!\^)\bllm_[a-z_]+", re.sub(r"\^llm_[a-z_()|]+\$?", "", text)))
    assert plain <= emitted


def expand(pattern: str) -> Iterator[str]:
    """Every word of a pattern that has groups of alternatives only."""
    if (group := re.search(r"\(([^()]*)\)", pattern)) is None:
        yield pattern
        return
    for choice in group[1].split("|"):
        yield from expand(pattern[: group.start()] + choice + pattern[group.end() :])


def test_the_search_for_names_can_fail() -> None:
    assert list(expand("llm_(a|b)_(c|d)")) == ["llm_a_c", "llm_a_d", "llm_b_c", "llm_b_d"]


def with_stand_ins(path: Path, folder: Path, back_end: str) -> Path:
    """The configuration with an exporter that is built in the place of one that is not."""
    text = path.read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    for name in [name for name in config["exporters"] if name in NOT_BUILT]:
        del config["exporters"][name]
        config["exporters"]["otlp_http"] = {"endpoint": back_end}
        for pipeline in config["service"]["pipelines"].values():
            pipeline["exporters"] = ["otlp_http" if one == name else one for one in pipeline["exporters"]]
    return programs.write_yaml(folder / path.name, config)


@contextmanager
def started(path: Path, folder: Path, back_end: BackEnd, victoria: Running, **more: str) -> Iterator[Mapping[str, str]]:
    environment = {"REMOTE_WRITE_URL": f"{victoria.url}/api/v1/write", "OTLP_URL": f"{back_end.url}/v1/metrics",
                   "SECOND_OTLP_URL": f"{back_end.url}/v1/metrics", **more}  # fmt: skip
    config = with_stand_ins(path, folder, back_end.url)
    with programs.start_collector(config, folder, environment) as (collector, variables):
        yield variables
        assert not re.search("deprecat|in a future release", collector.log.read_text(encoding="utf-8")), "what is on its way out"


def arrived(back_end: BackEnd) -> set[str]:
    return {metric.name for request in list(back_end.taken) for metric in metrics_of(request)}


EMF = (
    r"llm_(pool|cluster)_(requests_(running|waiting|total)|(prompt|generation)_tokens_total"
    r"|(kv_cache_usage|saturation|error|reporting)_ratio|(time_to_first_token|end_to_end_latency)_window_seconds)"
)
EXPECTED: Mapping[str, Callable[[str], bool]] = {
    "cloudwatch-otlp.yaml": lambda name: name not in {"llm_pod_info", "llm_pod_targets"},
    "cloudwatch-emf.yaml": lambda name: re.fullmatch(EMF, name) is not None,
    "tee.yaml": lambda name: not name.startswith("llm_pod_"),
}
"""What has to arrive at a back end for OTLP; the other files write to a store."""


SLOW = {"cloudwatch-otlp.yaml", "cloudwatch-emf.yaml", "gateway-amp.yaml"}
"""Files whose last batch of a moment waits some seconds for more."""


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_file_starts(path: Path, victoria: Running, tmp_path: Path) -> None:
    with (
        http_back_end() as back_end,
        allocator("127.0.0.1:9") as (url, _),
        started(path, tmp_path, back_end, victoria, TARGET_ALLOCATOR=url),
    ):
        pass


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.real_heavy] * (path.name in SLOW), id=name_of(path)) for path in PUSHED]
)
def test_what_is_pushed_comes_out(path: Path, victoria: Running, tmp_path: Path) -> None:
    moment, before = read_moment(cluster=name_of(path)), written(victoria)
    sent = {metric.name for metric in build(moment.cut, Counter(), max_pods=500)}
    with http_back_end() as back_end, started(path, tmp_path, back_end, victoria) as variables:
        assert not moment.push(way_in(variables, only_grpc=path.parent.name == "scale-out")).rejected
        if (expected := EXPECTED.get(path.name)) is not None:
            wait_until(lambda: arrived(back_end) >= set(filter(expected, sent)), 30, "the metrics at the back end")
            assert not {name for name in arrived(back_end) & sent if not expected(name)}
        if expected is None or path.name == "tee.yaml":
            wait_until(lambda: written(victoria) - before >= len(moment.page), 30, "the samples in the store")
            query = f'llm_pool_requests_total{{cluster="{moment.cluster}"}}'
            wait_until(lambda: vector(victoria, query), 30, "the series in the store")


def way_in(variables: Mapping[str, str], *, only_grpc: bool) -> Settings:
    if only_grpc:
        return Settings(endpoint=f"http://127.0.0.1:{variables['GRPC_PORT']}", protocol=GRPC, header_files={})
    return Settings(endpoint=f"http://127.0.0.1:{variables['HTTP_PORT']}/v1/metrics", header_files={})


@pytest.mark.real_heavy
def test_the_agent_scrapes_and_hands_on(frozen: FrozenPage, victoria: Running, tmp_path: Path) -> None:
    with grpc_back_end() as back_end:
        more = {"EXPORTERS": json.dumps([frozen.address]), "GATEWAY": back_end.url.removeprefix("http://")}
        with started(FOLDER / "agent-scrape.yaml", tmp_path, back_end, victoria, **more):
            wait_until(lambda: "llm_pool_requests_total" in arrived(back_end), 60, "what the agent scraped")


@contextmanager
def allocator(target: str) -> Iterator[tuple[str, list[str]]]:
    """What the target allocator tells one replica: its jobs, and its targets in them. Keeps who asked."""
    asked: list[str] = []
    job = {"job_name": "llm-fleet", "scrape_interval": "1s", "scrape_timeout": "1s", "honor_labels": True,
           "metrics_path": "/metrics", "scheme": "http"}  # fmt: skip

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            found = {"llm-fleet": job} if self.path.startswith("/scrape_configs") else [{"targets": [target], "labels": {}}]
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.real_heavy
def test_an_agent_of_many_scrapes_what_the_allocator_gives_it(frozen: FrozenPage, victoria: Running, tmp_path: Path) -> None:
    with http_back_end() as back_end, allocator(frozen.address) as (url, asked):
        more = {"TARGET_ALLOCATOR": url, "POD_NAME": "agent-7"}
        with started(FOLDER / "scale-out" / "agent.yaml", tmp_path, back_end, victoria, **more):
            wait_until(lambda: "llm_pool_requests_total" in arrived(back_end), 60, "what the agent scraped")
            assert any("collector_id=agent-7" in path for path in asked)


def test_the_operators_objects_hold_the_same_tiers() -> None:
    """What the operator's objects and the plain files say of the same thing is the same."""
    agent, gateway = yaml.safe_load_all((FOLDER / "scale-out" / "operator.yaml").read_text(encoding="utf-8"))
    for made, name in ((agent, "agent.yaml"), (gateway, "gateway.yaml")):
        config, plain = made["spec"]["config"], yaml.safe_load((FOLDER / "scale-out" / name).read_text(encoding="utf-8"))
        assert made["kind"] == "OpenTelemetryCollector"
        assert used(config) == {one for one in used(plain) if one[0] != "extensions"}
        pipeline = plain["service"]["pipelines"]["metrics"]
        assert config["service"]["pipelines"]["metrics"] == pipeline
    assert agent["spec"]["mode"] == "statefulset"
    assert agent["spec"]["targetAllocator"]["enabled"] is True
    assert agent["spec"]["config"]["exporters"]["loadbalancing"]["routing_key"] == "streamID"


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_memory_comes_first_and_every_way_out_has_a_queue_and_patience(path: Path) -> None:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        assert pipeline["processors"][0] == "memory_limiter"
    for name, settings in config["exporters"].items():
        if name == "awsemf":
            continue  # has neither: it sends each batch at once, with AWS's own retries
        inner = settings["protocol"]["otlp"] if name == "loadbalancing" else settings
        assert inner.keys() & {"sending_queue", "remote_write_queue"}
        assert "max_elapsed_time" in inner["retry_on_failure"]
