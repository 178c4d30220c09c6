"""What may stand in the configuration: every key with its type and default, and what is said of one that may not."""

from typing import Any, get_type_hints

import msgspec

from collector import strict_yaml
from collector.naming import CLOUDWATCH_NAMESPACE
from collector.strict_yaml import nearest as nearest

Written = Any
"""A duration or size as it stands in the file; `exporter.units` says what is wrong with it."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Cluster(_Strict, frozen=True):
    name: str
    region: str = ""


class Scrape(_Strict, frozen=True):
    fast_interval: Written = "1s"
    full_interval: Written = "5s"
    deadline: Written = "2s"
    max_body: Written = "16MiB"
    stale_after: Written = "3s"
    down_after: Written = "15s"
    no_progress_after: Written = "30s"
    warming_for: Written = "60s"
    gap_limit: Written = "5m"
    details_interval: Written = "60s"


class Saturation(_Strict, frozen=True):
    requests_waiting: float = 5.0
    kv_cache_usage: float = 0.8


class Pods(_Strict, frozen=True):
    max: int = 500


class Debug(_Strict, frozen=True):
    bearer_file: str = ""


class EndpointsFile(_Strict, frozen=True):
    pool: str
    path: str
    namespace: str = "default"


class Picker(_Strict, frozen=True):
    endpoints_files: list[EndpointsFile] = []


class AuthKeys(_Strict, frozen=True):
    bearer_file: str = ""
    username: str = ""
    password_file: str = ""


class TlsKeys(_Strict, frozen=True):
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure: bool = False


class StaticGroup(_Strict, frozen=True):
    pool: str
    urls: list[str]
    namespace: str = "default"
    model: str = ""
    engine: str = ""
    role: str = ""
    accelerator: str = ""
    cost_tier: str = ""
    auth: AuthKeys | None = None
    tls: TlsKeys | None = None


class FileGroup(_Strict, frozen=True):
    path: str
    auth: AuthKeys | None = None
    tls: TlsKeys | None = None


class CloudWatch(_Strict, frozen=True):
    region: str = ""
    namespace: str = CLOUDWATCH_NAMESPACE
    period: Written = "1m"
    levels: list[str] = []
    signals: list[str] = []
    without: list[str] = []
    max_pods: int = 50
    max_metrics: int = 10_000
    max_queued_requests: int = 1000
    lease_file: str = ""
    endpoint_url: str = ""
    emf: str = ""
    emf_log_group: str = "llm-fleet-exporter"


class Otlp(_Strict, frozen=True):
    endpoint: str = ""
    protocol: str = ""
    interval: Written = ""
    timeout: Written = ""
    temporality: str = ""
    compression: str = ""
    header_files: dict[str, str] = {}
    view: str = ""
    aws_region: str = ""
    queue: int = 10


class File(_Strict, frozen=True):
    cluster: str | Cluster
    scrape: Scrape = Scrape()
    window: Written = "1m"
    saturation: Saturation = Saturation()
    pods: Pods = Pods()
    debug: Debug = Debug()
    picker: Picker = Picker()
    static_targets: list[StaticGroup] = []
    file_targets: list[str | FileGroup] = []
    cloudwatch: CloudWatch | None = None
    otlp: Otlp | None = None


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": File, "cluster": Cluster, "scrape": Scrape, "saturation": Saturation, "pods": Pods, "debug": Debug,
    "picker": Picker, "picker.endpoints_files[]": EndpointsFile,
    "static_targets[]": StaticGroup, "static_targets[].auth": AuthKeys, "static_targets[].tls": TlsKeys,
    "file_targets[]": FileGroup, "file_targets[].auth": AuthKeys, "file_targets[].tls": TlsKeys,
    "cloudwatch": CloudWatch, "otlp": Otlp,
}  # fmt: skip
"""Which keys may stand where; `[]` is any place of a list."""


def keys() -> dict[str, Any]:
    """Every key by its full name, with its default; NODEFAULT where it is required."""
    return {f"{section}.{field.name}".lstrip("."): field.default if field.default_factory is msgspec.NODEFAULT else []
            for section, struct in SECTIONS.items() for field in msgspec.structs.fields(struct)}  # fmt: skip


def scalars() -> dict[str, type]:
    """Keys that hold one value and so can be given in the environment or by a flag, with the type of the value."""
    found: dict[str, type] = {"cluster": str}
    for section, struct in SECTIONS.items():
        if "[]" not in section:
            hints = get_type_hints(struct)
            found |= {f"{section}.{name}".lstrip("."): kind if kind in (int, float) else str
                      for name, kind in hints.items() if kind in (int, float, str, Any)}  # fmt: skip
    return found


def explain(message: str) -> str:
    """msgspec's message with the key first, in words, and the nearest known key where one is unknown."""
    return strict_yaml.explain(message, SECTIONS)
