"""Serves the bundled page on loopback, and the boards beside it."""

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BOARDS = Path(__file__).parents[1] / "generated"


def boards() -> dict[str, dict[str, Any]]:
    """Boards that ask PromQL, whoever answers it, by uid; others have nothing to be drawn with here."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(BOARDS.rglob("*.json")))
    return {
        board["uid"]: board
        for board in found
        if any("expr" in one for panel in panels(board) for one in panel.get("targets", ()))
    }


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All panels, those in folded rows too."""
    return [inner for panel in board.get("panels", ()) for inner in (panel, *panel.get("panels", ()))]


class _Files(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        """A board by its uid, else a file."""
        if not self.path.startswith("/boards/"):
            super().do_GET()
            return
        body = json.dumps(boards()[self.path.removeprefix("/boards/")]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
