"""A webhook for Alertmanager: it keeps what it is sent, with the moment."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert of a notification: which receiver got it, when, and in which state."""

    receiver: str
    at: float
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def what(self) -> tuple[str, str]:
        """Name, and the pod, pool, cluster or exporter that it speaks of."""
        labels = self.labels
        return labels["alertname"], labels.get(labels.get("level", ""), labels.get("instance", ""))


@dataclass(slots=True)
class Hook:
    """Where it listens, and the notices so far."""

    url: str = ""
    notices: list[Notice] = field(default_factory=list)

    def firing(self, since: float = 0.0) -> set[tuple[str, str]]:
        """What it was told to be firing since a moment."""
        return {one.what for one in self.notices if one.status == "firing" and one.at >= since}

    def resolved(self) -> set[tuple[str, str]]:
        return {one.what for one in self.notices if one.status == "resolved"}

    def first(self, what: tuple[str, str]) -> Notice:
        return next(one for one in self.notices if one.what == what and one.status == "firing")


@contextmanager
def running_hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.notices += [Notice(self.path.strip("/"), time.monotonic(), one["status"], one["labels"], one["annotations"])
                             for one in body["alerts"]]  # fmt: skip
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()
