"""One kept connection: a question at a time, its answer read as the bytes come in."""

import asyncio
import ssl
from typing import cast

import httptools

from collector.reasons import FailureReason, ReadError
from collector.unpack import PACKINGS, Packed, Plain

_HEAD_AT_MOST = 1 << 16
_HEADERS_AT_MOST = 256
_FRAMING_AT_MOST = 8
"""How many times as long as its body an answer may be: chunks of one byte are framed by five more, trailers come after them."""
_KEPT = frozenset({b"content-length", b"transfer-encoding", b"content-encoding", b"content-type", b"location"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Unanswered(Exception):
    """The connection ended before the first byte of an answer."""


class Answer:
    """What a server said: status, the headers that matter (lower-case names), and the body of a 200, which others lack."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def redirects(self) -> bool:
        return self.status in _REDIRECTS


class Connection(asyncio.Protocol):
    """Asks and reads answers; `reusable` says whether it can be asked again."""

    def __init__(self) -> None:
        self._max_body = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._in_question = False
        self._spoiled = False
        self._came = 0

    # --- the side of the client ---------------------------------------------------------------------------------------------

    async def ask(self, question: bytes, *, max_body: int) -> Answer:
        """Send a request and wait for its answer. ReadError when that breaks the rules, Unanswered when none begins."""
        self._max_body = max_body
        if self._transport is None or self._transport.is_closing():
            raise Unanswered
        self._begin_message()
        self._came = 0
        self._in_question = True
        self._waiter = self._loop.create_future()
        self._transport.write(question)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    @property
    def reusable(self) -> bool:
        """True between an answer that was read to its end and whatever comes after it unasked."""
        return not (self._spoiled or self._in_question or self._transport is None or self._transport.is_closing())

    def close(self) -> None:
        """Let go at once; what was not sent or read is dropped."""
        self._spoiled = True
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Wait until the socket is gone."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # --- the side of the socket ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        if not self._in_question:
            return self.close()
        self._came += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ReadError(FailureReason.MALFORMED, "not a valid HTTP answer: it changes the protocol unasked"))
        except httptools.HttpParserError as error:
            self._spoiled = True
            self._fail(ReadError(FailureReason.MALFORMED, f"not a valid HTTP answer: {error}"))
        if self._in_head and self._came > _HEAD_AT_MOST:
            self._fail(ReadError(FailureReason.MALFORMED, f"headers of more than {_HEAD_AT_MOST} bytes"))
        elif self._came > _FRAMING_AT_MOST * self._max_body + _HEAD_AT_MOST:
            self._fail(ReadError(FailureReason.BODY_TOO_LARGE, f"more than {self._max_body} bytes, chunk by chunk"))
        return None

    def eof_received(self) -> None:
        """The server ended. An answer whose length was not told ends well with it."""
        if self._in_question and not self._in_head and self._until_closed:
            self._in_question = False
            self._spoiled = True
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self.eof_received()
        self._spoiled = True
        if not self._closed.done():
            self._closed.set_result(None)
        if isinstance(error, ssl.SSLError):
            return self._fail(ReadError(FailureReason.TLS, str(error)))
        if not self._came:
            return self._fail(Unanswered(str(error or "")))
        told = f": {error}" if error else ""
        return self._fail(ReadError(FailureReason.CONNECTION_LOST, f"connection ended before the whole answer{told}"))

    # --- the side of the parser: nothing raised here would keep its reason -----------------------------------------------------

    def _begin_message(self) -> None:
        self._headers: dict[str, str] = {}
        self._head_size = self._head_lines = 0
        self._in_head = True
        self._until_closed = False
        self._body: Plain | Packed = Plain(self._max_body)

    def on_message_begin(self) -> None:
        if not self._in_question:
            self._spoiled = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        self._head_lines += 1
        if self._head_size > _HEAD_AT_MOST or self._head_lines > _HEADERS_AT_MOST:
            return self._fail(
                ReadError(FailureReason.MALFORMED, f"headers of more than {_HEAD_AT_MOST} bytes or lines without end")
            )
        if (lower := name.lower()) in _KEPT:
            self._headers[lower.decode()] = value.decode("latin-1").strip()
        return None

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._done:
            return
        self._in_head = False
        headers = self._headers
        self._until_closed = "content-length" not in headers and "transfer-encoding" not in headers
        if self._status != 200:
            if self._status >= 200:
                self._tell(Answer(self._status, headers))
            return
        packing = headers.get("content-encoding", "").lower() or "identity"
        if packing in PACKINGS:
            self._body = Packed(self._max_body)
        elif packing != "identity":
            self._fail(ReadError(FailureReason.MALFORMED, f"content encoding {packing!r} was not asked for"))

    def on_body(self, data: bytes) -> None:
        if self._done:
            return
        try:
            self._body.take(data)
        except ReadError as error:
            self._fail(error)

    def on_message_complete(self) -> None:
        if not self._in_question:
            return
        if self._status < 200:
            self._begin_message()
            self._came = 1  # an answer has begun
            return
        self._in_question = False
        self._spoiled = self._spoiled or not self._parser.should_keep_alive()
        self._finish()

    def _finish(self) -> None:
        if self._done:
            return None
        try:
            body = self._body.whole()
            if self._until_closed and body and not body.endswith(b"\n"):
                raise ReadError(FailureReason.CONNECTION_LOST, "the page ends inside a line and its length was not told")
        except ReadError as error:
            return self._fail(error)
        return self._tell(Answer(self._status, self._headers, body))

    @property
    def _done(self) -> bool:
        return self._waiter is None or self._waiter.done()

    def _tell(self, answer: Answer) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()
