"""What no metrics page tells: version, request limit, loaded adapters. Asked of the server's own JSON, now and then.

Sources: vLLM `/version` and `/v1/models`; SGLang `/v1/loads` and `/v1/models`; TGI `/info`. A server that does not answer, or
asks for a key, leaves the fact unknown and nothing else disturbed.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from collector.model import Target
from collector.reasons import ReadError


@dataclass(frozen=True, slots=True)
class Details:
    """None or "" where the server does not tell."""

    version: str = ""
    requests_max: float | None = None
    adapters_loaded: frozenset[str] | None = None


Get = Callable[[Target], Awaitable[bytes]]
_PATHS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("/version", "/v1/models"), "sglang": ("/v1/loads", "/v1/models"), "tgi": ("/info",)
}  # fmt: skip


async def ask(target: Target, engine: str, get: Get) -> Details:
    """Ask a server of the engine; never raises for what it does."""
    answers = await asyncio.gather(*(_answer(target, path, get) for path in _PATHS.get(engine, ())))
    return understand_details(dict(zip(_PATHS.get(engine, ()), answers, strict=True)))


async def _answer(target: Target, path: str, get: Get) -> Any:
    parts = urlsplit(target.url)
    try:
        return json.loads(await get(replace(target, url=f"{parts.scheme}://{parts.netloc}{path}", uid="")))
    except (ReadError, ValueError, RecursionError):
        return None


def understand_details(answers: Mapping[str, Any]) -> Details:
    """Facts in parsed answers by path; an answer of another shape says nothing."""
    said: dict[str, Any] = {}
    for answer in answers.values():
        said |= answer if isinstance(answer, dict) else {}
    version = said.get("version")
    return Details(
        version=version if isinstance(version, str) else "",
        requests_max=_limit(said),
        adapters_loaded=_adapters(answers.get("/v1/models")),
    )


def _limit(said: Mapping[str, Any]) -> float | None:
    loads = said.get("loads")
    if isinstance(loads, list):
        limits = [_count(one.get("max_running_requests")) for one in loads if isinstance(one, dict)]
        known = [limit for limit in limits if limit is not None]
        return sum(known) if known and len(known) == len(loads) else None
    return _count(said.get("max_concurrent_requests"))


def _count(number: object) -> float | None:
    return float(number) if type(number) is int and 0 <= number < 1 << 31 else None


def _adapters(models: Any) -> frozenset[str] | None:
    """Models that name a parent are adapters on it."""
    rows = models.get("data") if isinstance(models, dict) else None
    if not isinstance(rows, list):
        return None
    return frozenset(row["id"] for row in rows if isinstance(row, dict) and row.get("parent") and isinstance(row.get("id"), str))
