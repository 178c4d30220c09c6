"""A Kubernetes apiserver that knows one ready pod in one InferencePool, the pod's page, and a program that needs them.

    one_pod.py PAGE COMMAND ...

The apiserver answers on 127.0.0.1:8001: discovery, list and watch, nothing else. The page is on 127.0.0.1:8000.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "serving"
GROUP, VERSION = "inference.networking.k8s.io", "v1"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "tiny-0", "namespace": NAMESPACE, "uid": "1", "resourceVersion": "5", "labels": {"app": "tiny"}},
    "spec": {"containers": [{"name": "engine", "image": "engine"}]},
    "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
}
POOL = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "InferencePool",
    "metadata": {"name": "tiny", "namespace": NAMESPACE, "uid": "2", "resourceVersion": "5"},
    "spec": {
        "selector": {"matchLabels": {"app": "tiny"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
    },
}


def resource_list(kind: str, plural: str, version: str) -> dict[str, Any]:
    one = {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["get", "list", "watch"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [one]}


def listing(item: dict[str, Any]) -> dict[str, Any]:
    head = {"kind": f"{item['kind']}List", "apiVersion": item["apiVersion"], "metadata": {"resourceVersion": "5"}}
    return {**head, "items": [item]}


SERVED = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
DISCOVERY: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": GROUP, "versions": [SERVED], "preferredVersion": SERVED}],
    },
    "/api/v1": resource_list("Pod", "pods", "v1"),
    f"/apis/{GROUP}/{VERSION}": resource_list("InferencePool", "inferencepools", f"{GROUP}/{VERSION}"),
}
LISTS = {
    f"/api/v1/namespaces/{NAMESPACE}/pods": listing(POD),
    f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/inferencepools": listing(POOL),
}


class Answer(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def send(self, code: int, content: bytes, content_type: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class ApiServer(Answer):
    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        if address.path in DISCOVERY:
            self.send_json(200, DISCOVERY[address.path])
        elif address.path not in LISTS:
            self.send_json(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
        elif "sendInitialEvents" in query:
            # What an apiserver says that cannot stream lists: the client lists and watches instead.
            self.send_json(422, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
        elif query.get("watch", ["false"])[0] in ("1", "true"):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            threading.Event().wait()  # nothing ever happens here
        else:
            self.send_json(200, LISTS[address.path])

    def send_json(self, code: int, answer: dict[str, Any]) -> None:
        self.send(code, json.dumps(answer).encode(), "application/json")


def main(page: str, *command: str) -> int:
    content = Path(page).read_bytes()

    class Engine(Answer):
        def do_GET(self) -> None:
            self.send(200, content, "text/plain; version=0.0.4; charset=utf-8")

    for port, handler in ((8001, ApiServer), (8000, Engine)):
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with subprocess.Popen(command) as program:
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        while program.poll() is None:
            time.sleep(0.1)
    return program.returncode


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
