"""The HTTP side: one small answer to a GET, over connections that are kept, and patience with nobody.

Own, since the general servers alone weigh more than this whole process may. It knows GET and HEAD, reads no body, and lets go of
whoever sends half a request or does not read its answer.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import httptools

from collector.seldom import Seldom

_log = logging.getLogger(__name__)
_seldom = Seldom()
_HEAD_AT_MOST = 1 << 14
_WAITING_AT_MOST = 8
SLOW_SECONDS = 5.0
"""How long a half request, or an answer that is not read, is put up with."""
IDLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `authorization` is the header's value, "" without one."""

    method: str
    path: str
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with its body."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Handle = Callable[[Asked], Awaitable[Reply]]


class Peer(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, handle: Handle, peers: set["Peer"], most: int) -> None:
        self._handle = handle
        self._peers = peers
        self._most = most
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: list[tuple[Asked | Reply, str]] = []
        self._work: asyncio.Task[None] | None = None
        self._begin()
        self._size = 0
        self._in_head = False
        self._full = False
        self._deaf = False
        self._ending = False
        self._since = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._peers) >= self._most:
            return self.drop()
        self._peers.add(self)
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._peers.discard(self)
        self._ending = True
        self._waiting.clear()
        if self._work is not None:
            self._work.cancel()

    def data_received(self, data: bytes) -> None:
        if self._ending or self._deaf:
            return None
        if not self._in_head and not self._waiting:
            self._since = time.monotonic()
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return None  # answered as if it had not asked for another protocol, and closed
        except httptools.HttpParserError:
            return None if self._deaf else self._refuse(400)  # behind a last request may stand anything
        if self._size > _HEAD_AT_MOST or len(self._waiting) > _WAITING_AT_MOST:
            return self._refuse(431)
        return None

    def pause_writing(self) -> None:
        self._full = True
        self._since = time.monotonic()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._next()

    def expired(self, now: float) -> bool:
        """Whether the client has kept us waiting for too long; one that waits for us never has."""
        if self._work is not None and not self._full:
            return False
        return now - self._since > (SLOW_SECONDS if self._in_head or self._full or self._ending else IDLE_SECONDS)

    def drop(self) -> None:
        """Let go at once."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    # --- the side of the parser -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._path = b""
        self._authorization = ""

    def on_message_begin(self) -> None:
        self._begin()
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._authorization = value.decode("latin-1").strip()

    def on_message_complete(self) -> None:
        self._in_head = False
        self._size = 0
        method = self._parser.get_method().decode("latin-1")
        keep = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._deaf = not keep
        connection = "close" if not keep else "keep-alive" if self._parser.get_http_version() == "1.0" else ""
        self._waiting.append((Asked(method, _path(self._path), self._authorization), connection))
        self._next()

    # --- answers, one after another -------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._work is None and self._waiting and not (self._full or self._ending):
            self._work = asyncio.create_task(self._answer(*self._waiting.pop(0)))

    async def _answer(self, asked: Asked | Reply, connection: str) -> None:
        reply = asked if isinstance(asked, Reply) else await self._reply(asked)
        self._work = None
        self._since = time.monotonic()
        self._write(reply, connection, bare=isinstance(asked, Asked) and asked.method == "HEAD")
        self._next()

    async def _reply(self, asked: Asked) -> Reply:
        if asked.method not in ("GET", "HEAD"):
            return Reply(405, headers=(("Allow", "GET, HEAD"),))
        try:
            return await self._handle(asked)
        except Exception as error:
            if _seldom.worth(error, time.monotonic()):
                _log.exception("answer broke: path=%s", asked.path)
            return Reply(500, b"internal error; see the log\n")

    def _refuse(self, status: int) -> None:
        """Say so after the answers to what came before, and hear no more."""
        self._deaf = True
        self._waiting.append((Reply(status), "close"))
        self._next()

    def _write(self, reply: Reply, connection: str, *, bare: bool) -> None:
        """`connection`: what is said of its end, "" = it goes on, as is usual."""
        if self._transport is None or self._transport.is_closing():
            return
        head = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}", f"Content-Type: {reply.content_type}",
                f"Content-Length: {len(reply.body)}", "Cache-Control: no-store",
                *(f"{name}: {value}" for name, value in reply.headers),
                *([f"Connection: {connection}"] if connection else [])]  # fmt: skip
        self._transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if bare else reply.body))
        if connection == "close":
            self._ending = True
            self._waiting.clear()
            self._transport.close()


def _path(target: bytes) -> str:
    """The path that was asked for; a client may name the whole URL, as it would to a proxy."""
    if target[:7].lower() == b"http://" or target[:8].lower() == b"https://":
        with suppress(httptools.HttpParserInvalidURLError):
            target = httptools.parse_url(target).path or b"/"
    return target.partition(b"?")[0].decode("latin-1")
