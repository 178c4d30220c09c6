"""Names to addresses, each lookup in a thread of its own: a name that hangs delays no other target and no exit."""

import asyncio
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address

AddrInfo = tuple[int, int, int, str, tuple[object, ...]]
"""What `socket.getaddrinfo` gives: family, kind, protocol, canonical name, address."""


class Resolver:
    """The system's resolver behind daemon threads.

    The loop's own lookups share a small pool, which a few dead names fill, and which is waited for when the process ends.
    Who asks for a name that is being looked up waits for that answer, so that there are never more threads than names.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], asyncio.Future[list[AddrInfo]]] = {}

    async def addresses(self, host: str, port: int) -> list[AddrInfo]:
        """Addresses of a host in the order to try them. OSError (gaierror for a name) when there are none."""
        if _is_address(host):
            return _look_up(host, port, socket.AI_NUMERICHOST)
        answer = self._asked.get((host, port))
        if answer is None:
            answer = self._asked[host, port] = self._ask(host, port)
        return await asyncio.shield(answer)

    def _ask(self, host: str, port: int) -> asyncio.Future[list[AddrInfo]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[AddrInfo]] = loop.create_future()
        answer.add_done_callback(lambda done: self._forget(host, port, done))

        def look() -> None:
            found: list[AddrInfo] | OSError
            try:
                found = _look_up(host, port, socket.AI_ADDRCONFIG)
            except (OSError, UnicodeError) as error:
                found = error if isinstance(error, OSError) else OSError(f"not a host name: {error}")
            with suppress(RuntimeError):  # the loop may be gone by now
                loop.call_soon_threadsafe(_settle, answer, found)

        threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
        return answer

    def _forget(self, host: str, port: int, answer: asyncio.Future[list[AddrInfo]]) -> None:
        self._asked.pop((host, port), None)
        if not answer.cancelled():
            answer.exception()  # who asked may be gone: an answer that nobody waits for is no fault


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _settle(answer: asyncio.Future[list[AddrInfo]], found: list[AddrInfo] | OSError) -> None:
    if answer.done():
        return
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _look_up(host: str, port: int, flags: int) -> list[AddrInfo]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), int(kind), protocol, name, address) for family, kind, protocol, name, address in infos]
