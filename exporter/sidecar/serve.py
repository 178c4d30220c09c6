"""The sidecar as a running process."""

import asyncio
import json
import logging
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from collector.auth import Secrets, Tls, make_context, stamp
from collector.clock import Clock, SystemClock
from collector.details import ask
from collector.health import Limits
from collector.http import open_fetch
from collector.lanes import Reader
from collector.model import Target
from collector.reasons import ReadError
from collector.state import State
from exporter.log import say
from exporter.sidecar.guard import Guard, ServerContext, ServerTls
from exporter.sidecar.page import CONTENT_TYPE, Style, render
from exporter.sidecar.peer import SLOW_SECONDS, Asked, Handle, Peer, Reply
from exporter.sidecar.through import NoSample, Pace, Through
from exporter.stop import stop_on_signal

_log = logging.getLogger(__name__)
_MAX_BODY = 16 << 20
_MOST_PEERS = 4096
_SPARE_FILES = 64
_BACKLOG = 1024
_LOOK_SECONDS = 1.0


class ListenError(Exception):
    """The address cannot be listened on, or a file that was named cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sidecar is to do. `path` is where the picker's page stands."""

    target: Target
    host: str
    port: int
    path: str = "/picker"
    style: Style = field(default_factory=Style)
    pace: Pace = field(default_factory=Pace)
    tls: ServerTls | None = None
    bearer_file: str = ""


def handler(through: Through, plan: Plan, guard: Guard) -> Handle:
    """Answers by path. The page and the status want the token where there is one; /healthz, which says nothing, does not."""
    told = _Changes()

    async def handle(asked: Asked) -> Reply:
        if asked.path == "/healthz":
            return Reply(body=b"ok\n")
        if not guard.allows(asked.authorization):
            return Reply(401, b"a bearer token is needed\n", headers=(("WWW-Authenticate", "Bearer"),))
        if asked.path == "/status":
            tally = {"polls": through.tally.polls, "scrapes": through.tally.scrapes, "failure": told.failure or None}
            return Reply(body=json.dumps(tally).encode() + b"\n", content_type="application/json")
        if asked.path != plan.path:
            return Reply(404, f"the picker's page is {plan.path}\n".encode())
        try:
            view = await through.view()
        except NoSample as error:
            told.note(str(error))
            return Reply(503, f"no fresh sample: {error}\n".encode())
        told.note("")
        return Reply(body=render(view, plan.style), content_type=CONTENT_TYPE)

    return handle


class _Changes:
    """Says when the engine stops and begins to be readable, not at each poll."""

    def __init__(self) -> None:
        self.failure = ""
        self._known = False

    def note(self, failure: str) -> None:
        if bool(failure) != bool(self.failure) or not self._known:
            level, message = (logging.WARNING, "no fresh sample") if failure else (logging.INFO, "engine is read")
            say(_log, level, message, **({"why": failure} if failure else {}))
        self._known, self.failure = True, failure


@dataclass(frozen=True, slots=True)
class Running:
    """A sidecar that answers at `base`."""

    base: str
    through: Through
    peers: set[Peer]


@asynccontextmanager
async def running(plan: Plan, clock: Clock | None = None) -> AsyncIterator[Running]:
    """A sidecar for as long as the block lasts. ListenError when it cannot be served."""
    clock = clock or SystemClock()
    _check_engine_files(plan.target)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_fetch(deadline_seconds=plan.pace.budget, max_body=_MAX_BODY))
        state = State(cluster="", limits=Limits(full_interval=plan.pace.whole_every))
        through = Through(plan.target, Reader(client, clock), partial(ask, fetch=client), clock, state=state, pace=plan.pace)
        stack.push_async_callback(through.close)
        peers: set[Peer] = set()
        base, secure = await _listen(stack, plan, through, peers)
        task = asyncio.create_task(_keep_order(peers, secure))
        stack.callback(task.cancel)
        yield Running(base, through, peers)


async def serve(plan: Plan) -> None:
    """Run until SIGTERM or SIGINT. ListenError when it cannot be served."""
    stop = stop_on_signal()
    async with running(plan) as sidecar:
        say(_log, logging.INFO, "serving", url=sidecar.base + plan.path, engine=plan.target.url)
        await stop.wait()
        say(_log, logging.INFO, "stopping")


def _check_engine_files(target: Target) -> None:
    """What is not there at the start is a mistake, not a file that is being replaced."""
    tls = target.tls or Tls()
    try:
        Secrets().header(target.auth)
        stamp(*tls.files)
    except (OSError, ReadError) as error:
        told = error.detail if isinstance(error, ReadError) else str(error)
        raise ListenError(f"cannot read the engine with these files: {told}") from error
    try:
        if tls.files:
            make_context(tls)
    except (OSError, ValueError) as error:  # names no file
        raise ListenError(f"cannot read the engine with {', '.join(tls.files)}: {error}") from error


async def _listen(stack: AsyncExitStack, plan: Plan, through: Through, peers: set[Peer]) -> tuple[str, ServerContext | None]:
    try:
        guard = Guard(plan.bearer_file)
        secure = ServerContext(plan.tls) if plan.tls else None
    except (OSError, ValueError) as error:
        raise ListenError(f"cannot serve with these files: {error}") from error
    handle, most = handler(through, plan, guard), min(_MOST_PEERS, _files() - _SPARE_FILES)
    context, patience = (secure.context, SLOW_SECONDS) if secure else (None, None)
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: Peer(handle, peers, most), plan.host, plan.port, backlog=_BACKLOG, ssl=context,
            ssl_handshake_timeout=patience,
        )  # fmt: skip
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(f"cannot listen on {plan.host}:{plan.port}: {why}; name another address with --listen") from error
    stack.callback(_drop_all, peers)
    stack.callback(server.close)
    host, port = server.sockets[0].getsockname()[:2]
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}", secure


def _drop_all(peers: set[Peer]) -> None:
    for peer in list(peers):
        peer.drop()


def _files() -> int:
    """How many files may be open, after asking for as many as we are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_PEERS + _SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


async def _keep_order(peers: set[Peer], secure: ServerContext | None) -> None:
    """Drop clients that keep us waiting, and follow replaced certificates."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        for peer in [peer for peer in peers if peer.expired(now)]:
            peer.drop()
        if secure is not None:
            secure.renew()
