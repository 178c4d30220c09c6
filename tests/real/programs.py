"""How each real program is started: the smallest configuration that does what a test asks of it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.real.running import Running, free_port, program, running

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "alerts" / "generated").glob("*.yaml"))
Settings = Mapping[str, Any]
PROMETHEUS = {"2": "prometheus-2", "3": "prometheus"}
"""Parts by major version."""


def write_yaml(path: Path, settings: Settings) -> Path:
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def scrape_settings(jobs: Sequence[Settings]) -> dict[str, Any]:
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": list(jobs)}


@contextmanager
def start_prometheus(
    version: str, jobs: Sequence[Settings], folder: Path, *, alertmanager: str = "", rule_files: Sequence[Path] = RULES,
    flags: Sequence[str] = (),
) -> Iterator[Running]:  # fmt: skip
    """A Prometheus of a major version: scrapes each second unless a job says otherwise, evaluates the rules every two."""
    port, rules = free_port(), folder / "rules"
    rules.mkdir()
    for path in rule_files:
        often = re.sub(r"interval: \w+", "interval: 2s", path.read_text(encoding="utf-8"))
        (rules / path.name).write_text(often, encoding="utf-8")
    settings = scrape_settings(jobs) | {"rule_files": [f"{rules}/*.yaml"]}
    settings["global"]["evaluation_interval"] = "2s"
    if alertmanager:
        settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    command = [program(PROMETHEUS[version]),
               f"--config.file={write_yaml(folder / 'prometheus.yml', settings)}", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", *flags]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/-/ready", log=folder / "log") as prometheus:
        yield prometheus


@contextmanager
def start_alertmanager(webhook: str, folder: Path) -> Iterator[Running]:
    """An Alertmanager that sends everything to one webhook at once."""
    port = free_port()
    receiver = {"name": "hook", "webhook_configs": [{"url": webhook, "send_resolved": False}]}
    route = {"receiver": "hook", "group_by": ["alertname"], "group_wait": "100ms", "group_interval": "1s"}
    config = write_yaml(folder / "alertmanager.yml", {"route": route, "receivers": [receiver]})
    # Without an address for the cluster it opens no gossip port.
    command = [program("alertmanager"), f"--config.file={config}", f"--storage.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/-/ready", log=folder / "log") as alertmanager:
        yield alertmanager


@contextmanager
def start_victoria(folder: Path) -> Iterator[Running]:
    """A VictoriaMetrics that shows samples as soon as it has them."""
    port = free_port()
    command = [program("victoria-metrics"), f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}",
               "-search.latencyOffset=0s", "-retentionPeriod=100y"]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/health", log=folder / "log") as victoria:
        yield victoria


@contextmanager
def start_vmagent(victoria: Running, jobs: Sequence[Settings], folder: Path) -> Iterator[Running]:
    """A vmagent that scrapes the jobs and writes into a VictoriaMetrics."""
    port = free_port()
    config = write_yaml(folder / "scrape.yml", scrape_settings(jobs))
    command = [program("vmagent"), f"-promscrape.config={config}", f"-remoteWrite.url={victoria.url}/api/v1/write",
               f"-remoteWrite.tmpDataPath={folder}/queue", f"-httpListenAddr=127.0.0.1:{port}"]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/health", log=folder / "log") as vmagent:
        yield vmagent


@contextmanager
def start_vmalert(victoria: Running, rules: Sequence[Path], folder: Path) -> Iterator[Running]:
    """A vmalert that asks a VictoriaMetrics every second and writes back what it recorded."""
    port = free_port()
    command = [program("vmalert"), *(f"-rule={path}" for path in rules), f"-datasource.url={victoria.url}",
               f"-remoteWrite.url={victoria.url}", "-notifier.url=http://127.0.0.1:9", f"-httpListenAddr=127.0.0.1:{port}",
               "-evaluationInterval=1s"]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/health", log=folder / "log") as vmalert:
        yield vmalert


@contextmanager
def start_otelcol(jobs: Sequence[Settings], folder: Path) -> Iterator[Running]:
    """A Collector whose prometheus receiver scrapes the jobs; `url` is the page of its prometheus exporter.

    Its own metrics are on the page `/metrics` of the address in the file `own`.
    """
    health, port, own = (f"127.0.0.1:{free_port()}" for _ in range(3))
    (folder / "own").write_text(own, encoding="utf-8")
    host, own_port = own.split(":")
    reader = {"pull": {"exporter": {"prometheus": {"host": host, "port": int(own_port)}}}}
    pipeline = {"receivers": ["prometheus"], "exporters": ["prometheus"]}
    settings = {
        "extensions": {"health_check": {"endpoint": health}},
        "receivers": {"prometheus": {"config": scrape_settings(jobs)}},
        # Off: the names are the page's own, and so are their units.
        "exporters": {"prometheus": {"endpoint": port, "add_metric_suffixes": False, "without_scope_info": True}},
        "service": {
            "extensions": ["health_check"],
            "pipelines": {"metrics": pipeline},
            "telemetry": {"metrics": {"readers": [reader]}},
        },
    }
    command = [program("otelcol"), f"--config={write_yaml(folder / 'otelcol.yaml', settings)}"]
    with running(command, url=f"http://{port}", ready="/metrics", log=folder / "log") as otelcol:
        yield otelcol


@contextmanager
def start_collector(config: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[Running, Mapping[str, str]]]:
    """A Collector on a configuration of ours, which takes its ports from the environment; with the variables that it got.

    Ready is when its health check says so; `url` is that check's.
    """
    ports = {name: str(free_port()) for name in ("GRPC_PORT", "HTTP_PORT", "HEALTH_PORT", "OWN_METRICS_PORT")}
    variables = {**ports, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
                 **environment}  # fmt: skip
    with running([program("otelcol"), f"--config={config}"], url=f"http://127.0.0.1:{ports['HEALTH_PORT']}", ready="/",
                 log=folder / "log", environment=variables) as collector:  # fmt: skip
        yield collector, variables


@contextmanager
def start_envoy(upstream: str, folder: Path) -> Iterator[tuple[Running, str]]:
    """An Envoy before one upstream: its admin interface, and the URL of its listener."""
    host, upstream_port = upstream.split(":")
    admin, port = free_port(), free_port()
    proxy = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "route_config": {"virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engine"}}]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    }  # fmt: skip
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": proxy}]
    endpoint = {"endpoint": {"address": _socket(int(upstream_port), host)}}
    settings = {
        "admin": {"address": _socket(admin)},
        "static_resources": {
            "listeners": [{"name": "front", "address": _socket(port), "filter_chains": [{"filters": filters}]}],
            "clusters": [{"name": "engine", "type": "STATIC", "connect_timeout": "1s", "load_assignment": {
                "cluster_name": "engine", "endpoints": [{"lb_endpoints": [endpoint]}]}}],
        },
    }  # fmt: skip
    config = folder / "envoy.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [program("envoy"), "-c", str(config), "--concurrency", "1", "--disable-hot-restart"]
    with running(command, url=f"http://127.0.0.1:{admin}", ready="/ready", log=folder / "log") as envoy:
        yield envoy, f"http://127.0.0.1:{port}"


def _socket(port: int, host: str = "127.0.0.1") -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


@contextmanager
def start_moto(folder: Path) -> Iterator[Running]:
    """moto's stand-in for AWS."""
    port = free_port()
    command = [program("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, url=f"http://127.0.0.1:{port}", ready="/moto-api/data.json", log=folder / "log") as moto:
        yield moto


@contextmanager
def start_ministack(folder: Path) -> Iterator[Running]:
    """MiniStack's stand-in for AWS, which forgets everything at the end."""
    port = free_port()
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "PERSIST_STATE": "0"}
    with running([program("ministack")], url=f"http://127.0.0.1:{port}", ready="/_ministack/health", log=folder / "log",
                 environment=environment) as ministack:  # fmt: skip
        yield ministack


def picker_environment(folder: Path) -> dict[str, str]:
    """Variables of a program that needs the apiserver on 127.0.0.1:8001, and that runs modules of this tree."""
    kubeconfig = write_yaml(folder / "kubeconfig", {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}],
        "users": [{"name": "u", "user": {}}],
    })  # fmt: skip
    return {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)}


def picking_envoy(listener: int, admin: int, *, picker: int) -> Settings:
    """An Envoy that asks a picker where each request goes, and sends it there."""
    grpc = {"name": "picker", "type": "STATIC", "connect_timeout": "1s", "typed_extension_protocol_options": {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}}}},
        "load_assignment": {"cluster_name": "picker", "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": _socket(picker)}}]}]}}  # fmt: skip
    chosen = {"name": "chosen", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "1s",
              "original_dst_lb_config": {
                  "use_http_header": True, "http_header_name": "x-gateway-destination-endpoint"}}  # fmt: skip
    modes = {f"{side}_{part}_mode": value for side in ("request", "response")
             for part, value in (("header", "SEND"), ("body", "FULL_DUPLEX_STREAMED"), ("trailer", "SEND"))}  # fmt: skip
    ask = {"name": "envoy.filters.http.ext_proc", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "10s"}, "processing_mode": modes,
        "message_timeout": "10s"}}  # fmt: skip
    router = {"name": "envoy.filters.http.router", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}  # fmt: skip
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress", "http_filters": [ask, router],
        "route_config": {"virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "chosen"}}]}]},
    }  # fmt: skip
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"admin": {"address": _socket(admin)}, "static_resources": {
        "listeners": [{"name": "front", "address": _socket(listener), "filter_chains": [{"filters": filters}]}],
        "clusters": [grpc, chosen]}}  # fmt: skip
