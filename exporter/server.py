"""The HTTP side of the process: everything is answered from the present state, nothing waits for a scrape or holds one up."""

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

import msgspec
from aiohttp import web

from collector.seldom import Seldom
from exporter.accept import weights
from exporter.debug import Explain, allowed
from exporter.feed import Feed
from exporter.hub import Hub, Moment
from exporter.publish.prometheus import Format, choose_format, render
from exporter.web.page import render_page

_log = logging.getLogger(__name__)
_HUB = web.AppKey("hub", Hub)
_SELDOM = web.AppKey("seldom", Seldom)
_EXPLAIN = web.AppKey[Explain]("explain")
_THREAD = web.AppKey("thread", Executor)
_PACK_FROM_BYTES = 1024
_T = TypeVar("_T")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_server(hub: Hub, explain: Explain | None = None) -> web.Application:
    """The application with all its routes; /debug/target only where there is something that explains."""
    app = web.Application(middlewares=[_plain_errors])
    app[_HUB] = hub
    app[_SELDOM] = Seldom()
    app[_THREAD] = ThreadPoolExecutor(1, "answers")
    app.on_cleanup.append(_end_thread)
    app.add_routes([
        web.get("/", _page),
        web.get("/metrics", _metrics),
        web.get("/healthz", _healthz),
        web.get("/readyz", _readyz),
    ])  # fmt: skip
    Feed(hub).add_to(app)
    if explain is not None:
        app[_EXPLAIN] = explain
        app.add_routes([web.get("/debug/target", _debug)])
    return app


async def _end_thread(app: web.Application) -> None:
    app[_THREAD].shutdown(wait=False, cancel_futures=True)


@web.middleware
async def _plain_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:
        if request.app[_SELDOM].worth(error, request.app[_HUB].clock.now().mono):
            _log.exception("answer broke: path=%s", request.path)
        return web.Response(status=500, text="internal error; see the log\n")


async def _page(request: web.Request) -> web.Response:
    moment = request.app[_HUB].moment()
    return web.Response(text=await _beside(request, lambda: render_page(moment.snapshot())), content_type="text/html")


async def _metrics(request: web.Request) -> web.Response:
    hub = request.app[_HUB]
    form = choose_format(request.headers.get("Accept", ""))
    moment, packed = hub.moment(), _takes_gzip(request)
    hub.own.sources_good = hub.roster.good
    body = await _beside(request, lambda: _whole_page(hub, moment, form))
    headers = {"Content-Type": form.value, "Vary": "Accept, Accept-Encoding"}
    if packed and len(body) >= _PACK_FROM_BYTES:
        body = await _beside(request, lambda: gzip.compress(body, compresslevel=1))
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def _whole_page(hub: Hub, moment: Moment, form: Format) -> bytes:
    snapshot = moment.snapshot()
    page, hub.own.series = render(snapshot, form, max_pods=hub.max_pods)
    hub.own.pods_dropped = max(len(snapshot.pods) - hub.max_pods, 0)
    return (page + hub.own.render(form)).encode()


async def _beside(request: web.Request, work: Callable[[], _T]) -> _T:
    """What work makes of a moment, without holding up the scraping. One at a time: threads that compute slow each other down."""
    return await asyncio.get_running_loop().run_in_executor(request.app[_THREAD], work)


def _takes_gzip(request: web.Request) -> bool:
    wanted = weights(request.headers.get("Accept-Encoding", ""))
    return wanted.get("gzip", wanted.get("*", 0.0)) > 0


async def _debug(request: web.Request) -> web.Response:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    if not allowed(peer[0] if peer else None, request.headers.get("Authorization", ""), request.app[_HUB].debug_bearer_file):
        return web.json_response({"error": "only from this machine, or with the token of debug.bearer_file"}, status=403)
    pods = request.query.getall("pod", [])
    if len(pods) != 1 or len(request.query) != 1:
        return web.json_response({"error": "expected one parameter: pod=NAME, an address or a URL"}, status=400)
    found = await request.app[_EXPLAIN](pods[0])
    if not found:
        return web.json_response({"error": f"no target is called {pods[0]!r}"}, status=404)
    return web.Response(body=msgspec.json.encode({"targets": found}), content_type="application/json")


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    untried = request.app[_HUB].untried()
    if untried:
        return web.Response(status=503, text=f"{len(untried)} of the targets not tried yet, such as {untried[0]}\n")
    return web.Response(text="ready\n")
