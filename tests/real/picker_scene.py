"""Engines, sidecars, our exporter, two real pickers and Envoy in one network of their own; commands come over HTTP.

    picker_scene.py FOLDER EPP ENVOY SIMULATOR

Pods have loopback addresses of their own, all with the engine on port 8000 and the sidecar on 9841. One picker (`fed`) reads the
sidecars, the other (`bare`) the engines. Time stands still in the simulated engines unless `/advance` moves it, so that everybody
reads the same numbers. `/control` listens on 127.0.0.1:7000 and answers when all are up.
"""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from exporter.demo.answers import answer
from exporter.demo.config import H100, EngineConfig
from exporter.demo.plan import PodPlan
from exporter.demo.pod import Pod
from exporter.demo.request import Request
from tests.real.kubernetes import ApiServer, Served

ADAPTERS = ("sql", "chat")
SIMULATOR = "http://127.0.0.1:8010"
MODEL = "tiny"
PLANS = {
    "vllm-dp2": (PodPlan("vllm-dp2", EngineConfig("vllm", MODEL, H100), ranks=2), "vllm", ()),
    "vllm-lora": (PodPlan("vllm-lora", EngineConfig("vllm", MODEL, H100, adapters=ADAPTERS, max_loras=2)), "vllm", ()),
    "sglang": (PodPlan("sglang", EngineConfig("sglang", MODEL, H100)), "sglang", ("--names", "sglang")),
    "tgi": (PodPlan("tgi", EngineConfig("tgi", MODEL, H100)), "tgi", ("--kv-stand-in",)),
    "simulator": (None, "vllm", ()),
}
ADDRESSES = {name: f"127.0.0.{number}" for number, name in enumerate(PLANS, 11)}
SIDECAR_PORT, ENGINE_PORT = 9841, 8000
NAMESPACE = "serving"


class Engine:
    """One pod's port 8000: a simulated engine, or what passes everything on to llm-d's simulator."""

    def __init__(self, name: str, plan: PodPlan | None) -> None:
        self.name, self.host = name, ADDRESSES[name]
        self.pod = None if plan is None else Pod(plan, wall=lambda seconds: 1_800_000_000.0 + seconds)
        self.lock = threading.Lock()
        self.hung = threading.Event()
        self.numbers = 0
        self._server: ThreadingHTTPServer | None = None

    def open(self) -> None:
        engine = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                if engine.hung.is_set():
                    threading.Event().wait(60)
                self.say(*engine.get(self.path))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                told = {"id": "1", "object": "text_completion", "model": engine.name, "choices": [], "usage": usage}
                self.say(200, json.dumps(told).encode(), "application/json")

        self._server = Listening((self.host, ENGINE_PORT), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.drop()
            self._server = None

    def get(self, path: str) -> tuple[int, bytes, str]:
        if self.pod is None:
            with urllib.request.urlopen(SIMULATOR + path, timeout=5) as told:
                return told.status, told.read(), told.headers["Content-Type"]
        parts = urlsplit(path)
        with self.lock:
            found = answer(self.pod, parts.path, names=parse_qs(parts.query).get("name[]", []))
        return found.status, found.body, found.content_type or "text/plain"

    def submit(self, count: int, prompt_tokens: int, adapter: str) -> None:
        assert self.pod is not None
        with self.lock:
            for _ in range(count):
                self.numbers += 1
                self.pod.submit(Request(self.numbers, self.pod.now, prompt_tokens, 400, 400, adapter=adapter or None))
            self.pod.advance(self.pod.now + 0.5)

    def advance(self, seconds: float) -> None:
        assert self.pod is not None
        with self.lock:
            for _ in range(int(seconds)):
                self.pod.advance(self.pod.now + 1.0)


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def say(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Listening(ThreadingHTTPServer):
    """Can let go of all its connections, as a process that is killed does."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sockets: list[Any] = []

    def get_request(self) -> Any:
        found = super().get_request()
        self._sockets.append(found[0])
        return found

    def drop(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def pods() -> list[Served]:
    return [Served(name, ADDRESSES[name], {"app": "tiny", "inference.networking.k8s.io/engine-type": kind})
            for name, (_, kind, _) in PLANS.items()]  # fmt: skip


def commands(folder: Path, epp: str, envoy: str, simulator: str) -> dict[str, list[str]]:
    python = [sys.executable, "-m", "exporter"]
    picker = [epp, f"--pool-namespace={NAMESPACE}", "--secure-serving=false", "--tracing=false", "--metrics-endpoint-auth=false",
              "--refresh-prometheus-metrics-interval=100ms", "--v=4", "--enable-pprof=false"]  # fmt: skip
    sidecars = {f"sidecar-{name}": [*python, "serve", "--role", "sidecar", "--listen", f"{ADDRESSES[name]}:{SIDECAR_PORT}",
                                    "--engine-url", f"http://{ADDRESSES[name]}:{ENGINE_PORT}", *flags]
                for name, (_, _, flags) in PLANS.items()}  # fmt: skip
    return {
        "simulator": [simulator, "--port", "8010", "--model", MODEL, "--force-dummy-tokenizer", "--lora-modules",
                      json.dumps({"name": "other"}), "--max-loras", "2"],
        **sidecars,
        "exporter": [*python, "serve", "--config", str(folder / "fleet.yaml"), "--listen", "127.0.0.1:9840"],
        "fed": [*picker, "--pool-name=fed", f"--config-file={folder / 'picker.yaml'}",
                f"--model-server-metrics-port={SIDECAR_PORT}"],
        "bare": [*picker, "--pool-name=bare", "--grpc-port=9012", "--grpc-health-port=9013", "--metrics-port=9091"],
        "envoy": [envoy, "-c", str(folder / "envoy.json"), "--concurrency", "1", "--disable-hot-restart"],
    }  # fmt: skip


Programs = dict[str, "subprocess.Popen[bytes]"]


def answering(engines: Mapping[str, Engine], programs: Programs) -> Callable[[str, dict[str, str]], Any]:
    """What a command does; its result is told as JSON."""

    def act(what: str, given: dict[str, str]) -> Any:
        if what == "stop":
            programs[given["program"]].send_signal(signal.SIGSTOP)
            return None
        if what == "ended":
            return [name for name, program in programs.items() if program.poll() is not None]
        engine = engines[given["pod"]]
        match what:
            case "submit":
                engine.submit(int(given["count"]), int(given.get("tokens", "200")), given.get("adapter", ""))
            case "advance":
                engine.advance(float(given["seconds"]))
            case "kill":
                engine.close()
            case "restore":
                engine.hung.clear()
                engine.open()
            case "hang":
                engine.hung.set()
            case "thaw":
                engine.hung.clear()
        return None

    return act


def main(folder: str, epp: str, envoy: str, simulator: str) -> int:
    where = Path(folder)
    engines = {name: Engine(name, plan) for name, (plan, _, _) in PLANS.items()}
    for engine in engines.values():
        engine.open()
    ApiServer(NAMESPACE, pools=("fed", "bare"), pods=pods(), port=ENGINE_PORT).start(8001)
    programs: Programs = {}
    for name, command in commands(where, epp, envoy, simulator).items():
        log = (where / f"{name}.log").open("wb")
        programs[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    act = answering(engines, programs)

    class Control(Quiet):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            given = {name: values[0] for name, values in parse_qs(parts.query).items()}
            result = None if parts.path == "/control" else act(parts.path.strip("/"), given)
            self.say(200, json.dumps(result).encode(), "application/json")

    threading.Thread(target=Listening(("127.0.0.1", 7000), Control).serve_forever, daemon=True).start()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.is_set():
        time.sleep(0.1)
    for program in programs.values():
        program.send_signal(signal.SIGCONT)
        program.terminate()
    for program in programs.values():
        try:
            program.wait(5)
        except subprocess.TimeoutExpired:
            program.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
