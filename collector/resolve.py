"""Names to addresses, each lookup in a thread of its own: a name that hangs delays no other target and no exit."""

import asyncio
import socket
import threading
from contextlib import suppress

from aiohttp.abc import AbstractResolver, ResolveResult

_Found = list[ResolveResult]
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class ThreadEach(AbstractResolver):
    """The system's resolver behind daemon threads.

    The loop's own lookups share a small pool, which a few dead names fill, and which is waited for when the process ends.
    The connector asks for one name once at a time, so that there are never more threads than names.
    """

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> _Found:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Found] = loop.create_future()

        def look() -> None:
            found: _Found | OSError
            try:
                found = _look_up(host, port, family)
            except (OSError, UnicodeError) as error:
                found = error if isinstance(error, OSError) else OSError(f"not a host name: {error}")
            with suppress(RuntimeError):  # the loop may be gone by now
                loop.call_soon_threadsafe(_settle, answer, found)

        threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
        return await answer

    async def close(self) -> None: ...


def _settle(answer: asyncio.Future[_Found], found: _Found | OSError) -> None:
    if answer.done():
        return
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> _Found:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG)
    return [ResolveResult(hostname=host, host=_numeric(address), port=port, family=kind, proto=proto, flags=_NUMERIC)
            for kind, _, proto, _, address in infos]  # fmt: skip


def _numeric(address: tuple[object, ...]) -> str:
    """The address as text, link-local ones with their interface."""
    scope = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{scope}" if scope and "%" not in str(address[0]) else str(address[0])
