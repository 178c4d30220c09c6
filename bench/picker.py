"""What a poll every 50 ms costs: the engine that renders its page, the sidecar, and the real picker that reads them.

The engine is a server with the families of a recorded vLLM page as live objects of the library that vLLM uses, which renders them
anew for each request. It filters by name as vLLM does. The picker is measured only where it was built (`make real-parts`).
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "pages" / "vllm-0.32.0-load-queued.prom"
POLL_SECONDS = 0.05
SECONDS = 6.0
PODS = 20
_TICKS = os.sysconf("SC_CLK_TCK")
_EPP = Path(os.environ.get("LLM_FLEET_EXPORTER_PARTS", Path.home() / ".cache/llm-fleet-exporter/parts")) / "bin" / "epp"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


@contextmanager
def started(*command: str, ready: str = "", env: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and the part of its output that the pattern `ready` finds."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})}
    )
    try:
        found = ""
        assert process.stdout is not None
        while not found:
            line = process.stdout.readline()
            match = re.search(ready, line)
            found = match[0] if match else ""
            assert line or found, "it ended before it was ready"
        yield process, found
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


async def _poll(url: str) -> int:
    """Polls as a picker does; returns how many were answered."""
    answered, begun = 0, time.monotonic()
    async with aiohttp.ClientSession() as session:
        while (due := begun + answered * POLL_SECONDS) < begun + SECONDS:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            async with session.get(url) as response:
                assert response.status == 200
                await response.read()
            answered += 1
    return answered


def _sides() -> None:
    with started(sys.executable, __file__, "engine", ready=r"http://\S+") as (engine, url):
        before = cpu_seconds(engine.pid)
        polls = asyncio.run(_poll(f"{url}/metrics"))
        whole = (cpu_seconds(engine.pid) - before) / polls
        sidecar = [sys.executable, "-m", "exporter", "serve", "--role", "sidecar", "--listen", "127.0.0.1:0", "--engine-url", url,
                   "--fresh-for", "20ms"]  # fmt: skip
        with started(*sidecar, ready=r"http://\S+/picker") as (process, page):
            asyncio.run(_poll(page))  # plans are made, files are read
            before, own = cpu_seconds(engine.pid), cpu_seconds(process.pid)
            polls = asyncio.run(_poll(page))
            behind = (cpu_seconds(engine.pid) - before) / polls
            beside = (cpu_seconds(process.pid) - own) / polls
            memory = memory_mb(process.pid)
    print(f"\nA picker's poll every {POLL_SECONDS * 1000:.0f} ms, each read through to the engine; CPU for one poll")
    print(f"  engine, whole page     {whole * 1000:7.2f} ms")
    print(f"  engine behind sidecar  {behind * 1000:7.2f} ms  {whole / max(behind, 1e-6):5.1f}x less, whole pages included")
    print(f"  sidecar                {beside * 1000:7.2f} ms  {beside / POLL_SECONDS:.1%} of a core, {memory:.0f} MB (goal: 40)")


def _picker(page: Path, folder: Path) -> float:
    """Share of a core that the real picker takes for PODS pods with this page."""
    kubeconfig = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [context],
                                      "clusters": [cluster], "users": [{"name": "u", "user": {}}]}))  # fmt: skip
    script = f"ip link set lo up && exec {sys.executable} {__file__} pool {page} {_EPP}"
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script]
    with started(*command, ready=r"share [\d.]+", env={"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)}) as (_, share):
        return float(share.removeprefix("share "))


def pool(page: str, epp: str) -> None:
    """Inside a network of its own: pods of one page, an apiserver that knows them, the picker; prints its share of a core."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from tests.real.kubernetes import ApiServer, Served

    content = Path(page).read_bytes()

    class Engine(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    pods = [Served(f"pod-{number}", f"127.0.1.{number + 1}", {"app": "tiny"}) for number in range(PODS)]
    ApiServer("serving", pools=["tiny"], pods=pods, port=8000).start(8001)
    server = ThreadingHTTPServer(("0.0.0.0", 8000), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [epp, "--pool-name=tiny", "--pool-namespace=serving", "--secure-serving=false", "--tracing=false",
               "--metrics-endpoint-auth=false", "--v=0"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as picker:
        time.sleep(4.0)
        before = cpu_seconds(picker.pid)
        time.sleep(SECONDS)
        share = (cpu_seconds(picker.pid) - before) / SECONDS
        picker.terminate()
    print(f"share {share:.4f}", flush=True)  # last of all: whoever reads it ends this process


def engine() -> None:
    """A server with the recorded page's families as live objects."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from urllib.parse import parse_qs, urlsplit

    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    registry = CollectorRegistry()
    for family in text_string_to_metric_families(PAGE.read_text()):
        samples = [sample for sample in family.samples if not sample.name.endswith(("_created", "_bucket", "_sum", "_count"))]
        if family.type == "histogram":
            samples = [sample for sample in family.samples if sample.name.endswith("_count")]
        if not samples or not family.name.startswith("vllm"):
            continue
        names = sorted(samples[0].labels)
        if family.type == "histogram":
            bounds = sorted({float(one.labels["le"]) for one in family.samples if "le" in one.labels})
            kept = Histogram(family.name, family.documentation, names, registry=registry, buckets=bounds)
        else:
            kept = (Counter if family.type == "counter" else Gauge)(family.name, family.documentation, names, registry=registry)
        for sample in samples:
            child = kept.labels(**sample.labels) if names else kept
            if isinstance(kept, Histogram):
                child.observe(1.0)
            else:
                child.inc(sample.value)

    class Filtering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            names = parse_qs(urlsplit(self.path).query).get("name[]", [])
            content = generate_latest(registry.restricted_registry(names) if names else registry)  # type: ignore[arg-type]
            self.send_response(200 if self.path.startswith("/metrics") else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Filtering)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def report() -> None:
    """Print all lines."""
    _sides()
    if not _EPP.is_file() or subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode:
        print("  picker: not measured, since it was not built (make real-parts) or a network of its own is not allowed here")
        return
    from collector.clock import Instant
    from collector.model import Target
    from collector.read import Body, understand
    from collector.signals import Lane
    from collector.state import State
    from exporter.sidecar.page import Style, render, view_of

    target = Target(url="http://127.0.0.1:8000/metrics", namespace="", pool="", pod="")
    state, now = State(cluster=""), Instant(0.0, 0.0)
    state.watch([target], now)
    state.absorb(understand(target, Lane.FULL, Body(PAGE.read_bytes(), ""), at=now))
    view = view_of(state.endpoints(now))
    assert view is not None
    with tempfile.TemporaryDirectory() as name:
        small = Path(name) / "small.prom"
        small.write_bytes(render(view, Style()))
        whole, ours = _picker(PAGE, Path(name)), _picker(small, Path(name))
    print(f"  real picker, {PODS} pods, whole pages {whole:.1%} of a core; sidecars' pages {ours:.1%}  {whole / ours:5.1f}x less")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["engine"]:
            engine()
        case ["pool", page, epp]:
            pool(page, epp)
        case _:
            report()
