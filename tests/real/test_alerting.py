"""Shipped rules in vmalert, and an alert's way through Alertmanager: to a webhook, and into a silence."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.real import programs
from tests.real.promapi import vector
from tests.real.running import Running, output_of, program, wait_until

pytestmark = pytest.mark.real
GROUPS = [group for path in programs.RULES for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]
SHIPPED = [rule for group in GROUPS for rule in group["rules"]]
LABELS = {"alertname": "SmokeTest", "severity": "page", "namespace": "serving", "pool": "llama-70b"}


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Address of a webhook, and the notifications that it has got."""
    got: list[dict[str, object]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", got
        server.shutdown()
        thread.join()


@pytest.fixture
def alertmanager(webhook: tuple[str, list[dict[str, object]]], tmp_path: Path) -> Iterator[Running]:
    with programs.start_alertmanager(webhook[0], tmp_path) as alertmanager:
        yield alertmanager


def test_an_alert_reaches_the_webhook(alertmanager: Running, webhook: tuple[str, list[dict[str, object]]]) -> None:
    pairs = [f"{key}={text}" for key, text in LABELS.items()]
    output_of([program("amtool"), f"--alertmanager.url={alertmanager.url}", "alert", "add", *pairs])
    wait_until(lambda: webhook[1], 15, "the notification")
    notification = webhook[1][0]
    assert notification["status"] == "firing"
    assert notification["commonLabels"] == LABELS


def test_a_silence_keeps_an_alert_from_the_webhook(alertmanager: Running, webhook: tuple[str, list[dict[str, object]]]) -> None:
    """A second alert, of another pool, tells when the silenced one would have come."""
    amtool = [program("amtool"), f"--alertmanager.url={alertmanager.url}"]
    output_of([*amtool, "silence", "add", "--author=test", "--comment=test", "--duration=1h", "pool=llama-70b"])
    for pool in ("llama-70b", "assistants"):
        output_of([*amtool, "alert", "add", "alertname=SmokeTest", f"pool={pool}"])
    wait_until(lambda: webhook[1], 15, "the notification")
    assert [one["commonLabels"] for one in webhook[1]] == [{"alertname": "SmokeTest", "pool": "assistants"}]
    states = {one["labels"]["pool"]: one["status"]["state"] for one in alertmanager.get("/api/v2/alerts").json()}
    assert states == {"llama-70b": "suppressed", "assistants": "active"}


def test_amtool_accepts_the_configuration(alertmanager: Running, tmp_path: Path) -> None:
    assert "SUCCESS" in output_of([program("amtool"), "check-config", str(tmp_path / "alertmanager.yml")])


EXAMPLE = programs.ROOT / "alerts/generated/alertmanager/alertmanager.yaml"


def test_amtool_accepts_the_shipped_example() -> None:
    said = output_of([program("amtool"), "check-config", str(EXAMPLE)])
    assert "SUCCESS" in said
    assert "3 inhibit rules" in said


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=LLMPodStuck", "level=pod", "severity=critical"), "pager"),
        (("alertname=LLMPodMetricsStale", "level=pod", "severity=warning"), "tickets"),
        (("alertname=LLMPoolVersionsDiffer", "level=pool", "severity=info"), "notes"),
        (("alertname=LLMFleetWatchdog", "level=exporter", "severity=none"), "watchdog"),
        (("alertname=LLMPodStuck", "level=pod", "severity=critical", "drained=true"), "nobody"),
        (("alertname=KubePodCrashLooping", "severity=critical"), "nobody"),
    ],
)
def test_the_shipped_example_sends_an_alert_where_it_belongs(labels: tuple[str, ...], receiver: str) -> None:
    assert output_of([program("amtool"), "config", "routes", "test", f"--config.file={EXAMPLE}", *labels]).strip() == receiver


@pytest.mark.real_heavy
def test_vmalert_evaluates_the_shipped_rules(vmagent: Running, victoria: Running, tmp_path: Path) -> None:
    """Rendered without `keep_firing_for`, which Debian's old vmalert refuses."""
    command = [sys.executable, "-m", "exporter", "render", "alerts", "--out", str(tmp_path / "rules"), "--no-keep-firing-for"]
    output_of(command)
    rules = sorted((tmp_path / "rules").glob("*.yaml"))
    for path in rules:
        path.write_text(re.sub(r"interval: \w+", "interval: 1s", path.read_text(encoding="utf-8")), encoding="utf-8")
    with programs.start_vmalert(victoria, rules, tmp_path) as vmalert:
        recorded = sorted({rule["record"] for rule in SHIPPED if "record" in rule})
        wait_until(lambda: all(vector(victoria, name) for name in recorded), 60, "data of every recorded rule")
        groups = vmalert.get("/api/v1/rules").json()["data"]["groups"]
        told = [rule for group in groups for rule in group["rules"]]
        assert len(told) == len(SHIPPED)
        assert {(rule["health"], rule["lastError"]) for rule in told} == {("ok", "")}
