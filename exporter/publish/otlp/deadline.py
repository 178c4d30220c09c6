"""A deadline over a whole request: the timeout of requests bounds each wait on a socket, and an answer that drips has many."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

Sockets = WeakSet[socket.socket]


class Cuttable(HTTPAdapter):
    """Connections that a deadline cuts from its own thread; for one request at a time."""

    def __init__(self) -> None:
        self._sockets: Sockets = WeakSet()
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._sockets)

    def proxy_manager_for(self, *args: Any, **options: Any) -> PoolManager:
        manager: PoolManager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _pools(self._sockets)
        return manager

    @contextmanager
    def within(self, seconds: float) -> Iterator[Event]:
        """Cut what is open when the time is over, and set the event. What is read then looks like an early end: ask the event."""
        over = Event()
        timer = Timer(seconds, self._cut, [over])
        timer.daemon = True
        timer.start()
        try:
            yield over
        finally:
            timer.cancel()
            timer.join()  # one that cuts already must not cut the next request

    def _cut(self, over: Event) -> None:
        over.set()
        for one in list(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)


def _pools(sockets: Sockets) -> dict[str, type[HTTPConnectionPool]]:
    """Pools whose connections tell their sockets: the plain one for a proxy's answer, then the one that encrypts."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            sockets.add(made := super()._new_conn())
            return made

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            sockets.add(made := super()._new_conn())
            return made

        def connect(self) -> None:
            super().connect()
            if isinstance(self.sock, socket.socket):
                sockets.add(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
