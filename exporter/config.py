"""The configuration: file, environment and flags to frozen data; every mistake is named by place, key and what would be right."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from collector.auth import Auth, Tls
from collector.file_targets import ENDINGS, FileSource
from collector.health import Limits
from collector.model import Target
from collector.scoring import Full
from collector.strict_yaml import read_yaml
from collector.targets import NAMES, Batch, Placed, Source, Static, check_plain, check_words, host_port, merge
from collector.urls import normal_url
from exporter import schema
from exporter.endpoints import EndpointsFile, check_files
from exporter.overrides import from_environment, from_flags, lay_over
from exporter.publish.cloudwatch import settings as to_cloudwatch
from exporter.publish.otlp.settings import Settings as OtlpSettings
from exporter.publish.otlp.settings import read_settings as read_otlp
from exporter.units import parse_duration, parse_size, show_duration


class ConfigError(Exception):
    """The configuration cannot be used; the message names the place, the key and what would be right."""


@dataclass(frozen=True, slots=True)
class Files:
    """A pattern of target files: as it is written, and from the root; with what is needed to read the targets in them."""

    shown: str
    pattern: str
    auth: Auth | None = None
    tls: Tls | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A checked configuration; durations in seconds, sizes in bytes. `notes`: what is allowed and yet may surprise."""

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
    placed: tuple[Placed, ...]
    files: tuple[Files, ...] = ()
    debug_bearer_file: str = ""
    endpoints_files: tuple[EndpointsFile, ...] = ()
    cloudwatch: to_cloudwatch.Settings | None = None
    otlp: OtlpSettings | None = None
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """Targets that stand in the configuration itself."""
        return tuple(one.target for one in self.placed)

    @property
    def sources(self) -> list[Source]:
        """All places where targets come from."""
        return [Static(self.placed), *(FileSource(one.pattern, one.auth, one.tls, one.shown) for one in self.files)]

    def with_targets(self, targets: tuple[Target, ...]) -> "Config":
        """The same with other targets."""
        return msgspec.structs.replace(self, placed=tuple(Placed(target=one, place=one.url, named=True) for one in targets))


def load_config(path: Path, *, environment: Mapping[str, str] | None = None, settings: Iterable[str] = ()) -> Config:
    """Read and check a file with what the environment and `KEY=VALUE` settings lay over it. ConfigError if it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file in UTF-8: {error}") from error
    try:
        over = from_environment(environment or {}) | from_flags(settings)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return parse_config(text, name=str(path), folder=path.parent, over=over, environment=environment)


def parse_config(
    text: str, *, name: str = "configuration", folder: Path = Path(), over: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:  # fmt: skip
    """Check a configuration text; `name` stands in the messages, file names in it begin at `folder`."""
    try:
        data = read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{name}: not valid YAML: {error}") from error
    if data is None and over:
        data = {}
    if not isinstance(data, dict):
        found = "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(f"{name}: expected keys such as 'cluster' and 'static_targets', got {found}")
    try:
        return _build(msgspec.convert(lay_over(data, over or {}), schema.File), folder, environment or {})
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {schema.explain(str(error))}") from error
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _build(file: schema.File, folder: Path, environment: Mapping[str, str]) -> Config:
    cluster = schema.Cluster(name=file.cluster) if isinstance(file.cluster, str) else file.cluster
    _check_cluster(cluster)
    times = {key: _value(f"scrape.{key}", parse_duration, getattr(file.scrape, key))
             for key in schema.Scrape.__struct_fields__ if key != "max_body"}  # fmt: skip
    _check_times(times)
    _check_numbers(file)
    limits = Limits(
        window=_value("window", parse_duration, file.window),
        full_interval=times["full_interval"],
        **{key: times[key] for key in ("stale_after", "down_after", "no_progress_after", "warming_for", "gap_limit")},
    )
    sink = _cloudwatch(file.cloudwatch, folder, cluster.name)
    notes = [*_notes(times), *(to_cloudwatch.notes(sink, times["full_interval"]) if sink else ())]
    return Config(
        cluster=cluster.name, region=cluster.region, fast_interval=times["fast_interval"], full_interval=times["full_interval"],
        deadline=times["deadline"], max_body=_value("scrape.max_body", parse_size, file.scrape.max_body), limits=limits,
        details_interval=times["details_interval"],
        full=Full(file.saturation.requests_waiting, file.saturation.kv_cache_usage), max_pods=file.pods.max,
        placed=_static(file.static_targets, folder), files=_files(file.file_targets, folder),
        debug_bearer_file=_from(folder, file.debug.bearer_file), cloudwatch=sink,
        endpoints_files=check_files(file.picker, folder), notes=tuple(notes),
        otlp=None if file.otlp is None else _otlp(file.otlp, folder, environment),
    )  # fmt: skip


def _check_cluster(cluster: schema.Cluster) -> None:
    if not cluster.name.strip():
        raise ConfigError("cluster: expected a name, got an empty text")
    try:
        check_plain({"cluster": cluster.name, "cluster.region": cluster.region})
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _cloudwatch(section: schema.CloudWatch | None, folder: Path, cluster: str) -> to_cloudwatch.Settings | None:
    if section is None:
        return None
    if not (cluster.isascii() and cluster.isprintable()):
        raise ConfigError(f"cluster: CloudWatch takes plain ASCII names only, got {cluster!r}")
    try:
        return to_cloudwatch.check(section, folder)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _value(key: str, parse: Any, text: Any) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


def _check_times(times: dict[str, float]) -> None:
    for low, high in (("fast_interval", "stale_after"), ("fast_interval", "full_interval"), ("stale_after", "down_after"),
                      ("fast_interval", "gap_limit"), ("full_interval", "gap_limit")):  # fmt: skip
        if times[low] > times[high]:
            raise ConfigError(f"scrape.{low} ({show_duration(times[low])}) must not be longer than "
                              f"scrape.{high} ({show_duration(times[high])})")  # fmt: skip


def _notes(times: dict[str, float]) -> Iterable[str]:
    if times["deadline"] >= times["stale_after"]:
        yield (f"scrape.deadline ({show_duration(times['deadline'])}) is not shorter than scrape.stale_after "
               f"({show_duration(times['stale_after'])}): a target that takes so long to answer is stale meanwhile")  # fmt: skip


def _check_numbers(file: schema.File) -> None:
    for key, highest in (("requests_waiting", math.inf), ("kv_cache_usage", 1.0)):
        level = getattr(file.saturation, key)
        if not 0 < level <= highest or math.isinf(level):
            most = "" if math.isinf(highest) else f" and at most {highest:g}"
            raise ConfigError(f"saturation.{key}: expected a number above 0{most}, got {level:g}")
    if file.pods.max < 0:
        raise ConfigError(f"pods.max: expected 0 or more, got {file.pods.max}")


def _static(groups: Sequence[schema.StaticGroup], folder: Path) -> tuple[Placed, ...]:
    placed: list[Placed] = []
    for index, group in enumerate(groups):
        where = f"static_targets[{index}]"
        _check_group(where, group)
        auth, tls = _auth(where, group.auth, folder), _tls(where, group.tls, folder)
        urls = [_value(f"{where}.urls[{number}]", normal_url, text) for number, text in enumerate(group.urls)]
        if tls and not any(url.startswith("https:") for url in urls):
            raise ConfigError(f"{where}.tls: no URL of the group begins with https")
        placed += [Placed(place=f"{where}.urls[{number}]", target=Target(
            url=url, namespace=group.namespace, pool=group.pool, pod=host_port(url), model=group.model, engine=group.engine,
            role=group.role, accelerator=group.accelerator, cost_tier=group.cost_tier, auth=auth, tls=tls,
        )) for number, url in enumerate(urls)]  # fmt: skip
    whole = merge([Batch(placed)])
    if whole.faults:
        raise ConfigError(whole.faults[0])
    return tuple(whole.targets)


def _check_group(where: str, group: schema.StaticGroup) -> None:
    for key in ("pool", "namespace"):
        if not getattr(group, key).strip():
            raise ConfigError(f"{where}.{key}: expected a name, got an empty text")
    try:
        check_plain({name: getattr(group, name) for name in NAMES if hasattr(group, name)})
        check_words(group.engine, group.role)
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from error
    if not group.urls:
        raise ConfigError(f"{where}.urls: expected at least one URL")


def _files(groups: Sequence[str | schema.FileGroup], folder: Path) -> tuple[Files, ...]:
    files: list[Files] = []
    for index, group in enumerate(groups):
        where = f"file_targets[{index}]"
        written = schema.FileGroup(path=group) if isinstance(group, str) else group
        if not written.path.endswith(ENDINGS):
            raise ConfigError(f"{where}: expected a path or pattern that ends in {', '.join(ENDINGS)}, got {written.path!r}")
        if any(one.shown == written.path for one in files):
            raise ConfigError(f"{where}: {written.path!r} stands there already")
        files.append(Files(written.path, _from(folder, written.path), _auth(where, written.auth, folder),
                           _tls(where, written.tls, folder)))  # fmt: skip
    return tuple(files)


def _otlp(section: schema.Otlp, folder: Path, environment: Mapping[str, str]) -> OtlpSettings:
    try:
        return read_otlp(section, str(folder), environment)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _auth(where: str, auth: schema.AuthKeys | None, folder: Path) -> Auth | None:
    if auth is None:
        return None
    if bool(auth.bearer_file) == bool(auth.username or auth.password_file):
        raise ConfigError(f"{where}.auth: expected either bearer_file or username with password_file")
    if bool(auth.username) != bool(auth.password_file):
        raise ConfigError(f"{where}.auth: username and password_file belong together")
    if ":" in auth.username:
        raise ConfigError(f"{where}.auth.username: a colon cannot be part of it")
    return Auth(_from(folder, auth.bearer_file), auth.username, _from(folder, auth.password_file))


def _tls(where: str, tls: schema.TlsKeys | None, folder: Path) -> Tls | None:
    if tls is None:
        return None
    if tls.key_file and not tls.cert_file:
        raise ConfigError(f"{where}.tls: key_file needs a cert_file")
    if tls.insecure and (tls.ca_file or tls.server_name):
        raise ConfigError(f"{where}.tls: insecure checks nothing, so ca_file and server_name contradict it")
    return Tls(
        _from(folder, tls.ca_file), _from(folder, tls.cert_file), _from(folder, tls.key_file), tls.server_name, tls.insecure
    )


def _from(folder: Path, name: str) -> str:
    """A file's name seen from where the process runs; names in a file begin at its own folder."""
    return os.path.join(folder, name) if name else ""
