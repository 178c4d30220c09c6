"""GET of a metrics page: total deadline, cap on the unpacked body, and every way to fail ends in a reason."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urljoin, urlsplit

import aiohappyeyeballs

from collector.auth import Contexts, Secrets, Tls
from collector.connection import Answer, Connection, Unanswered
from collector.model import Target
from collector.read import Body
from collector.reasons import FailureReason, ReadError
from collector.resolve import Resolver

_STATUS_REASONS = {401: FailureReason.UNAUTHORIZED, 403: FailureReason.UNAUTHORIZED, 404: FailureReason.NOT_FOUND}
_PORTS = {"http": 80, "https": 443}
_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_NEXT_ADDRESS_AFTER_SECONDS = 0.25
_PRINTABLE = "".join(map(chr, range(33, 127)))
_PLAIN_TLS = Tls()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL leads: the server, and what to ask it for."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def server(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def question(self) -> bytes:
        """The request up to what differs from one time to the next."""
        bare = self.host.partition("%")[0]  # the interface of a link-local address is our own affair
        host = f"[{bare}]" if ":" in bare else bare
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return (f"GET {quote(self.path, safe=_PRINTABLE)} HTTP/1.1\r\nHost: {host}{port}\r\nAccept: text/plain;version=0.0.4\r\n"
                "Accept-Encoding: identity\r\nUser-Agent: llm-fleet-exporter\r\n").encode()  # fmt: skip


@lru_cache(maxsize=65536)
def place_of(url: str) -> Place:
    """The parts of a URL. ReadError for a host that cannot be a name."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError as error:
            raise ReadError(FailureReason.DNS, f"not a host name: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.scheme, host, parts.port or _PORTS[parts.scheme], path)


_FRAMES = frozenset({"content-length", "transfer-encoding", "content-encoding"})
"""Headers that tell where a body ends."""

Line = tuple[tuple[str, str, int], Tls | None, int]
"""What a connection is good for: its server, the TLS settings, and the serial number of the certificates behind them."""


@lru_cache(maxsize=65536)
def _question(place: Place) -> bytes:
    return place.question


class Client:
    """Fetches pages over kept connections, one for each target.

    Nothing of the environment (netrc, proxy variables) reaches a target, and no cookie is kept. `max_body` caps the bytes after
    unpacking.
    """

    def __init__(self, *, deadline_seconds: float, max_body: int) -> None:
        self._deadline_seconds = deadline_seconds
        self._max_body = max_body
        self._kept: dict[str, tuple[Line, Connection]] = {}
        self._resolver = Resolver()
        self._secrets = Secrets()
        self._contexts = Contexts()

    async def __call__(self, target: Target, path: str = "") -> Body:
        """The target's page, or what `path` (with its query) holds on the same server. ReadError says why not."""
        place = place_of(urljoin(target.url, path) if path else target.url)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await self._get(target, place)
        except TimeoutError as error:
            raise ReadError(FailureReason.TIMEOUT, f"no complete answer within {self._deadline_seconds:g} s") from error
        if answer.status != 200:
            reason = _STATUS_REASONS.get(answer.status, FailureReason.HTTP_STATUS)
            raise ReadError(reason, f"HTTP status {answer.status}")
        framed = not _FRAMES.isdisjoint(answer.headers)
        return Body(answer.body, answer.headers.get("content-type", ""), framed)

    def limit(self, *, deadline_seconds: float, max_body: int) -> None:
        """Other limits from the next fetch on."""
        self._deadline_seconds, self._max_body = deadline_seconds, max_body

    def keep(self, targets: Iterable[Target]) -> None:
        """Close the connections of all other targets."""
        for key in self._kept.keys() - {target.key for target in targets}:
            self._kept.pop(key)[1].close()

    async def close(self) -> None:
        """Close everything."""
        connections = [connection for _, connection in self._kept.values()]
        self._kept.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.closed()

    async def _get(self, target: Target, place: Place) -> Answer:
        first = await self._authorized(target, place)
        if not first.redirects:
            return first
        second = await self._authorized(target, _redirected(place, first))
        if second.redirects:
            raise ReadError(FailureReason.REDIRECT, f"redirected twice, last to {_shown(second)}")
        return second

    async def _authorized(self, target: Target, place: Place) -> Answer:
        """One question with the target's credentials; a 401 may only mean that they were replaced since they were read."""
        header = self._secrets.header(target.auth)
        answer = await self._exchange(target, place, header)
        if answer.status == 401 and target.auth is not None:
            renewed = self._secrets.header(target.auth, again=True)
            if renewed != header:
                answer = await self._exchange(target, place, renewed)
        return answer

    async def _exchange(self, target: Target, place: Place, header: bytes) -> Answer:
        """One question. A kept connection that turns out to be dead is replaced once: the server closed it meanwhile."""
        question = _question(place) + header + b"\r\n"
        line = self._line(target, place)
        connection = self._take(target, line)
        if connection is not None:
            with suppress(Unanswered):
                return await self._ask(target, line, connection, question)
        line, connection = await self._connect(target, place)
        try:
            return await self._ask(target, line, connection, question)
        except Unanswered as error:
            told = f": {error}" if str(error) else ""
            raise ReadError(FailureReason.CONNECTION_LOST, f"connection ended before an answer began{told}") from error

    def _line(self, target: Target, place: Place) -> Line:
        if place.scheme == "http":
            return place.server, None, 0
        tls = target.tls or _PLAIN_TLS
        return place.server, tls, self._contexts.serial(tls)

    def _take(self, target: Target, line: Line) -> Connection | None:
        kept, connection = self._kept.pop(target.key, (None, None))
        if connection is None:
            return None
        if kept == line and connection.reusable:
            return connection
        connection.close()
        return None

    async def _ask(self, target: Target, line: Line, connection: Connection, question: bytes) -> Answer:
        try:
            answer = await connection.ask(question, max_body=self._max_body)
        except BaseException:
            connection.close()
            raise
        if connection.reusable and target.key not in self._kept:
            self._kept[target.key] = (line, connection)
        else:
            connection.close()
        return answer

    async def _connect(self, target: Target, place: Place) -> tuple[Line, Connection]:
        secure, name = None, None
        line = self._line(target, place)
        if tls := line[1]:
            secure, serial = await self._contexts.context(tls)
            line, name = (place.server, tls, serial), tls.server_name or place.host
        loop = asyncio.get_running_loop()
        sock = await self._open(place)
        try:
            _, connection = await loop.create_connection(Connection, sock=sock, ssl=secure, server_hostname=name)
        except (ssl.SSLError, ConnectionError) as error:
            raise ReadError(FailureReason.TLS, f"no TLS connection: {error}") from error
        except BaseException:
            sock.close()
            raise
        return line, connection

    async def _open(self, place: Place) -> socket.socket:
        """A connected socket. Where a name has several addresses, those that answer late do not use up the deadline."""
        try:
            addresses = await self._resolver.addresses(place.host, place.port)
        except OSError as error:
            raise ReadError(FailureReason.DNS, f"name of host {place.host!r} not resolved: {error.strerror or error}") from error
        try:
            sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_SECONDS)
        except OSError as error:
            told = os.strerror(error.errno) if error.errno else str(error)
            raise ReadError(connect_reason(error), f"cannot connect: {told}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


def connect_reason(error: OSError) -> FailureReason:
    """An OS that gave up waiting is a timeout; a host, port or route that is not there refused us."""
    if error.errno == errno.ETIMEDOUT:
        return FailureReason.TIMEOUT
    if isinstance(error, ConnectionRefusedError) or error.errno in _NO_ROUTE:
        return FailureReason.REFUSED
    return FailureReason.CONNECTION_LOST if isinstance(error, ConnectionError) else FailureReason.OTHER


def _redirected(place: Place, answer: Answer) -> Place:
    """Where a redirect leads as long as that is the same server; any other could be a login page, or somebody else's pod."""
    location = answer.headers.get("location", "")
    host = f"[{place.host}]" if ":" in place.host else place.host
    there = None
    with suppress(ValueError, KeyError, ReadError):
        url = urljoin(f"{place.scheme}://{host}:{place.port}{place.path}", location)
        if location and "@" not in urlsplit(url).netloc and url.isprintable():
            there = place_of(url)
    if there is None or there.server != place.server:
        raise ReadError(FailureReason.REDIRECT, f"status {answer.status} leads to another server: {_shown(answer)}")
    return there


def _shown(answer: Answer) -> str:
    """The place of a redirect without what may be secret in it: user, password, query."""
    return repr(answer.headers.get("location", "").partition("?")[0].rpartition("@")[2])


@asynccontextmanager
async def open_fetch(*, deadline_seconds: float, max_body: int) -> AsyncIterator[Client]:
    """A client that is closed at the end of the block."""
    client = Client(deadline_seconds=deadline_seconds, max_body=max_body)
    try:
        yield client
    finally:
        await client.close()
