"""Details over real sockets: the paths beside the page, through the client that reads the pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collector.http import open_fetch
from collector.read import read
from collector.signals import Lane
from exporter.asking import ask_due
from tests.make import HandClock, pod_row, pool_row, state, target

PAGES = {
    "vllm": "vllm:num_requests_running{engine=\"0\"} 1\n", "sglang": "sglang:num_running_reqs{tp_rank=\"0\"} 1\n",
    "tgi": "tgi_batch_current_size 1\n",
}  # fmt: skip
ANSWERS: dict[str, dict[str, object]] = {
    "vllm": {
        "/version": {"version": "0.32.0"},
        "/v1/models": {"data": [{"id": "a", "parent": "m"}, {"id": "m", "parent": None}]},
    },
    "sglang": {"/v1/loads": {"version": "0.5.23", "loads": [{"max_running_requests": 48}]}},
    "tgi": {"/info": {"version": "3.3.7", "max_concurrent_requests": 128, "model_id": "bloom"}},
}


@asynccontextmanager
async def server(engine: str, asked: list[str]) -> AsyncIterator[str]:
    """An engine that serves its page and its own JSON; anything else is not found."""

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        if request.path == "/metrics":
            return web.Response(text=PAGES[engine])
        answer = ANSWERS[engine].get(request.path)
        return web.json_response(answer) if answer is not None else web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("engine", "version", "limit", "loaded"),
    [("vllm", "0.32.0", None, 1), ("sglang", "0.5.23", 48, None), ("tgi", "3.3.7", 128, None)],
)
async def test_details_reach_every_level(engine: str, version: str, limit: float | None, loaded: float | None) -> None:
    asked: list[str] = []
    clock = HandClock()
    async with server(engine, asked) as base, open_fetch(deadline_seconds=5.0, max_body=1 << 20) as fetch:
        pod = target(url=f"{base}/metrics?verbose=1")
        core = state(pod)
        core.absorb(await read(pod, Lane.FULL, fetch=fetch, clock=clock))
        assert await ask_due(core, fetch, clock, every_seconds=60.0) == 1
    cut = core.snapshot(clock.now())
    assert pod_row(cut).info["version"] == version
    for row in (pod_row(cut), pool_row(cut)):
        assert (row.gauges.get(("requests_max", "")), row.gauges.get(("adapters_loaded", ""))) == (limit, loaded)
    assert cut.cluster.gauges.get(("requests_max", "")) == limit
    if engine == "tgi":
        assert (pod_row(cut).info["model"], pool_row(cut).info["model"]) == ("bloom", "bloom")
    assert asked[0] == "/metrics?verbose=1"
    assert not any("verbose" in path for path in asked[1:])
