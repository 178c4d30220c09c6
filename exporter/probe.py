"""One look at one URL: which engine, which version, what it tells and what not, and the flag that would change that."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from collector.clock import Clock
from collector.details import ask
from collector.http import Client
from collector.lanes import LOADS_PATH, Reader
from collector.model import Target
from collector.read import Body
from collector.reasons import FailureReason, ReadError
from collector.signals import Lane
from collector.state import State
from exporter.explain import Explanation, explain, understand_whole

_AUTH_HINT = "it asks for a key: --bearer-file FILE here, auth: {bearer_file: FILE} in the configuration"
_ASIDE = {"vllm": "/version", "sglang": LOADS_PATH, "tgi": "/info"}
"""Where each engine tells its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was found at a URL. `failure`: why the page cannot be read; `missing`: why each absent signal is absent."""

    url: str
    engine: str = ""
    version: str = ""
    model: str = ""
    page_bytes: int | None = None
    fast_lane: str = ""
    failure: str = ""
    detail: str = ""
    found: tuple[str, ...] = ()
    missing: Mapping[str, str]
    advice: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


async def probe(target: Target, client: Client, clock: Clock) -> Probe:
    """Look at a target and at what its engine tells beside its page."""
    try:
        body = await client(target)
        explanation = look(target, body, clock)
    except ReadError as error:
        return await _failed(target, client, error)
    reader = Reader(client, clock)
    for lane in (Lane.FULL, Lane.FAST):
        await reader(target, lane)
    version, refused = await _version(target, client, explanation.engine)
    missing = {one.signal: one.absent for one in explanation.signals if one.absent}
    model = explanation.model or await _told_model(target, explanation.engine, client)
    return Probe(url=target.url, engine=explanation.engine, version=version, model=model,
                 page_bytes=explanation.page_bytes, fast_lane=str(reader.way(target)),
                 found=tuple(one.signal for one in explanation.signals if not one.absent), missing=missing,
                 advice=tuple(_advice(explanation, refused=refused)))  # fmt: skip


async def _told_model(target: Target, engine: str, client: Client) -> str:
    details = await ask(target, engine, client)
    return details.model if details else ""


def look(target: Target, body: Body, clock: Clock) -> Explanation:
    """The explanation of a page that stands alone: it rolls into a cluster of one. ReadError when it is none of an engine."""
    now = clock.now()
    reading = understand_whole(target, body, now)
    state = State(cluster="probe")
    state.watch([target], now)
    state.absorb(reading)
    return explain(target, body, reading, state.snapshot(now))


async def _failed(target: Target, client: Client, error: ReadError) -> Probe:
    engine, version, refused = "", "", False
    if error.reason not in (FailureReason.TIMEOUT, FailureReason.REFUSED, FailureReason.DNS, FailureReason.TLS):
        engine, version, refused = await _recognise(target, client)
    return Probe(url=target.url, engine=engine, version=version, failure=error.reason, detail=error.detail, missing={},
                 advice=tuple(_remedies(error.reason, engine, refused=refused)))  # fmt: skip


async def _recognise(target: Target, client: Client) -> tuple[str, str, bool]:
    """Engine and version by what else the server answers, and whether it asked for a key."""
    refused = False
    for engine in _ASIDE:
        version, unauthorized = await _version(target, client, engine)
        refused |= unauthorized
        if version:
            return engine, version, refused
    try:
        owner = json.loads((await client(target, "/v1/models")).content)["data"][0]["owned_by"]
    except ReadError as error:
        return "", "", refused or error.reason is FailureReason.UNAUTHORIZED
    except (ValueError, LookupError, TypeError):
        return "", "", refused
    return (owner if owner in _ASIDE else ""), "", refused


async def _version(target: Target, client: Client, engine: str) -> tuple[str, bool]:
    """The version that the engine tells ("" = it does not), and whether a key is missing."""
    try:
        told = json.loads((await client(target, _ASIDE[engine])).content)
        version = str(told["version"])
    except ReadError as error:
        return "", error.reason is FailureReason.UNAUTHORIZED
    except (ValueError, KeyError, TypeError):
        return "", False
    if engine == "tgi" and "model_id" not in told:
        return "", False
    return "".join(char for char in version if char.isprintable())[:40], False


def _remedies(reason: str, engine: str, *, refused: bool) -> list[str]:
    """What to do when the page cannot be read."""
    match reason:
        case FailureReason.NOT_FOUND if engine in ("", "sglang"):
            known = "" if engine else "if this is SGLang: "
            advice = [f"{known}start it with --enable-metrics, without it there is no metrics page"]
        case FailureReason.NO_KNOWN_FAMILIES if engine in ("", "vllm"):
            known = "" if engine else "if this is vLLM: "
            advice = [f"{known}start it without --disable-log-stats, with it the page holds nothing of the engine"]
        case FailureReason.UNAUTHORIZED:
            return [_AUTH_HINT]
        case FailureReason.REFUSED | FailureReason.TIMEOUT | FailureReason.DNS | FailureReason.CONNECTION_LOST:
            advice = ["is the engine up, and is the address right? engines answer only after their model is loaded"]
        case FailureReason.TLS:
            advice = ["--ca-file FILE here, tls: {ca_file: FILE} in the configuration; http:// if the engine speaks no TLS"]
        case FailureReason.NOT_METRICS | FailureReason.REDIRECT:
            advice = ["the path of vLLM, SGLang and TGI is /metrics; a proxy in front may send something else"]
        case _:
            advice = []
    return advice + ([f"other paths answer 401: {_AUTH_HINT}"] if refused and not engine else [])


def _advice(explanation: Explanation, *, refused: bool) -> list[str]:
    """What would make a readable page tell more."""
    advice = []
    absent = {one.signal for one in explanation.signals if one.absent}
    if explanation.engine == "sglang" and refused:
        advice.append(f"{LOADS_PATH} (short answers, version) answers 401: {_AUTH_HINT}")
    if explanation.engine == "sglang" and "requests_running" in absent:
        advice.append("scheduler families are missing: is this the page of a router in front?")
    if explanation.engine == "vllm" and "adapters_running" in absent:
        advice.append("no adapter family: normal unless vLLM was started with --enable-lora")
    return advice


def as_text(found: Probe) -> list[str]:
    """Lines for people."""
    lines = [found.url]
    if found.failure:
        lines.append(f"  failure      {found.failure}: {found.detail}")
    known = " ".join(part for part in (found.engine, found.version) if part)
    lines.append(f"  engine       {known or 'not recognised'}")
    if found.model:
        lines.append(f"  model        {found.model}")
    if found.page_bytes is not None:
        lines += [f"  page         {found.page_bytes:,} bytes", f"  fast lane    {found.fast_lane}"]
    if found.found:
        lines.append(f"  found        {', '.join(found.found)}")
    lines += [f"  missing      {signal}: {why}" for signal, why in found.missing.items()]
    return lines + [f"  advice       {advice}" for advice in found.advice]
