"""What no metrics page tells: version, request limit, loaded adapters, TGI's model. Asked of the server's own JSON now and then.

Sources: vLLM `/version` and `/v1/models`; SGLang `/v1/loads` and `/v1/models`; TGI `/info`. A server that does not answer, or
asks for a key, leaves the fact unknown and nothing else disturbed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.model import Target
from collector.read import Fetch
from collector.reasons import ReadError


@dataclass(frozen=True, slots=True)
class Details:
    """None or "" where the server does not tell."""

    version: str = ""
    requests_max: float | None = None
    adapters_loaded: frozenset[str] | None = None
    model: str = ""


PATHS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("/version", "/v1/models"), "sglang": ("/v1/loads", "/v1/models"), "tgi": ("/info",)
}  # fmt: skip
_LARGEST = 1 << 18
"""Bytes of an answer; a larger one says nothing, and would hold up everything else while it is read."""


async def ask(target: Target, engine: str, fetch: Fetch) -> Details | None:
    """Ask a server of the engine, one question at a time; None when it answers none. Never raises for what it does."""
    answers = {path: await _answer(target, path, fetch) for path in PATHS.get(engine, ())}
    return understand_details(answers) if any(answer is not None for answer in answers.values()) else None


async def _answer(target: Target, path: str, fetch: Fetch) -> Any:
    try:
        body = await fetch(target, path)
        return json.loads(body.content) if len(body.content) <= _LARGEST else None
    except (ReadError, ValueError, RecursionError):
        return None


def understand_details(answers: Mapping[str, Any]) -> Details:
    """Facts in parsed answers by path; an answer of another shape says nothing."""
    said: dict[str, Any] = {}
    for answer in answers.values():
        said |= answer if isinstance(answer, dict) else {}
    return Details(
        version=_text(said.get("version")),
        requests_max=_limit(said),
        adapters_loaded=_adapters(answers.get("/v1/models")),
        model=_text(said.get("model_id")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


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
