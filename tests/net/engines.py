"""Scripted servers that answer as recorded engines did: what stands at which path, with and without a key."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.net.scripted import Script, Server, answer

PAGES = Path(__file__).parents[1] / "pages"
KEY = "engine-key"
JSON = {"Content-Type": "application/json"}
NOT_FOUND = answer(b'{"detail":"Not Found"}', "404 Not Found", JSON)
REFUSED = answer(b'{"error":"Unauthorized"}', "401 Unauthorized", JSON)


def page(name: str) -> bytes:
    return (PAGES / f"{name}.prom").read_bytes()


def told(**facts: object) -> bytes:
    return answer(json.dumps(facts).encode(), headers=JSON)


def engine(paths: Mapping[str, bytes], *, locked: tuple[str, ...] = ()) -> Script:
    """A server by path; `locked` paths need the key."""

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(server.paths[-1])
        raw = paths.get(parts.path, NOT_FOUND)
        if parts.path in locked and f"Authorization: Bearer {KEY}\r\n" not in server.requests[-1]:
            raw = REFUSED
        names = set(parse_qs(parts.query).get("name[]", []))
        if names and parts.path == "/metrics/":
            body = paths["/metrics"].partition(b"\r\n\r\n")[2]
            raw = answer(filtered(body, names))
        writer.write(raw)
        await writer.drain()

    return script


def filtered(body: bytes, names: set[str]) -> bytes:
    """What prometheus_client's own app makes of a page: families with a named sample, those samples alone."""
    kept: list[str] = []
    head: list[str] = []
    for line in body.decode().splitlines():
        if line.startswith("# HELP"):
            head = [line]
        elif line.startswith("#"):
            head.append(line)
        elif line.partition("{")[0].partition(" ")[0] in names:
            kept += [*head, line]
            head = []
    return "".join(f"{line}\n" for line in kept).encode()


LOADS = told(version="0.5.23", loads=[{"dp_rank": 0, "num_running_reqs": 2, "num_waiting_reqs": 1, "token_usage": 0.5,
                                       "max_total_num_tokens": 1000}])  # fmt: skip
MODELS = told(object="list", data=[{"id": "tiny-llama", "object": "model", "owned_by": "sglang"}])


def vllm() -> Script:
    return engine(
        {"/metrics": answer(page("vllm-0.32.0-load-queued")), "/version": told(version="0.32.0"), "/health": answer(b"")}
    )


def vllm_without_statistics() -> Script:
    return engine({"/metrics": answer(page("vllm-0.32.0-disable-log-stats")), "/version": told(version="0.32.0")})


def sglang(*, key: bool = False) -> Script:
    """With a key its metrics stay open, and the rest does not."""
    paths = {"/metrics": answer(page("sglang-0.5.23-load-queued")), "/v1/loads": LOADS, "/v1/models": MODELS}
    return engine(paths, locked=("/v1/loads", "/v1/models") if key else ())


def sglang_without_metrics(*, key: bool = False) -> Script:
    return engine({"/v1/loads": LOADS, "/v1/models": MODELS}, locked=("/v1/loads", "/v1/models") if key else ())


def tgi() -> Script:
    info = told(model_id="bigscience/bloom-560m", version="3.3.7", router="text-generation-router")
    return engine({"/metrics": answer(page("tgi-3.3.7-from-source-load")), "/info": info})


def locked() -> Script:
    return engine({"/metrics": answer(page("vllm-0.32.0-load-queued")), "/version": told(version="0.32.0")}, locked=("/metrics",))
