"""The picker's side of the server: endpoints once or as a stream, and a pod's page in the picker's own names."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from exporter.accept import matches
from exporter.hub import Hub
from exporter.picker.dialects import DIALECTS
from exporter.publish.picker import Edition, UnknownFilter, entry, select
from exporter.publish.stream import Step, Story, step
from exporter.sidecar.page import CONTENT_TYPE, Style, render, view_of

LOOK_SECONDS = 0.1
"""How soon a stream tells a change."""
ALIVE_SECONDS = 1.0
SLOW_SECONDS = 5.0
"""How long a stream waits for a reader that does not read."""
MOST_STREAMS = 64
Look = tuple[int, float, list[dict[str, Any]]]
"""Number, moment and entries."""
Query = tuple[tuple[str, str], ...]


class Feed:
    """Handlers over the present state; nothing here waits for a scrape."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._edition = Edition(first=int(hub.clock.now().wall * 1000))
        self._stop = asyncio.Event()
        self._streams = 0
        self._looked: tuple[int, Look] | None = None
        self._steps: dict[tuple[Query, int | None], Step] = {}

    def add_to(self, app: web.Application) -> None:
        """Routes, and the end of all streams when the server shuts down."""
        app.add_routes([
            web.get("/picker/v1/endpoints", self._once),
            web.get("/picker/v1/stream", self._stream, allow_head=False),  # its head never ends
            web.get("/picker/pods/{namespace}/{pod}/metrics", self._pod),
        ])  # fmt: skip
        app.on_shutdown.append(self._end)

    async def _end(self, _: web.Application) -> None:
        self._stop.set()

    def _present(self) -> Look:
        now = self._hub.clock.now()
        entries = [entry(self._hub.state.cluster, endpoint) for endpoint in self._hub.state.endpoints(now)]
        return self._edition.of(entries), now.wall, entries

    def _look(self) -> Look:
        """The present as streams see it: looked at once for all of them, since a look costs milliseconds of the loop."""
        turn = int(asyncio.get_running_loop().time() / LOOK_SECONDS)
        if self._looked is None or self._looked[0] != turn:
            self._looked = turn, self._present()
            self._steps.clear()
        return self._looked[1]

    def _step(self, story: Story, query: Query) -> tuple[Step, float]:
        """What a reader is told in this turn, and when; made once for all who want the same and know the same."""
        number, now, entries = self._look()
        if story.number == number and story.told is not None:
            return Step(number, story.told, b""), now
        key = query, story.number
        if key not in self._steps:
            try:
                chosen = select(entries, query)
            except UnknownFilter:  # the last pod of a pool went
                chosen = []
            self._steps[key] = step(story.told, chosen, number=number, now=now)
        return self._steps[key], now

    async def _once(self, request: web.Request) -> web.Response:
        number, now, entries = self._present()
        tag = f'"{number}"'
        try:
            chosen = select(entries, list(request.query.items()))
        except UnknownFilter as error:
            return web.json_response({"error": str(error)}, status=400)
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if matches(request.headers.get("If-None-Match", ""), tag):
            return web.Response(status=304, headers=headers)
        body = msgspec.json.encode({"snapshot": number, "now": now, "endpoints": chosen})
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        query = tuple(request.query.items())
        try:
            select(self._present()[2], query)
        except UnknownFilter as error:
            return web.json_response({"error": str(error)}, status=400)
        if self._streams >= MOST_STREAMS:
            return web.Response(status=503, text=f"{MOST_STREAMS} streams are open already\n", headers={"Retry-After": "5"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store",
                                               "X-Accel-Buffering": "no"})  # fmt: skip
        self._streams += 1
        try:
            await response.prepare(request)
            with suppress(ConnectionError, TimeoutError):
                await self._tell(response, query)
        finally:
            self._streams -= 1
        return response

    async def _tell(self, response: web.StreamResponse, query: Query) -> None:
        story, loop = Story(), asyncio.get_running_loop()
        said_at = loop.time()
        while not self._stop.is_set():
            found, now = self._step(story, query)
            if news := story.take(found, now=now, alive=loop.time() - said_at >= ALIVE_SECONDS):
                async with asyncio.timeout(SLOW_SECONDS):
                    await response.write(news)
                said_at = loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS - loop.time() % LOOK_SECONDS):
                    await self._stop.wait()

    async def _pod(self, request: web.Request) -> web.Response:
        names = request.query.get("names", "vllm")
        if names not in DIALECTS or set(request.query) - {"names"}:
            return web.Response(status=400, text=f"the only parameter is names, one of {', '.join(DIALECTS)}\n")
        where = (request.match_info["namespace"], request.match_info["pod"])
        endpoints = [one for one in self._hub.state.endpoints(self._hub.clock.now())
                     if (one.target.namespace, one.target.pod) == where]  # fmt: skip
        if not endpoints:
            return web.Response(status=404, text=f"no pod {where[1]!r} in namespace {where[0]!r}\n")
        view = view_of(endpoints)
        if view is None:
            states = ", ".join(sorted({one.state for one in endpoints}))
            return web.Response(status=503, text=f"no current values: {states}\n")
        return web.Response(body=render(view, Style(names=names)), headers={"Content-Type": CONTENT_TYPE})
