"""Where targets come from, and how the sets of several sources become one."""

import asyncio
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit

from collector.engines import ENGINES
from collector.model import Target

_log = logging.getLogger(__name__)

_BREAKING = ("Cc", "Zl", "Zp")
ROLES = ("both", "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A target and the place where it is written. `named`: its pod was named there, else its address stands for it."""

    target: Target
    place: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """All that a source knows at a moment, and what of it could not be read: there its last good targets stand."""

    targets: Sequence[Placed] = ()
    faults: Sequence[str] = ()


Push = Callable[[Batch], None]


class Source(Protocol):
    """Pushes its whole set at first and again each time it changes, until it is cancelled or nothing can change any more."""

    @property
    def name(self) -> str: ...

    async def watch(self, push: Push) -> None: ...


@dataclass(frozen=True, slots=True)
class Static:
    """Targets that stand in the configuration."""

    targets: Sequence[Placed]
    name: str = "static_targets"

    async def watch(self, push: Push) -> None:
        push(Batch(self.targets))


def merge(batches: Iterable[Batch]) -> Batch:
    """One set of distinct targets. What is written twice is read once, and the second place is a fault that names both."""
    kept: list[Placed] = []
    faults: list[str] = []
    places: dict[str, str] = {}
    for batch in batches:
        faults += batch.faults
        for one in batch.targets:
            names = {one.target.url.partition("://")[2], one.target.key}
            if (first := next((places[name] for name in names if name in places), None)) is not None:
                faults.append(f"{one.place}: {one.target.url} stands already at {first}; a target belongs to one place")
                continue
            places |= dict.fromkeys(names, one.place)
            kept.append(one)
    return Batch(_distinct_pods(kept), faults)


def _distinct_pods(placed: Sequence[Placed]) -> list[Placed]:
    """Where one host:port stands twice in a pool, its targets are two pods unless they were named.

    They are told apart by their paths, and by a number where only the query differs: a query can hold a secret.
    """
    times = Counter((one.target.pool_key, one.target.pod) for one in placed if not one.named)
    seen: Counter[tuple[tuple[str, str], str]] = Counter()
    distinct: list[Placed] = []
    for one in placed:
        if not one.named and times[one.target.pool_key, one.target.pod] > 1:
            name = one.target.pod + urlsplit(one.target.url).path
            seen[one.target.pool_key, name] += 1
            number = seen[one.target.pool_key, name]
            one = replace(one, target=replace(one.target, pod=name if number == 1 else f"{name}#{number}"))
        distinct.append(one)
    return distinct


class Roster:
    """The present set over all sources. `changed` is called with the targets whenever a push makes a difference."""

    def __init__(self, changed: Callable[[tuple[Target, ...]], None]) -> None:
        self.targets: tuple[Target, ...] = ()
        self.faults: tuple[str, ...] = ()
        self._changed = changed
        self._sources: Sequence[Source] = ()
        self._batches: dict[str, Batch] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()

    def follow(self, sources: Sequence[Source]) -> None:
        """Listen to these sources from now on. One that was there before keeps what it knows, and its targets."""
        self.stop()
        self._sources = [next((old for old in self._sources if old == new), new) for new in sources]
        names = {source.name for source in self._sources}
        self._batches = {name: batch for name, batch in self._batches.items() if name in names}
        self._tasks = [asyncio.create_task(self._listen(source), name=f"watch {source.name}") for source in self._sources]
        if not self._sources:
            self._settle()

    async def _listen(self, source: Source) -> None:
        try:
            await source.watch(self._taker(source.name))
        except Exception:
            _log.exception("source of targets broke: source=%s", source.name)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    @property
    def silent(self) -> list[str]:
        """Sources that have not spoken yet."""
        return [source.name for source in self._sources if source.name not in self._batches]

    @property
    def good(self) -> Mapping[str, bool]:
        """By source: whether all of it could be read."""
        return {name: not batch.faults for name, batch in self._batches.items()}

    async def settled(self) -> None:
        """Wait until every source has spoken."""
        while self.silent:
            self._news.clear()
            await self._news.wait()

    def _taker(self, name: str) -> Push:
        def take(batch: Batch) -> None:
            self._batches[name] = batch
            self._settle()
            self._news.set()

        return take

    def _settle(self) -> None:
        whole = merge(self._batches[source.name] for source in self._sources if source.name in self._batches)
        self.faults = tuple(whole.faults)
        targets = tuple(one.target for one in whole.targets)
        if targets != self.targets:
            self.targets = targets
            self._changed(targets)


def check_words(engine: str, role: str) -> None:
    """ValueError, led by the key, for an engine or role that is not one of the known."""
    if engine and engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    if role and role not in ROLES:
        raise ValueError(f"role: expected one of {', '.join(ROLES)}, got {role!r}")


NAMES = ("pool", "namespace", "pod", "uid", "model", "accelerator", "cost_tier", "node")


def check_plain(names: Mapping[str, str]) -> None:
    """ValueError, led by the key, for a control character or break of line: names reach comments, file names and logs."""
    for key, name in names.items():
        if any(unicodedata.category(char) in _BREAKING for char in name):
            raise ValueError(f"{key}: expected a text without control characters, got {name!r}")


def host_port(url: str) -> str:
    """What names the pod behind a URL that has no other name."""
    return urlsplit(url).netloc
