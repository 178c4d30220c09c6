"""Commands that look at single URLs: probe, init, explain."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collector.auth import Auth, Tls
from collector.clock import SystemClock
from collector.file_targets import FileSource
from collector.http import open_fetch
from collector.model import Target
from collector.targets import Batch, merge
from collector.urls import normal_url
from exporter.config import Config
from exporter.explain import Explanation
from exporter.picker.bundle import Unfit, Wish, bundle
from exporter.picker.lint import Verdict, lint
from exporter.picker.standing import Standing, standing
from exporter.probe import Probe, look, probe
from exporter.units import parse_duration

_AT_ONCE = 16
_MAX_BODY = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How single URLs are reached."""

    bearer_file: str = ""
    ca_file: str = ""
    insecure: bool = False
    deadline: str = "5s"

    @property
    def seconds(self) -> float:
        """ValueError for a deadline that is no duration."""
        return parse_duration(self.deadline)

    def target(self, url: str) -> Target:
        """A target that is only looked at. ValueError for a URL that cannot be one."""
        return Target(url=normal_url(url), namespace="default", pool="probe", pod="probe",
                      auth=Auth(bearer_file=self.bearer_file) if self.bearer_file else None,
                      tls=Tls(ca_file=self.ca_file, insecure=self.insecure))  # fmt: skip


async def probe_all(targets: Sequence[Target], *, deadline_seconds: float) -> list[Probe]:
    """Look at each, in the order given."""
    slots = asyncio.Semaphore(_AT_ONCE)
    clock = SystemClock()
    async with open_fetch(deadline_seconds=deadline_seconds, max_body=_MAX_BODY) as client:

        async def one(target: Target) -> Probe:
            async with slots:
                return await probe(target, client, clock)

        return list(await asyncio.gather(*map(one, targets)))


async def explain_one(target: Target, *, deadline_seconds: float) -> Explanation:
    """The explanation of a target's page as it is now. ReadError when it cannot be read."""
    async with open_fetch(deadline_seconds=deadline_seconds, max_body=_MAX_BODY) as client:
        return look(target, await client(target), SystemClock())


async def place_in_pool(config: Config, target: Target) -> Standing:
    """How a picker would judge the target now, beside the others of its pool."""
    from exporter.app import read_once

    pool = tuple(one for one in known_targets(config) if one.pool_key == target.pool_key)
    hub, _ = await read_once(msgspec.structs.replace(config.with_targets(pool), files=()))
    return standing(target, hub.state.endpoints(hub.clock.now()))


async def lint_one(
    target: Target, *, deadline_seconds: float, engine_type: str = "", ports: Sequence[int] = ()
) -> Verdict:  # fmt: skip
    """What a picker makes of a target's page as it is now. ReadError when it cannot be read."""
    async with open_fetch(deadline_seconds=deadline_seconds, max_body=_MAX_BODY) as client:
        return lint(target, await client(target), engine_type=engine_type, ports=ports)


async def picker_configs(config: Config, wish: Wish) -> tuple[dict[str, str], list[str]]:
    """Text by file name, one a pool; and pools whose engine is not known. Unfit when a pool cannot be fed as wished."""
    by_pool: dict[tuple[str, str], list[Target]] = {}
    for target in known_targets(config):
        by_pool.setdefault(target.pool_key, []).append(target)
    files: dict[str, str] = {}
    unseen = []
    for pool, targets in sorted(by_pool.items()):
        unknown = [target for target in targets if not target.engine]
        seen = await probe_all(unknown, deadline_seconds=config.deadline)
        engines = ({one.engine for one in targets} | {one.engine for one in seen}) - {""}
        unseen += [] if engines else ["/".join(pool)]
        name = f"{pool[0]}-{pool[1]}.yaml"
        if name in files or "/" in name:
            why = "which another pool has too" if name in files else "which is no name of a file"
            raise Unfit(f"{pool[0]}/{pool[1]}: its file would be {name}, {why}; render it from a configuration of its own")
        files[name] = bundle(pool, targets, engines, wish, config.full)
    return files, unseen


def known_targets(config: Config) -> list[Target]:
    """Targets of a configuration and of the files it names."""
    files = [source.look() for source in config.sources if isinstance(source, FileSource)]
    return [one.target for one in merge([Batch(config.placed), *files]).targets]


def find_targets(config: Config, name: str) -> list[Target]:
    """Targets of a configuration, and of the files it names, that are called so: by pod, address, UID or URL."""
    return [
        one for one in known_targets(config) if name in (one.pod, one.address, one.uid, one.url, one.url.removesuffix("/metrics"))
    ]


def is_url(text: str) -> bool:
    return "://" in text


def existing(path: str) -> str:
    """A file of a flag. ValueError when it is not there."""
    if path and not Path(path).is_file():
        raise ValueError(f"no such file: {path}")
    return path
