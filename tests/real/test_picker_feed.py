"""The real endpoint picker behind a real Envoy, fed by our sidecars before five engines, and another one that reads them itself.

The picker is 1.5 of gateway-api-inference-extension. Its successor, llm-d-router, is not to be had here: file discovery, the
`port` of its source and its poll-error counters are not shown; poll and extract errors are read from this picker's log.
"""

import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collector.scoring import Full
from exporter.picker.bundle import Wish, bundle
from tests.real.isolated import Isolated, start_isolated
from tests.real.picker_scene import ADDRESSES, ENGINE_PORT, NAMESPACE, SIDECAR_PORT
from tests.real.programs import picker_environment, picking_envoy, write_yaml
from tests.real.running import program, wait_until
from tests.unit.test_sidecar_page import families

pytestmark = pytest.mark.real_heavy
FED, BARE = 9090, 9091
ENVOY = "http://127.0.0.1:8080/v1/completions"
ASK = """
import collections, json, sys, urllib.request as u
url, model, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
where = collections.Counter()
for number in range(count):
    body = {"model": model, "prompt": f"{seed} {number} " * 3, "max_tokens": 1}
    asked = u.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    where[json.load(u.urlopen(asked, timeout=20))["model"]] += 1
print(json.dumps(where))
"""
BACK = """
import sys, time, urllib.error, urllib.request as u
control, page = sys.argv[1], sys.argv[2]
u.urlopen(control, timeout=5).read()
begun = time.monotonic()
while True:
    try:
        u.urlopen(page, timeout=1).read()
        break
    except urllib.error.HTTPError:
        time.sleep(0.02)
print(time.monotonic() - begun)
"""
REFUSED = """
import sys, time, urllib.error, urllib.request as u
begun = time.monotonic()
try:
    u.urlopen(sys.argv[1], timeout=5).read()
    print(200, 0)
except urllib.error.HTTPError as error:
    print(error.code, time.monotonic() - begun)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """All of it, entered from outside."""

    inside: Isolated
    folder: Path
    names: tuple[str, ...] = tuple(ADDRESSES)

    def act(self, what: str, **given: object) -> Any:
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return json.loads(self.inside.get(f"http://127.0.0.1:7000/{what}?{query}"))

    def gauges(self, port: int) -> dict[str, float]:
        """The picker's pool gauges, and its queues by pod."""
        page = self.inside.get(f"http://127.0.0.1:{port}/metrics").decode()
        found = {name: float(value) for name, value in re.findall(r"^inference_pool_(\w+)\{name=\S+ (\S+)$", page, re.MULTILINE)}
        queues = re.findall(r'^inference_pool_per_pod_queue_size\{model_server_pod="(.*)-rank-0",\S+ (\S+)$', page, re.MULTILINE)
        return found | {f"queue/{pod}": float(value) for pod, value in queues}

    def page(self, name: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """The sidecar's page."""
        return families(self.inside.get(f"http://{ADDRESSES[name]}:{SIDECAR_PORT}/picker"))

    def load(self, name: str, family: str) -> float:
        prefix = {
            "sglang": {"waiting": "sglang:num_queue_reqs", "running": "sglang:num_running_reqs", "kv": "sglang:token_usage"}
        }
        names = {"waiting": "vllm:num_requests_waiting", "running": "vllm:num_requests_running", "kv": "vllm:kv_cache_usage_perc"}
        (value,) = self.page(name)[prefix.get(name, names)[family]].values()
        return value

    def standing_errors(self, picker: str) -> dict[tuple[str, str], str]:
        """Polls and extractions that fail at present, by address: a picker logs when they begin and when they end."""
        standing: dict[tuple[str, str], str] = {}
        for line in (self.folder / f"{picker}.log").read_text(errors="replace").splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if match := re.fullmatch(r"(poll|extract) (failed|recovered)", event.get("msg", "")):
                key = (event["endpoint"], match[1])
                standing.pop(key, None)
                if match[2] == "failed":
                    standing[key] = event["error"]
        return standing

    def ask(self, model: str, count: int, seed: str) -> dict[str, int]:
        """Where requests through Envoy went."""
        told: dict[str, int] = json.loads(self.inside.inside(sys.executable, "-c", ASK, ENVOY, model, str(count), seed))
        return told

    def drain(self) -> None:
        for name in ("vllm-dp2", "vllm-lora", "sglang", "tgi"):
            self.act("advance", pod=name, seconds=120)
        self.settle()

    def settle(self) -> None:
        """Wait until the fed picker has read what there is now."""
        expected = statistics.fmean(self.load(name, "waiting") for name in self.names)
        wait_until(lambda: self.gauges(FED)["average_queue_size"] == pytest.approx(expected, abs=0.006), 20, "the present queues")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("picker")
    (folder / "envoy.json").write_text(json.dumps(picking_envoy(8080, 9901, picker=9002)))
    wish = Wish(picker="gaie", profile="chat-latency", sidecar_port=SIDECAR_PORT)
    (folder / "picker.yaml").write_text(bundle((NAMESPACE, "tiny"), [], {"vllm", "sglang", "tgi"}, wish, Full()))
    urls = [f"http://{address}:{ENGINE_PORT}" for address in ADDRESSES.values()]
    write_yaml(
        folder / "fleet.yaml", {"cluster": "t", "static_targets": [{"pool": "tiny", "namespace": NAMESPACE, "urls": urls}]}
    )
    command = [sys.executable, "-m", "tests.real.picker_scene", str(folder), program("epp"), program("envoy"),
               program("llm-d-inference-sim")]  # fmt: skip
    with start_isolated(
        command, url="http://127.0.0.1:7000/control", folder=folder, environment=picker_environment(folder)
    ) as up:
        made = Scene(up, folder)
        for port in (FED, BARE):
            wait_until(lambda port=port: up.answers(f"http://127.0.0.1:{port}/metrics"), 60, "a picker")
        wait_until(lambda: made.gauges(FED).get("ready_pods") == 5, 30, "five endpoints ready")
        wait_until(lambda: up.answers("http://127.0.0.1:9840/readyz"), 30, "our exporter")
        yield made


@pytest.fixture
def loaded(scene: Scene) -> Scene:
    """Queues everywhere but in llm-d's simulator."""
    scene.drain()
    for name, count in (("vllm-dp2", 151), ("vllm-lora", 70), ("sglang", 75), ("tgi", 80)):
        scene.act("submit", pod=name, count=count)
    scene.settle()
    return scene


def test_all_endpoints_are_ready_without_poll_or_extract_errors(scene: Scene) -> None:
    assert scene.gauges(FED)["ready_pods"] == len(ADDRESSES)
    assert scene.standing_errors("fed") == {}
    assert scene.act("ended") == []


def test_its_averages_and_queues_are_ours(loaded: Scene) -> None:
    def ours() -> dict[str, dict[str, Any]]:
        told = json.loads(loaded.inside.get("http://127.0.0.1:9840/picker/v1/endpoints"))["endpoints"]
        return {one["address"].partition(":")[0]: one for one in told}

    def agree() -> bool:
        seen, by_address = loaded.gauges(FED), ours()
        mine = {name: by_address[address] for name, address in ADDRESSES.items()}
        queues = {name: one["requests_waiting"] for name, one in mine.items()}
        return (seen["average_queue_size"] == pytest.approx(statistics.fmean(queues.values()), abs=0.006)
                and seen["average_running_requests"] == pytest.approx(
                    statistics.fmean(one["requests_running"] for one in mine.values()), abs=0.006)
                and all(seen[f"queue/{name}"] == queue for name, queue in queues.items()))  # fmt: skip

    wait_until(agree, 30, "the picker and our feed tell the same queues and averages")
    usage = statistics.fmean(loaded.load(name, "kv") for name in ADDRESSES)
    assert loaded.gauges(FED)["average_kv_cache_utilization"] == pytest.approx(usage, abs=0.006)
    by_address = ours()
    for name in ("vllm-dp2", "vllm-lora"):
        assert by_address[ADDRESSES[name]]["kv_cache_usage_ratio"] == loaded.load(name, "kv") > 0
    assert loaded.load("tgi", "waiting") > 0
    assert by_address[ADDRESSES["tgi"]]["kv_cache_usage_ratio"] is None, "the stand-in is on the sidecar's page alone"


def test_without_sidecars_it_is_wrong(loaded: Scene) -> None:
    """Data parallel: the first rank alone. TGI: nothing read, so it is never ready. SGLang: an error at each poll."""
    fed, bare = loaded.gauges(FED), loaded.gauges(BARE)
    assert fed["queue/vllm-dp2"] == loaded.load("vllm-dp2", "waiting") > 0
    page = loaded.inside.get(f"http://{ADDRESSES['vllm-dp2']}:{ENGINE_PORT}/metrics").decode()
    ranks = [float(value) for value in re.findall(r"^vllm:num_requests_waiting\{\S+ (\S+)$", page, re.MULTILINE)]
    assert len(ranks) == 2
    assert bare["queue/vllm-dp2"] == ranks[0] < sum(ranks) == fed["queue/vllm-dp2"]
    assert fed["queue/tgi"] > 0
    assert bare["queue/tgi"] == 0, "the longest queue looks like none"
    assert (fed["ready_pods"], bare["ready_pods"]) == (5, 4)
    errors = loaded.standing_errors("bare")
    assert '"vllm:kv_cache_usage_perc" not found' in errors[ADDRESSES["tgi"], "extract"]
    assert '"sglang:cache_config_info" not found' in errors[ADDRESSES["sglang"], "extract"]
    assert loaded.standing_errors("fed") == {}


def test_requests_go_to_the_pod_that_holds_the_adapter_and_leave_it_when_its_queue_grows(scene: Scene) -> None:
    scene.drain()
    scene.act("submit", pod="vllm-lora", count=2, adapter="sql")
    (labels,) = scene.page("vllm-lora")["vllm:lora_requests_info"]
    assert dict(labels)["running_lora_adapters"] == "sql"
    wait_until(lambda: scene.ask("sql", 4, "warm") == {"vllm-lora": 4}, 20, "the adapter in the picker's eyes")
    assert scene.ask("sql", 10, "adapter") == {"vllm-lora": 10}
    scene.act("submit", pod="vllm-lora", count=90, adapter="sql")
    scene.settle()
    assert scene.load("vllm-lora", "waiting") > 0
    assert "vllm-lora" not in scene.ask("sql", 10, "queue")


def test_requests_leave_the_pod_whose_kv_cache_fills(scene: Scene) -> None:
    scene.drain()
    scene.act("submit", pod="vllm-lora", count=1, adapter="sql")
    wait_until(lambda: scene.ask("sql", 4, "back") == {"vllm-lora": 4}, 20, "the adapter in the picker's eyes")
    scene.act("submit", pod="vllm-lora", count=12, tokens=7000, adapter="sql")
    scene.act("advance", pod="vllm-lora", seconds=5)
    assert scene.load("vllm-lora", "waiting") == 0
    assert scene.load("vllm-lora", "kv") > 0.75
    wait_until(lambda: "vllm-lora" not in scene.ask("sql", 4, "filling"), 20, "the full cache in the picker's eyes")
    assert "vllm-lora" not in scene.ask("sql", 10, "full")


@pytest.mark.parametrize(("fault", "within"), [("kill", 0.3), ("hang", 1.0)])
def test_a_lost_engine_fails_at_once_is_dropped_and_comes_back(scene: Scene, fault: str, within: float) -> None:
    """Killed: refused at once. Hanging: refused before the picker's own second is over, never answered with old numbers."""
    page = f"http://{ADDRESSES['vllm-lora']}:{SIDECAR_PORT}/picker"
    wait_until(lambda: scene.gauges(FED)["ready_pods"] == 5, 20, "all back")
    scene.act(fault, pod="vllm-lora")
    status, took = scene.inside.inside(sys.executable, "-c", REFUSED, page).split()
    if status == "200":  # the last sample was younger than the bound
        status, took = scene.inside.inside(sys.executable, "-c", REFUSED, page).split()
    assert status == "503"
    assert float(took) < within
    wait_until(lambda: scene.gauges(FED)["ready_pods"] == 4, 6, "dropped within the picker's threshold of 2 s")
    assert (ADDRESSES["vllm-lora"], "poll") in scene.standing_errors("fed")
    control = f"http://127.0.0.1:7000/{'restore' if fault == 'kill' else 'thaw'}?pod=vllm-lora"
    assert float(scene.inside.inside(sys.executable, "-c", BACK, control, page)) < 1.0
    wait_until(lambda: scene.gauges(FED)["ready_pods"] == 5, 10, "back")
    assert scene.standing_errors("fed") == {}
