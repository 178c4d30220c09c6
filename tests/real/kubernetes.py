"""A Kubernetes apiserver that knows some ready pods and InferencePools: discovery, list and watch, nothing else.

It answers what the endpoint picker asks of one, and never has news.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

GROUP, VERSION = "inference.networking.k8s.io", "v1"
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
# What an apiserver says that cannot stream lists: the client lists and watches instead.
NO_STREAMED_LISTS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}


@dataclass(frozen=True, slots=True)
class Served:
    """A ready pod."""

    name: str
    address: str
    labels: dict[str, str]


def _pod(one: Served, namespace: str, number: int) -> dict[str, Any]:
    meta = {"name": one.name, "namespace": namespace, "uid": str(number), "resourceVersion": "5", "labels": one.labels}
    status = {"phase": "Running", "podIP": one.address, "conditions": [{"type": "Ready", "status": "True"}]}
    containers = [{"name": "engine", "image": "engine"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}, "status": status}


def _pool(name: str, namespace: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": namespace, "uid": f"pool-{name}", "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "tiny"}}, "targetPorts": [{"number": port}],
                 "endpointPickerRef": {"name": "epp", "port": {"number": 9002}}},
    }  # fmt: skip


def _resources(kind: str, plural: str, version: str) -> dict[str, Any]:
    one = {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["get", "list", "watch"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [one]}


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"kind": f"{items[0]['kind']}List", "apiVersion": items[0]["apiVersion"], "metadata": {"resourceVersion": "5"}}
    return {**head, "items": items}


class ApiServer:
    """Serves pods and pools of one namespace; every pool has all pods."""

    def __init__(self, namespace: str, *, pools: Sequence[str], pods: Sequence[Served], port: int) -> None:
        served = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
        group = {"name": GROUP, "versions": [served], "preferredVersion": served}
        self._pools = {name: _pool(name, namespace, port) for name in pools}
        self._prefix = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/inferencepools"
        self.answers: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
            "/api/v1": _resources("Pod", "pods", "v1"),
            f"/apis/{GROUP}/{VERSION}": _resources("InferencePool", "inferencepools", f"{GROUP}/{VERSION}"),
        }
        self._pods = (f"/api/v1/namespaces/{namespace}/pods", _list([_pod(one, namespace, i) for i, one in enumerate(pods, 1)]))

    def listed(self, path: str, query: dict[str, list[str]]) -> dict[str, Any] | None:
        """The list that a path names; a picker asks for its own pool by name."""
        if path == self._pods[0]:
            return self._pods[1]
        if path != self._prefix:
            return None
        wanted = "".join(query.get("fieldSelector", [])).rpartition("metadata.name=")[2]
        return _list([pool for name, pool in self._pools.items() if wanted in ("", name)])

    def start(self, port: int) -> None:
        """Serve on 127.0.0.1 in a thread."""
        server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Answer(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                query = parse_qs(address.query)
                found = api.listed(address.path, query)
                if address.path in api.answers:
                    self.say(200, api.answers[address.path])
                elif found is None:
                    self.say(404, NOT_FOUND)
                elif "sendInitialEvents" in query:
                    self.say(422, NO_STREAMED_LISTS)
                elif query.get("watch", ["false"])[0] in ("1", "true"):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.end_headers()
                    threading.Event().wait()  # nothing ever happens here
                else:
                    self.say(200, found)

            def say(self, code: int, answer: dict[str, Any]) -> None:
                content = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Answer
