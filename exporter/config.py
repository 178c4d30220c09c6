"""The configuration file: strict YAML to frozen data; every mistake is named by file, key and what would be right."""

import difflib
import math
import re
from collections import Counter
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from collector.engines import ENGINES
from collector.health import Limits
from collector.model import Target
from collector.scoring import Full
from exporter.strict_yaml import read_yaml
from exporter.units import parse_duration, parse_size, show_duration


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file, the key and what would be right."""


_Written = Any
"""A duration or size as it stands in the file; `exporter.units` says what is wrong with it."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Cluster(_Strict, frozen=True):
    name: str
    region: str = ""


class _Scrape(_Strict, frozen=True):
    fast_interval: _Written = "1s"
    full_interval: _Written = "5s"
    deadline: _Written = "2s"
    max_body: _Written = "16MiB"
    stale_after: _Written = "3s"
    down_after: _Written = "15s"
    no_progress_after: _Written = "30s"
    warming_for: _Written = "60s"
    gap_limit: _Written = "5m"
    details_interval: _Written = "60s"


class _Saturation(_Strict, frozen=True):
    requests_waiting: float = 5.0
    kv_cache_usage: float = 0.8


class _Pods(_Strict, frozen=True):
    max: int = 500


class _Static(_Strict, frozen=True):
    pool: str
    urls: list[str]
    namespace: str = "default"
    model: str = ""
    engine: str = ""
    role: str = ""
    accelerator: str = ""
    cost_tier: str = ""


class _File(_Strict, frozen=True):
    cluster: str | _Cluster
    scrape: _Scrape = _Scrape()
    window: _Written = "1m"
    saturation: _Saturation = _Saturation()
    pods: _Pods = _Pods()
    static_targets: list[_Static] = []


_SECTIONS: dict[str, type[_Strict]] = {
    "cluster": _Cluster, "scrape": _Scrape, "saturation": _Saturation, "pods": _Pods, "static_targets": _Static,
}  # fmt: skip
_WORDS = {"array": "a list", "bool": "true or false", "float": "a number", "int": "a whole number", "null": "nothing",
          "object": "keys with values", "str": "text"}  # fmt: skip
_EXPECTED_URL = "expected a URL such as http://10.0.0.1:8000 or https://pod:8000/metrics"
_PORTS = {"http": 80, "https": 443}
_ROLES = ("", "both", "prefill", "decode")


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A checked configuration; durations in seconds, sizes in bytes."""

    cluster: str
    region: str
    fast_interval: float
    full_interval: float
    details_interval: float
    deadline: float
    max_body: int
    limits: Limits
    full: Full
    max_pods: int
    targets: tuple[Target, ...]

    def with_targets(self, targets: tuple[Target, ...]) -> "Config":
        """The same with other targets."""
        return msgspec.structs.replace(self, targets=targets)


def load_config(path: Path) -> Config:
    """Read and check a file. ConfigError when it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8: {error}") from error
    return parse_config(text, name=str(path))


def parse_config(text: str, *, name: str = "configuration") -> Config:
    """Check a configuration text; `name` stands in the messages."""
    try:
        data = read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{name}: not valid YAML: {error}") from error
    if not isinstance(data, dict):
        found = "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(f"{name}: expected keys such as 'cluster' and 'static_targets', got {found}")
    try:
        return _build(msgspec.convert(data, _File))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_explain(str(error))}") from error
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _explain(message: str) -> str:
    """msgspec's message with the key first, in words, and the nearest known key where one is unknown."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    section = re.split(r"[.\[]", key, maxsplit=1)[0]
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        struct: type[msgspec.Struct] = _SECTIONS[section] if section else _File
        near = difflib.get_close_matches(unknown[1], struct.__struct_fields__, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(struct.__struct_fields__)}"
        return f"{key + '.' if key else ''}{unknown[1]}: unknown key; {hint}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"{key + '.' if key else ''}{missing[1]}: missing; it is required"
    words = re.sub("`([^`]*)`", lambda match: " or ".join(_WORDS.get(kind, kind) for kind in match[1].split(" | ")), what)
    return f"{key or 'file'}: {words[:1].lower()}{words[1:]}"


def _build(file: _File) -> Config:
    cluster = _Cluster(name=file.cluster) if isinstance(file.cluster, str) else file.cluster
    if not cluster.name.strip():
        raise ConfigError("cluster: expected a name, got an empty text")
    times = {key: _value(f"scrape.{key}", parse_duration, getattr(file.scrape, key))
             for key in _Scrape.__struct_fields__ if key != "max_body"}  # fmt: skip
    _check_times(times)
    limits = Limits(
        window=_value("window", parse_duration, file.window),
        full_interval=times["full_interval"],
        **{key: times[key] for key in ("stale_after", "down_after", "no_progress_after", "warming_for", "gap_limit")},
    )
    for key, highest in (("requests_waiting", math.inf), ("kv_cache_usage", 1.0)):
        level = getattr(file.saturation, key)
        if not 0 < level <= highest or math.isinf(level):
            most = "" if math.isinf(highest) else f" and at most {highest:g}"
            raise ConfigError(f"saturation.{key}: expected a number above 0{most}, got {level:g}")
    if file.pods.max < 0:
        raise ConfigError(f"pods.max: expected 0 or more, got {file.pods.max}")
    return Config(
        cluster=cluster.name, region=cluster.region, fast_interval=times["fast_interval"], full_interval=times["full_interval"],
        deadline=times["deadline"], max_body=_value("scrape.max_body", parse_size, file.scrape.max_body), limits=limits,
        details_interval=times["details_interval"],
        full=Full(file.saturation.requests_waiting, file.saturation.kv_cache_usage), max_pods=file.pods.max,
        targets=_targets(file.static_targets),
    )  # fmt: skip


def _value(key: str, parse: Any, text: Any) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


def _check_times(times: dict[str, float]) -> None:
    for low, high in (("fast_interval", "stale_after"), ("fast_interval", "full_interval"), ("stale_after", "down_after"),
                      ("fast_interval", "gap_limit")):  # fmt: skip
        if times[low] > times[high]:
            raise ConfigError(f"scrape.{low} ({show_duration(times[low])}) must not be longer than "
                              f"scrape.{high} ({show_duration(times[high])})")  # fmt: skip


def _targets(groups: list[_Static]) -> tuple[Target, ...]:
    targets: list[Target] = []
    places: dict[str, str] = {}
    for index, group in enumerate(groups):
        where = f"static_targets[{index}]"
        _check_group(where, group)
        for number, text in enumerate(group.urls):
            place = f"{where}.urls[{number}]"
            url = _value(place, normal_url, text)
            bare = url.partition("://")[2]
            if bare in places:
                raise ConfigError(f"{place}: {url} stands already at {places[bare]}; a target belongs to one place")
            places[bare] = place
            targets.append(Target(
                url=url, namespace=group.namespace, pool=group.pool, pod=urlsplit(url).netloc, model=group.model,
                engine=group.engine, role=group.role, accelerator=group.accelerator, cost_tier=group.cost_tier,
            ))  # fmt: skip
    return _distinct_pods(targets)


def _check_group(where: str, group: _Static) -> None:
    for key in ("pool", "namespace"):
        if not getattr(group, key).strip():
            raise ConfigError(f"{where}.{key}: expected a name, got an empty text")
    if group.engine and group.engine not in ENGINES:
        raise ConfigError(f"{where}.engine: expected one of {', '.join(ENGINES)}, got {group.engine!r}")
    if group.role not in _ROLES:
        raise ConfigError(f"{where}.role: expected one of {', '.join(_ROLES[1:])}, got {group.role!r}")
    if not group.urls:
        raise ConfigError(f"{where}.urls: expected at least one URL")


def normal_url(text: str) -> str:
    """The URL of a metrics page in one spelling: port always, path /metrics by default. ValueError says what would be right."""
    if "@" in text.partition("?")[0]:
        raise ValueError("a URL must not hold a user, a password or any other @")
    try:
        if any(char.isspace() or not char.isprintable() for char in text):
            raise ValueError("no spaces")
        parts = urlsplit(text)
        address = _address(parts)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED_URL}, got {text!r}: {error}") from error
    if parts.fragment:
        raise ValueError(f"a URL must not hold a fragment (#{parts.fragment})")
    path = parts.path if parts.path not in ("", "/") else "/metrics"
    return parts._replace(netloc=address, path=path).geturl()


def _address(parts: SplitResult) -> str:
    """`host:port`, IPv6 in brackets and in its shortest form. ValueError says what is wrong."""
    if parts.scheme not in _PORTS:
        raise ValueError("the scheme is http or https")
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("the port is a number from 1 to 65535")
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        return f"[{ip_address(host)}]:{port}"
    if not re.fullmatch(r"[\w.-]+", host):
        raise ValueError("the host is a name or an IP address")
    return f"{host}:{port}"


def _distinct_pods(targets: list[Target]) -> tuple[Target, ...]:
    """Where one host:port stands twice in a pool, its targets are two pods, told apart by their paths."""
    times = Counter((target.pool_key, target.pod) for target in targets)
    return tuple(
        target if times[target.pool_key, target.pod] == 1 else replace(target, pod=target.url.partition("://")[2])
        for target in targets
    )
