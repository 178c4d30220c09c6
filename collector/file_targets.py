"""Targets from files in the form of Prometheus' file_sd, JSON or YAML, read anew when they change."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

from collector.auth import Auth, Stamp, Tls, stamp
from collector.model import Target
from collector.strict_yaml import read_yaml
from collector.targets import NAMES, Batch, Placed, Push, check_plain, check_words, host_port
from collector.urls import normal_url

ENDINGS = (".json", ".yaml", ".yml")
LOOK_EVERY_SECONDS = 1.0


@dataclass(slots=True)
class _File:
    """What was last read well from a file, and what is wrong with it since."""

    stamp: Stamp = ()
    targets: list[Placed] = field(default_factory=list)
    fault: str = ""
    missing: bool = False


@dataclass(slots=True)
class FileSource:
    """All files that fit a pattern. A file that cannot be read, or only half of it, keeps the targets it had."""

    pattern: str
    auth: Auth | None = None
    tls: Tls | None = None
    shown: str = ""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, compare=False)
    _files: dict[str, _File] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The pattern as it stands in the configuration."""
        return self.shown or self.pattern

    async def watch(self, push: Push) -> None:
        last: Batch | None = None
        while True:
            batch = await asyncio.to_thread(self.look)
            if batch != last:
                push(batch)
                last = batch
            await self.sleep(LOOK_EVERY_SECONDS)

    def look(self) -> Batch:
        """Read what changed since the last call.

        A file that is gone counts once more: who replaces a file may take it away for a moment.
        """
        present = sorted(glob(self.pattern, recursive=True))
        for path in present:
            self._read(path, self._files.setdefault(path, _File()))
        for path in self._files.keys() - set(present):
            if self._files[path].missing:
                del self._files[path]
            else:
                self._files[path].missing = True
                self._files[path].stamp = ()
        files = [self._files[path] for path in sorted(self._files)]
        return Batch([one for file in files for one in file.targets], [file.fault for file in files if file.fault])

    def _read(self, path: str, known: _File) -> None:
        known.missing = False
        try:
            now = stamp(path)
            if now == known.stamp:
                return
            known.stamp = now
            known.targets = read_file(Path(path), auth=self.auth, tls=self.tls)
            known.fault = ""
        except OSError as error:
            known.fault = f"{path}: cannot be read: {error.strerror or error}"
        except ValueError as error:
            known.fault = f"{path}: {error}"


def read_file(path: Path, *, auth: Auth | None = None, tls: Tls | None = None) -> list[Placed]:
    """Targets of one file. ValueError says what is wrong with it, and where."""
    text = path.read_text(encoding="utf-8")
    try:
        groups = json.loads(text) if path.suffix == ".json" else read_yaml(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid {'JSON' if path.suffix == '.json' else 'YAML'}: {error}") from error
    if not isinstance(groups, list):
        raise ValueError("expected a list of groups such as {targets: [host:port], labels: {pool: name}}")
    return [one for number, group in enumerate(groups) for one in _group(f"[{number}]", group, str(path), auth=auth, tls=tls)]


def _group(where: str, group: Any, path: str, *, auth: Auth | None, tls: Tls | None) -> list[Placed]:
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        raise ValueError(f"{where}: expected a group with a list 'targets' and labels")
    if unknown := sorted(map(str, group.keys() - {"targets", "labels"})):
        raise ValueError(f"{where}.{unknown[0]}: unknown key; known keys: targets, labels")
    labels = _labels(f"{where}.labels", group.get("labels") or {})
    said = labels.get
    placed = []
    for number, address in enumerate(group["targets"]):
        place = f"{where}.targets[{number}]"
        if not isinstance(address, str):
            raise ValueError(f"{place}: expected host:port, got {address!r}")
        bare = f"{labels.get('__scheme__') or 'http'}://{address}"
        try:
            url = normal_url(address if "://" in address else bare + labels.get("__metrics_path__", ""))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        pod = said("pod", "")
        target = Target(url=url, namespace=said("namespace") or "default", pool=labels["pool"], pod=pod or host_port(url),
                        uid=said("uid", ""), model=said("model", ""), engine=said("engine", ""), role=said("role", ""),
                        accelerator=said("accelerator", ""), cost_tier=said("cost_tier", ""), node=said("node", ""),
                        auth=auth, tls=tls)  # fmt: skip
        placed.append(Placed(target=target, place=f"{path}{place}", named=bool(pod or target.uid)))
    return placed


def _labels(where: str, labels: Any) -> Mapping[str, str]:
    if not isinstance(labels, dict):
        raise ValueError(f"{where}: expected names with texts")
    for name, value in labels.items():
        if not isinstance(value, str):
            raise ValueError(f"{where}.{name}: expected text, got {value!r}")
    if not labels.get("pool", "").strip():
        raise ValueError(f"{where}.pool: missing; it is required")
    try:
        check_plain({name: labels[name] for name in NAMES if name in labels})
        check_words(labels.get("engine", ""), labels.get("role", ""))
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from error
    return labels
