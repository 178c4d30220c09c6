"""What a pod answers over HTTP: its metrics page and the few other endpoints that scrapers and health checks
ask.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter.demo.pages import sglang
from exporter.demo.pod import Pod

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
VLLM_PLAIN = "text/plain; version=1.0.0; charset=utf-8"
TGI_PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, Content-Type (none for an empty body) and body; `zipped` bodies are gzip."""

    status: int = 200
    content_type: str | None = None
    body: bytes = b""
    zipped: bool = False


NOT_FOUND = Answer(404, JSON, b'{"detail":"Not Found"}')


def answer(pod: Pod, path: str, *, names: Sequence[str] = (), accept_encoding: str = "") -> Answer:
    """The answer of a living pod to GET `path`, with the values of `name[]` and of Accept-Encoding."""
    kind = pod.plan.engine.kind
    if path.startswith("/metrics"):
        return _metrics(pod, path, names=names, zips="gzip" in accept_encoding)
    if path == "/health":
        return Answer()
    if path == "/v1/models":
        return _json(_models(pod))
    if path == "/version" and kind == "vllm":
        return _json({"version": pod.plan.engine.version})
    if path == "/v1/loads" and kind == "sglang":
        return _json(sglang.loads(pod.process, now=pod.now))
    if path == "/info" and kind == "tgi":
        return _json(_tgi_info(pod))
    return NOT_FOUND


def _metrics(pod: Pod, path: str, *, names: Sequence[str], zips: bool) -> Answer:
    kind = pod.plan.engine.kind
    if kind == "tgi":
        return Answer(200, TGI_PLAIN, pod.page().encode()) if path == "/metrics" else Answer(404)
    if kind == "sglang":
        # The multiprocess registry does not know the names: a filter leaves nothing.
        return _maybe_zipped("" if names else pod.page(), zips=zips)
    if path == "/metrics":
        return Answer(200, VLLM_PLAIN, pod.page().encode())
    return _maybe_zipped(pod.restricted_page(frozenset(names)) if names else pod.page(), zips=zips)


def _maybe_zipped(page: str, *, zips: bool) -> Answer:
    body = page.encode()
    return Answer(200, PLAIN, gzip.compress(body, 6) if zips else body, zips)


def _json(value: Mapping[str, object]) -> Answer:
    return Answer(200, JSON, json.dumps(value, separators=(",", ":")).encode())


def _models(pod: Pod) -> dict[str, object]:
    config, created = pod.plan.engine, int(pod.process.started_wall)
    base = {"object": "model", "created": created, "owned_by": config.kind}
    rows: list[dict[str, object]] = [
        {
            "id": config.model,
            **base,
            "root": config.model,
            "parent": None,
            "max_model_len": config.max_model_len,
        }
    ]
    if config.kind == "vllm":
        rows += [{"id": name, **base, "root": name, "parent": config.model, "max_model_len": None} for name in config.adapters]
    return {"object": "list", "data": rows}


def _tgi_info(pod: Pod) -> dict[str, object]:
    config = pod.plan.engine
    return {
        "model_id": config.model,
        "max_concurrent_requests": config.max_queue or 128,
        "max_input_tokens": config.max_model_len - 1,
        "max_total_tokens": config.max_model_len,
        "version": config.version,
        "router": "text-generation-router",
    }
