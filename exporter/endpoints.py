"""Keeps the files from which pickers without Kubernetes learn their endpoints."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from collector.targets import check_plain
from exporter import schema
from exporter.log import say

if TYPE_CHECKING:
    from exporter.hub import Hub

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class EndpointsFile:
    """A file, and the pool whose endpoints it lists."""

    namespace: str
    pool: str
    path: str


def check_files(picker: schema.Picker, folder: Path) -> tuple[EndpointsFile, ...]:
    """The files of a configuration, names from `folder` on. ConfigError names what is wrong."""
    from exporter.config import ConfigError

    files: list[EndpointsFile] = []
    for index, one in enumerate(picker.endpoints_files):
        where, path = f"picker.endpoints_files[{index}]", os.path.join(folder, one.path)
        if not one.pool.strip() or not one.namespace.strip():
            raise ConfigError(f"{where}: expected the names of a namespace and a pool")
        try:
            check_plain({"pool": one.pool, "namespace": one.namespace})
        except ValueError as error:
            raise ConfigError(f"{where}.{error}") from error
        if not one.path.endswith((".yaml", ".yml")):
            raise ConfigError(f"{where}.path: expected a file that ends in .yaml or .yml, got {one.path!r}")
        if any(file.path == path for file in files):
            raise ConfigError(f"{where}.path: {one.path!r} stands there already, and a picker serves one pool")
        files.append(EndpointsFile(one.namespace, one.pool, path))
    return tuple(files)


class Keeper:
    """Writes each file when its content changes; says once what cannot be written, and what was left out."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def keep(self, hub: "Hub") -> None:
        """Bring all files up to date, once all sources of targets have said theirs: before, a picker would lose its pods."""
        from exporter.picker.discovery import Unwritable, listing, replace_file

        if not hub.endpoints_files or hub.roster.silent:
            return
        endpoints = hub.state.endpoints(hub.clock.now())
        for file in hub.endpoints_files:
            trouble = ""
            try:
                found = listing(endpoints, (file.namespace, file.pool))
                replace_file(Path(file.path), found.text)
                if not any(one.target.pool_key == (file.namespace, file.pool) for one in endpoints):
                    trouble = f"no target of {file.namespace}/{file.pool} is known"
                if found.left_out:
                    trouble = f"left out, since a picker takes IPv4 addresses alone: {', '.join(found.left_out[:5])}"
            except (OSError, UnicodeDecodeError, Unwritable) as error:
                trouble = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            if trouble != self._told.get(file.path, ""):
                level = logging.WARNING if trouble else logging.INFO
                say(_log, level, "endpoints file", file=file.path, trouble=trouble or "none any more")
            self._told[file.path] = trouble


async def keep_endpoints(hub: "Hub", sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Keep the files for ever."""
    keeper = Keeper()
    while True:
        keeper.keep(hub)
        await sleep(_LOOK_SECONDS)
