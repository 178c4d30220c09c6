"""The loopback port of one pod: open while the pod lives, refusing connections while it is dead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from aiohttp import web

# A dead process answers nobody; zero would mean to wait for ever.
DROP_AFTER_SECONDS = 0.001

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Port:
    """A port number kept for one pod. A socket that is bound and does not listen holds it, and makes the
    kernel refuse connections.
    """

    def __init__(self, host: str, handler: Handler) -> None:
        self._host = host
        self._handler = handler
        self._held: socket.socket | None = _bound(host, 0)
        self.number: int = self._held.getsockname()[1]
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._listener is not None

    async def open(self) -> None:
        """Accept connections from now on."""
        if self._held is None:
            return
        held, self._held = self._held, None
        self._web = web.Server(self._handler, handler_cancellation=True)
        self._listener = await asyncio.get_running_loop().create_server(self._web, sock=held)

    async def close(self) -> None:
        """Refuse connections from now on and drop the present ones."""
        if self._listener is None or self._web is None:
            return
        listener, server = self._listener, self._web
        self._listener = self._web = None
        listener.close()
        self._held = _bound(self._host, self.number)
        await server.shutdown(DROP_AFTER_SECONDS)

    async def give_up(self) -> None:
        """Let go of the port for good."""
        await self.close()
        if self._held is not None:
            self._held.close()
            self._held = None


def _bound(host: str, number: int) -> socket.socket:
    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Without it the number could not be taken again while old connections linger.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, number))
    kept.setblocking(False)
    return kept
