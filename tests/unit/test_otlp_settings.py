"""The `otlp` section and OpenTelemetry's variables: what is meant, and clear words for what cannot be."""

import subprocess
import sys
from pathlib import Path

import pytest

from exporter.config import ConfigError, parse_config
from exporter.publish.otlp.headers import HeaderFiles
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Unsent


def settings(section: str, **environment: str) -> Settings:
    read = parse_config(f"cluster: c\notlp: {section}", folder=Path("/etc/x"), environment=environment).otlp
    assert read is not None
    return read


def test_without_the_section_nothing_is_pushed_whatever_the_environment_says() -> None:
    assert parse_config("cluster: c", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}).otlp is None


def test_an_empty_section_means_the_standards_defaults() -> None:
    assert settings("{}") == Settings(header_files={})
    assert (settings("{}").protocol, settings("{}").interval, settings("{}").timeout) == ("http/protobuf", 60.0, 10.0)


@pytest.mark.parametrize(
    ("section", "environment", "key", "value"),
    [
        ("{endpoint: 'http://c:4318'}", {}, "endpoint", "http://c:4318/v1/metrics"),
        ("{endpoint: 'http://c:4318/'}", {}, "endpoint", "http://c:4318/v1/metrics"),
        ("{endpoint: 'http://p:9090/api/v1/otlp/v1/metrics'}", {}, "endpoint", "http://p:9090/api/v1/otlp/v1/metrics"),
        ("{endpoint: 'http://c:4317', protocol: grpc}", {}, "endpoint", "http://c:4317"),
        ("{}", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"}, "endpoint", ""),
        ("{}", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "protocol", "grpc"),
        ("{}", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"}, "protocol",
         "http/protobuf"),
        ("{protocol: http/protobuf}", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "protocol", "http/protobuf"),
        ("{}", {"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, "interval", 5.0),
        ("{interval: 10s}", {"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, "interval", 10.0),
        ("{}", {"OTEL_EXPORTER_OTLP_TIMEOUT": "3"}, "timeout", 3.0),
        ("{}", {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "DELTA"}, "temporality", "delta"),
        ("{}", {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "LowMemory"}, "temporality", "delta"),
        ("{}", {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, "compression", "gzip"),
        ("{view: gen_ai}", {}, "gen_ai", True),
        ("{header_files: {authorization: token}}", {}, "header_files", {"authorization": "/etc/x/token"}),
        ("{aws_region: eu-west-1}", {}, "endpoint", "https://monitoring.eu-west-1.amazonaws.com/v1/metrics"),
        ("{aws_region: cn-north-1}", {}, "endpoint", "https://monitoring.cn-north-1.amazonaws.com.cn/v1/metrics"),
        ("{aws_region: eu-west-1}", {}, "compression", "gzip"),
        ("{aws_region: eu-west-1}", {}, "most_points", 200),
        ("{aws_region: eu-west-1, endpoint: 'http://127.0.0.1:1/v1/metrics'}", {}, "endpoint", "http://127.0.0.1:1/v1/metrics"),
    ],
)  # fmt: skip
def test_what_is_written_is_meant(section: str, environment: dict[str, str], key: str, value: object) -> None:
    assert getattr(settings(section, **environment), key) == value


@pytest.mark.parametrize(
    ("section", "environment", "words"),
    [
        ("{endpont: x}", {}, ["otlp.endpont: unknown key", "did you mean 'endpoint'?"]),
        ("{endpoint: 'collector:4318'}", {}, ["otlp.endpoint", "http://collector:4318"]),
        ("{endpoint: 'http://[:1'}", {}, ["otlp.endpoint"]),
        ("{endpoint: 'http://u:hunter2@c:4318'}", {}, ["otlp.endpoint", "otlp.header_files"]),
        ("{endpoint: 'u:hunter2@c:4318'}", {}, ["otlp.endpoint", "http://collector:4318"]),
        ("{endpoint: 'http://c:4317/v1/metrics', protocol: grpc}", {}, ["otlp.endpoint", "gRPC has no path"]),
        ("{protocol: http/json}", {}, ["otlp.protocol", "http/protobuf or grpc", "http/json"]),
        ("{}", {"OTEL_EXPORTER_OTLP_PROTOCOL": "thrift"}, ["otlp.protocol", "thrift"]),
        ("{interval: 5}", {}, ["otlp.interval", "expected a duration"]),
        ("{interval: 1ms}", {}, ["otlp.interval", "50ms or more"]),
        ("{interval: 0s}", {}, ["otlp.interval", "expected a duration"]),
        ("{}", {"OTEL_METRIC_EXPORT_INTERVAL": "1m"}, ["OTEL_METRIC_EXPORT_INTERVAL", "milliseconds"]),
        ("{}", {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, ["OTEL_EXPORTER_OTLP_TIMEOUT", "seconds"]),
        ("{temporality: sometimes}", {}, ["otlp.temporality", "cumulative or delta"]),
        ("{compression: zstd}", {}, ["otlp.compression", "none or gzip or deflate"]),
        ("{view: all}", {}, ["otlp.view", "gen_ai"]),
        ("{queue: 0}", {}, ["otlp.queue", "1 or more"]),
        ("{header_files: {'bad name': x}}", {}, ["otlp.header_files", "bad name"]),
        ("{protocol: grpc, header_files: {key-bin: x}}", {}, ["otlp.header_files", "-bin", "key-bin"]),
        ("{header_files: {Key-Bin: x}}", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp.header_files", "Key-Bin"]),
        ("{aws_region: 'Europe (Ireland)'}", {}, ["otlp.aws_region", "us-east-1"]),
        ("{aws_region: us-east-1, header_files: {Authorization: x}}", {}, ["otlp.header_files", "otlp.aws_region"]),
        ("{aws_region: us-east-1, protocol: grpc}", {}, ["otlp.aws_region", "http/protobuf"]),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_named(section: str, environment: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        settings(section, **environment)
    for word in words:
        assert word in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("protocol", "value", "words"),
    [
        ("grpc", "hunter2\xe9", "plain ASCII"),
        ("grpc", "hunter2\nhunter2", "one line"),
        ("http/protobuf", "hunter2\nx", "one line"),
    ],
)
def test_a_header_that_can_never_be_sent_is_refused_at_the_start(tmp_path: Path, protocol: str, value: str, words: str) -> None:
    (tmp_path / "key").write_text(value, encoding="latin-1")
    with pytest.raises(ConfigError) as error:
        parse_config(f"cluster: c\notlp: {{protocol: {protocol}, header_files: {{x-key: key}}}}", folder=tmp_path)
    assert f"otlp.header_files.x-key: {tmp_path / 'key'}: expected {words}" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_header_beyond_ascii_goes_over_http(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("caf\xe9\n", encoding="latin-1")
    assert parse_config("cluster: c\notlp: {header_files: {x-key: key}}", folder=tmp_path).otlp is not None


def test_a_header_that_becomes_unfit_for_grpc_leaves_the_last_one_in_use(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("good")
    headers = HeaderFiles({"x-key": str(path)}, ascii_only=True)
    assert headers.read() == {"x-key": "good"}
    path.write_text("caf\xe9 longer", encoding="latin-1")
    assert headers.read() == {"x-key": "good"}
    with pytest.raises(Unsent, match="plain ASCII"):
        HeaderFiles({"x-key": str(path)}, ascii_only=True).read()


def test_a_process_without_the_section_loads_none_of_it() -> None:
    code = """import sys, exporter.cli, exporter.app, exporter.config
print(sorted({name.split('.')[0] for name in sys.modules} & {'opentelemetry', 'grpc', 'requests', 'botocore'}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_push_over_http_loads_no_grpc() -> None:
    code = """import sys, exporter.publish.otlp.push, exporter.publish.otlp.http
print(sorted({name.split('.')[0] for name in sys.modules} & {'grpc', 'botocore'}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
