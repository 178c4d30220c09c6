"""/debug/target: the explanation of one pod's targets as they are now, for this machine and for who has the token."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from collector.http import Client
from collector.lanes import Reader
from collector.model import Target
from collector.reasons import ReadError
from collector.signals import Lane
from exporter.explain import explain, understand_whole
from exporter.hub import Hub
from exporter.picker.standing import standing

Explain = Callable[[str], Awaitable[list[dict[str, Any]]]]


def allowed(peer: str | None, authorization: str, bearer_file: str) -> bool:
    """Whether a client may look: from this machine, or with the token of the file."""
    try:
        address = ip_address((peer or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    if (mapped or address).is_loopback:
        return True
    return bool(bearer_file) and _has_token(authorization, bearer_file)


def _has_token(authorization: str, bearer_file: str) -> bool:
    kind, _, token = authorization.partition(" ")
    try:
        expected = Path(bearer_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(expected) and kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), expected.encode())


@dataclass(frozen=True, slots=True)
class Debugger:
    """Explains the targets of a pod: what is remembered of them, and their pages as they are at this moment."""

    hub: Hub
    client: Client
    reader: Reader

    async def __call__(self, pod: str) -> list[dict[str, Any]]:
        """One entry a target whose pod, address or URL is `pod`; none when there is none."""
        targets = [track.target for track in self.hub.state.tracks.values()
                   if pod in (track.target.pod, track.target.address, track.target.url, track.target.uid)]  # fmt: skip
        return [await self._one(target) for target in sorted(targets, key=lambda one: one.key)]

    async def _one(self, target: Target) -> dict[str, Any]:
        track = self.hub.state.tracks[target.key]
        now = self.hub.clock.now()
        known: dict[str, Any] = {
            "url": target.url, "namespace": target.namespace, "pool": target.pool, "pod": target.pod, "uid": target.uid or None,
            "state": track.state(now.mono, self.hub.state.limits), "engine": track.engine or None, "model": track.model or None,
            "age_seconds": {lane: track.age(lane, now.mono) for lane in Lane}, "fast_lane": self.reader.way(target),
            "failure": None if track.failure is None else {"reason": track.failure.reason, "detail": track.failure.detail},
        }  # fmt: skip
        known["picker"] = standing(target, self.hub.state.endpoints(now)).as_data()
        try:
            body = await self.client(target)
            reading = understand_whole(target, body, self.hub.clock.now())
            known["page"] = explain(target, body, reading, await asyncio.to_thread(self.hub.moment().snapshot)).as_data()
        except ReadError as error:
            known["page"] = {"failure": {"reason": error.reason, "detail": error.detail}}
        return known
