"""What a push costs: CPU of each step, bytes on the wire, and how late the loop is while it runs. `python bench/otlp.py`."""

import asyncio
import gzip
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from run import PODS, cpu_ms, fleet

from collector.clock import Instant, SystemClock
from collector.state import State
from exporter.hub import Moment
from exporter.publish.otlp.batch import message, split
from exporter.publish.otlp.data import build
from exporter.publish.otlp.own import SCOPE
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.otlp.settings import MOST_POINTS, Settings

ROUNDS = 5
TICK_SECONDS = 0.001


@contextmanager
def sink() -> Iterator[str]:
    """A back end that takes everything and keeps nothing, in this process: its share of the CPU is part of what is measured."""

    class Take(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/metrics"
        server.shutdown()


def steps(state: State) -> None:
    now = Instant(5.0, 5.0)
    snapshot = state.snapshot(now)
    metrics = list(build(snapshot, Counter(), max_pods=PODS))
    resource = resource_of("bench")
    requests = [message(one, resource) for one in split(((SCOPE, metric) for metric in metrics), most_points=MOST_POINTS)]
    bodies = [encode_metrics(one).SerializeToString() for one in requests]
    points = sum(len(metric.data.data_points) for metric in metrics)
    packed = [gzip.compress(body) for body in bodies]
    print(f"{PODS} pods, {points:,} points: {len(bodies)} requests, {sum(map(len, bodies)):,} bytes, "
          f"{sum(map(len, packed)):,} with gzip, largest {max(map(len, bodies)):,}")  # fmt: skip
    work = {
        "held on the loop": lambda: state.held(now),
        "cut, in the thread": lambda: state.snapshot(now),
        "metrics made of it": lambda: list(build(snapshot, Counter(), max_pods=PODS)),
        "encoded by the SDK": lambda: [encode_metrics(one).SerializeToString() for one in requests],
        "packed (gzip)": lambda: [gzip.compress(body) for body in bodies],
    }
    for name, call in work.items():
        print(f"  {name:22} {statistics.median(cpu_ms(call) for _ in range(ROUNDS)):8.1f} ms")


async def lateness(pushes: list[threading.Thread], seconds: float) -> list[float]:
    """How late a timer of this loop is, in ms, while pushes run in their threads."""
    late = []
    for push in pushes:
        push.start()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        late.append((time.perf_counter() - before - TICK_SECONDS) * 1000)
    for push in pushes:
        push.join()
    return sorted(late)


def stall(state: State) -> None:
    """Idle, and while one push after the other runs, with the same turns between threads as in `serve`."""
    sys.setswitchinterval(0.0005)
    with sink() as url:
        courier = Courier(Settings(endpoint=url, header_files={}), resource_of("bench"), clock=SystemClock(), max_pods=PODS)

        def push() -> None:
            for _ in range(3):
                courier.send(Moment(state.held(Instant(5.0, time.time()))))

        for name, threads in (("idle", []), ("while pushing", [threading.Thread(target=push)])):
            late = asyncio.run(lateness(threads, 4.0))
            print(f"  loop late, {name:14} p50 {late[len(late) // 2]:5.2f}   p99 {late[len(late) * 99 // 100]:5.2f}   "
                  f"max {late[-1]:5.2f} ms")  # fmt: skip


def main() -> None:
    state = fleet()
    steps(state)
    stall(state)


if __name__ == "__main__":
    main()
