"""The `otlp` section, checked, with what OpenTelemetry's own variables say where the file is silent."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from exporter.publish.otlp.headers import value_in
from exporter.schema import Otlp
from exporter.units import parse_duration, show_duration

HTTP, GRPC = "http/protobuf", "grpc"
PROTOCOLS = (HTTP, GRPC)
TEMPORALITIES = ("cumulative", "delta")
COMPRESSIONS = ("none", "gzip", "deflate")
VIEWS = ("", "gen_ai")
DEFAULT_INTERVAL_SECONDS = 60.0
SHORTEST_INTERVAL_SECONDS = 0.05
DEFAULT_TIMEOUT_SECONDS = 10.0
MOST_POINTS = 2000
"""Points in one request: even of histograms these stay under the 4 MB that a gRPC server takes unless told otherwise."""
MOST_POINTS_AWS = 200
"""Points in one request to CloudWatch, as in AWS's own examples; its limits are not published whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to push. Durations in seconds; an empty endpoint or compression leaves the choice to the SDK's variables."""

    endpoint: str = ""
    protocol: str = HTTP
    interval: float = DEFAULT_INTERVAL_SECONDS
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    temporality: str = "cumulative"
    compression: str = ""
    header_files: Mapping[str, str]
    gen_ai: bool = False
    aws_region: str = ""
    queue: int = 10
    most_points: int = MOST_POINTS


def read_settings(section: Otlp, folder: str, environment: Mapping[str, str]) -> Settings:
    """Check a section; names of files begin at `folder`. ValueError names the key or variable and what would be right."""
    protocol = section.protocol or _variable(environment, "PROTOCOL") or HTTP
    _one_of("otlp.protocol", protocol, PROTOCOLS)
    _one_of("otlp.view", section.view, VIEWS)
    compression = section.compression or _variable(environment, "COMPRESSION").lower() or ("gzip" if section.aws_region else "")
    _one_of("otlp.compression", compression, ("", *COMPRESSIONS))
    temporality = section.temporality or _variable(environment, "TEMPORALITY_PREFERENCE").lower() or "cumulative"
    _one_of("otlp.temporality", "delta" if temporality == "lowmemory" else temporality, TEMPORALITIES)
    if section.queue < 1:
        raise ValueError(f"otlp.queue: expected 1 or more batches, got {section.queue}")
    if section.aws_region and protocol != HTTP:
        raise ValueError(f"otlp.aws_region: CloudWatch takes {HTTP} only, but otlp.protocol is {protocol}")
    region = _region(section.aws_region)
    if region and any(name.lower() == "authorization" for name in section.header_files):
        raise ValueError("otlp.header_files: authorization is what otlp.aws_region signs with; give one of them")
    return Settings(
        endpoint=_endpoint(section.endpoint, protocol) or _aws_endpoint(region),
        protocol=protocol,
        interval=_interval(section.interval, environment),
        timeout=_timeout(section.timeout, environment),
        temporality="delta" if temporality == "lowmemory" else temporality,
        compression=compression,
        header_files=_header_files(section.header_files, folder, protocol),
        gen_ai=section.view == "gen_ai",
        aws_region=region,
        queue=section.queue,
        most_points=MOST_POINTS_AWS if region else MOST_POINTS,
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    """OTEL_EXPORTER_OTLP_METRICS_<name>, else OTEL_EXPORTER_OTLP_<name>; empty where neither is set."""
    return (environment.get(f"OTEL_EXPORTER_OTLP_METRICS_{name}") or environment.get(f"OTEL_EXPORTER_OTLP_{name}") or "").strip()


def _one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{key}: expected {' or '.join(one for one in known if one)}, got {value!r}")


def _endpoint(text: str, protocol: str) -> str:
    """A whole URL; `/v1/metrics` where HTTP got no path."""
    if not text:
        return ""
    try:
        url = urlsplit(text)
        fine = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        fine = False
    if not fine:
        shown = "one with a user or password" if "@" in text else repr(text)
        raise ValueError(f"otlp.endpoint: expected a URL such as http://collector:4318, got {shown}")
    if url.username is not None or url.query or url.fragment:
        raise ValueError("otlp.endpoint: expected a URL without user, query or fragment; secrets belong into otlp.header_files")
    if protocol == GRPC and url.path not in ("", "/"):
        raise ValueError(f"otlp.endpoint: gRPC has no path, got {url.path!r}")
    return f"{text.rstrip('/')}/v1/metrics" if protocol == HTTP and url.path in ("", "/") else text


def _interval(written: Any, environment: Mapping[str, str]) -> float:
    if written != "":
        seconds = _duration("otlp.interval", written)
        if seconds < SHORTEST_INTERVAL_SECONDS:
            raise ValueError(f"otlp.interval: expected {show_duration(SHORTEST_INTERVAL_SECONDS)} or more, got {written!r}")
        return seconds
    text = environment.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    if not text:
        return DEFAULT_INTERVAL_SECONDS
    if not text.isdecimal() or int(text) < SHORTEST_INTERVAL_SECONDS * 1000:
        raise ValueError(f"environment: OTEL_METRIC_EXPORT_INTERVAL: expected milliseconds, 50 or more, got {text!r}")
    return int(text) / 1000


def _timeout(written: Any, environment: Mapping[str, str]) -> float:
    if written != "":
        return _duration("otlp.timeout", written)
    text = _variable(environment, "TIMEOUT")
    try:
        seconds = float(text) if text else DEFAULT_TIMEOUT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"environment: OTEL_EXPORTER_OTLP_TIMEOUT: expected seconds above 0, got {text!r}")
    return seconds


def _duration(key: str, written: Any) -> float:
    try:
        return parse_duration(written)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _header_files(files: Mapping[str, str], folder: str, protocol: str) -> dict[str, str]:
    for name in files:
        if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"otlp.header_files: expected names of headers such as authorization, got {name!r}")
        if protocol == GRPC and name.lower().endswith("-bin"):
            raise ValueError(f"otlp.header_files: gRPC keeps names in -bin for binary values, got {name!r}")
    found = {name: os.path.join(folder, path) for name, path in files.items()}
    for name, path in found.items():
        with suppress(OSError):  # not there yet: asked for again at each push
            try:
                value_in(path, ascii_only=protocol == GRPC)
            except ValueError as error:
                raise ValueError(f"otlp.header_files.{name}: {path}: {error}") from None
    return found


def _region(name: str) -> str:
    if name and not (name.isascii() and name.replace("-", "").isalnum() and name == name.lower()):
        raise ValueError(f"otlp.aws_region: expected a region such as us-east-1, got {name!r}")
    return name


def _aws_endpoint(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://monitoring.{region}.{domain}/v1/metrics" if region else ""
