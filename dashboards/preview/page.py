"""Serves the bundled page on loopback, and the boards beside it."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BOARDS = Path(__file__).parents[1] / "generated"


class _Files(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        if path.startswith("/boards/"):
            return str(BOARDS / Path(path.partition("?")[0]).name)
        return super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        """Nothing: the page's own report names what it missed."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes a page hangs up in the middle of its last files: nothing to tell."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """URL of the page."""
    with _Server(("127.0.0.1", 0), partial(_Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
