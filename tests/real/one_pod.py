"""A Kubernetes apiserver that knows one ready pod in one InferencePool, the pod's page, and a program that needs them.

    python -m tests.real.one_pod PAGE COMMAND ...

The apiserver answers on 127.0.0.1:8001, the page is on 127.0.0.1:8000.
"""

import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.real.kubernetes import ApiServer, Served


def main(page: str, *command: str) -> int:
    content = Path(page).read_bytes()

    class Engine(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    ApiServer("serving", pools=["tiny"], pods=[Served("tiny-0", "127.0.0.1", {"app": "tiny"})], port=8000).start(8001)
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", 8000), Engine).serve_forever, daemon=True).start()
    with subprocess.Popen(command) as program:
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        while program.poll() is None:
            time.sleep(0.1)
    return program.returncode


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
