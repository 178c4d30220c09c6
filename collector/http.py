"""GET of a metrics page: total deadline, cap on the unpacked body, and every way to fail ends in a reason."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import aiohttp

from collector.model import Target
from collector.read import Body, Fetch
from collector.reasons import FailureReason, ReadError
from collector.resolve import ThreadEach

_ACCEPT = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}
_REDIRECTS = (301, 302, 303, 307, 308)
_STATUS_REASONS = {401: FailureReason.UNAUTHORIZED, 403: FailureReason.UNAUTHORIZED, 404: FailureReason.NOT_FOUND}
_CHUNK = 1 << 16
_ANY_PACKING = zlib.MAX_WBITS | 32  # gzip or zlib, whichever the first bytes say


@asynccontextmanager
async def open_fetch(*, deadline_seconds: float, max_body: int) -> AsyncIterator[Fetch]:
    """A fetch over kept connections. `max_body` caps the bytes after unpacking.

    Nothing of the environment (netrc, proxy variables) reaches a target, and no cookie is kept.
    """
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=90.0, resolver=ThreadEach())
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=1 << 16, max_field_size=1 << 16,
    ) as session:  # fmt: skip

        async def fetch(target: Target, path: str = "") -> Body:
            with _reasons(deadline_seconds):
                async with asyncio.timeout(deadline_seconds):
                    return await _get(session, urljoin(target.url, path), max_body)

        yield fetch


class _reasons:
    """Turns what the client raises into a ReadError."""

    def __init__(self, deadline_seconds: float) -> None:
        self.deadline_seconds = deadline_seconds

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ReadError):
            raise ReadError(*self.reason_of(error)) from error

    def reason_of(self, error: BaseException) -> tuple[FailureReason, str]:
        match error:
            case TimeoutError():
                return FailureReason.TIMEOUT, f"no complete answer within {self.deadline_seconds:g} s"
            case aiohttp.ClientConnectorDNSError():
                return FailureReason.DNS, f"name of host {error.host!r} not resolved"
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError() | ssl.SSLError():
                return FailureReason.TLS, str(error)
            case aiohttp.ClientConnectorError():
                refused = isinstance(error.os_error, ConnectionRefusedError)
                return (FailureReason.REFUSED if refused else FailureReason.OTHER), f"cannot connect: {error.os_error}"
            case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | aiohttp.ClientOSError() | ConnectionError():
                return FailureReason.CONNECTION_LOST, f"connection ended before the whole answer: {error}"
            case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
                return FailureReason.MALFORMED, f"not a valid HTTP answer: {error}"
            case _:
                return FailureReason.OTHER, f"{type(error).__name__}: {error}"


async def _get(session: aiohttp.ClientSession, url: str, max_body: int) -> Body:
    async with session.get(url, headers=_ACCEPT, allow_redirects=False) as first:
        if first.status not in _REDIRECTS:
            return await _body(first, max_body)
        location = _next_url(url, first)
    async with session.get(location, headers=_ACCEPT, allow_redirects=False) as second:
        if second.status in _REDIRECTS:
            raise ReadError(FailureReason.REDIRECT, f"redirected twice, last to {_shown(second)}")
        return await _body(second, max_body)


def _next_url(url: str, response: aiohttp.ClientResponse) -> str:
    """Where a redirect leads as long as that is the same server; any other could be a login page, or somebody else's pod."""
    location = response.headers.get("Location", "")
    try:
        there = urljoin(url, location)
        same = bool(location) and _server(there) == _server(url)
    except ValueError:
        same = False
    if not same:
        raise ReadError(FailureReason.REDIRECT, f"status {response.status} leads to another server: {_shown(response)}")
    return there


def _server(url: str) -> tuple[str, str | None, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.username, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(response: aiohttp.ClientResponse) -> str:
    """The place of a redirect without what may be secret in it: user, password, query."""
    return repr(response.headers.get("Location", "").partition("?")[0].rpartition("@")[2])


async def _body(response: aiohttp.ClientResponse, max_body: int) -> Body:
    if response.status != 200:
        reason = _STATUS_REASONS.get(response.status, FailureReason.HTTP_STATUS)
        raise ReadError(reason, f"HTTP status {response.status}")
    encoding = response.headers.get("Content-Encoding", "").strip().lower() or "identity"
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise ReadError(FailureReason.MALFORMED, f"content encoding {encoding!r} was not asked for")
    content = await (_plain(response, max_body) if encoding == "identity" else _unpacked(response, max_body))
    until_closed = response.headers.get("Content-Length") is None and "Transfer-Encoding" not in response.headers
    if until_closed and content and not content.endswith(b"\n"):
        raise ReadError(FailureReason.CONNECTION_LOST, "the page ends inside a line and its length was not told")
    return Body(content, response.headers.get("Content-Type", ""), framed=not until_closed)


async def _plain(response: aiohttp.ClientResponse, max_body: int) -> bytes:
    parts = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        parts += chunk
        if len(parts) > max_body:
            raise ReadError(FailureReason.BODY_TOO_LARGE, f"more than {max_body} bytes")
    return bytes(parts)


async def _unpacked(response: aiohttp.ClientResponse, max_body: int) -> bytes:
    """The body of a packed answer, which may be several gzip members one after another."""
    inflate = zlib.decompressobj(wbits=_ANY_PACKING)
    parts = bytearray()
    packed = 0
    try:
        async for chunk in response.content.iter_chunked(_CHUNK):
            packed += len(chunk)
            while chunk:
                if inflate.eof:
                    inflate = zlib.decompressobj(wbits=_ANY_PACKING)
                parts += inflate.decompress(chunk, max_body + 1 - len(parts))
                if max(len(parts), packed) > max_body:
                    raise ReadError(FailureReason.BODY_TOO_LARGE, f"more than {max_body} bytes after unpacking")
                chunk = inflate.unused_data
    except zlib.error as error:
        raise ReadError(FailureReason.MALFORMED, f"packed body cannot be read: {error}") from error
    if not inflate.eof:
        raise ReadError(FailureReason.CONNECTION_LOST, "packed body ends early")
    return bytes(parts)
