"""The page for people: names are only names, what is not known is a dash, and it stands without any pool."""

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from collector.clock import Instant
from collector.model import Adapters, Failure, Reading, Target
from collector.read import Body, understand
from collector.reasons import FailureReason
from collector.signals import Lane
from collector.snapshot import Snapshot
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.web.page import render_page

HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='alert(1)", "</title><script>",
        "&lt;b&gt;", "]]>",
           "</main><iframe>", "javascript:alert(1)", "${alert(1)}", "<!--"]  # fmt: skip
TAGS = {"html", "head", "meta", "title", "link", "noscript", "style", "body", "main", "h1", "h2", "p", "a", "div", "table",
        "thead", "tbody",
        "tr", "th", "td", "span", "meter", "script"}  # fmt: skip
PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="{model}"}} 1234.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="{model}"}} 0.0
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{{max_lora="2",running_lora_adapters="{adapter}",waiting_lora_adapters=""}} 1.0
"""


class Clock:
    def __init__(self) -> None:
        self.mono = 100.0

    def now(self) -> Instant:
        return Instant(self.mono, 1_000_000.0 + self.mono)


class Reader(HTMLParser):
    """The page as a browser sees it: tags, attributes, texts, and the cells of each table row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._cell:
            self.rows[-1][-1] += data

    def row(self, first: str) -> dict[str, str]:
        """The row that begins with this cell, by the heads of its table."""
        head: list[str] = []
        for cells in self.rows:
            if cells[0] in ("Pool", "Pod"):
                head = cells
            elif cells[0] == first:
                return dict(zip(head, cells, strict=True))
        raise AssertionError(f"{first!r} not among {[cells[0] for cells in self.rows]}")


def fleet(*targets: Target, cluster: str = "c") -> tuple[Hub, Clock]:
    clock = Clock()
    hub = Hub(parse_config("cluster: c"), clock)
    hub.state.cluster = cluster
    hub.state.watch(targets, clock.now())
    return hub, clock


def target(pod: str = "pod", *, pool: str = "p", namespace: str = "n", accelerator: str = "") -> Target:
    return Target(url="http://h:1/metrics", namespace=namespace, pool=pool, pod=pod, accelerator=accelerator)


def good(one: Target, clock: Clock, *, model: str = "m", adapter: str = "") -> Reading:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (model, adapter)]
    body = Body(PAGE.format(model=quoted[0], adapter=quoted[1]).encode(), "text/plain")
    return understand(one, Lane.FULL, body, at=clock.now())


def failed(one: Target, clock: Clock, detail: str) -> Failure:
    return Failure(target=one, lane=Lane.FULL, at=clock.now(), reason=FailureReason.TIMEOUT, detail=detail)


def read(snapshot: Snapshot) -> Reader:
    return Reader(render_page(snapshot))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_a_name(name: str) -> None:
    one = target(name, pool=name, namespace=name, accelerator=name)
    hub, clock = fleet(one, cluster=name)
    hub.take(good(one, clock, model=name, adapter=name))
    hub.take(failed(one, clock, name))
    page = read(hub.state.snapshot(clock.now()))
    assert set(page.tags) <= TAGS
    assert page.tags.count("script") == 1
    assert not any(key.startswith("on") for key, _ in page.attributes)
    assert {value for key, value in page.attributes if key in ("href", "src")} == {"data:,", "/metrics", "/picker/v1/endpoints"}
    assert page.row(name)["Accelerator"] == name
    assert page.row(f"{name}/{name}")["Model"] == name
    assert page.row(name)["Adapters"] == f"{name} of 2"
    assert ("title", name) in page.attributes


def test_what_is_not_known_is_a_dash_and_never_zero() -> None:
    one = target()
    hub, clock = fleet(one)
    page = read(hub.state.snapshot(clock.now()))
    assert page.row("pod") == {"Pod": "pod", "Engine": "–", "Accelerator": "–", "State": "stale", "Age": "–", "Running": "–",
                               "Waiting": "–", "KV cache": "–", "Prefix hits": "–", "Adapters": "–"}  # fmt: skip
    pool = page.row("n/p")
    assert pool["Pods"] == "0 of 1"
    assert {key for key, cell in pool.items() if cell == "–"} == set(pool) - {"Pool", "Pods"}


def test_what_is_known_is_shown_and_a_true_zero_is_zero() -> None:
    one = target(accelerator="H100")
    hub, clock = fleet(one)
    hub.take(good(one, clock))
    clock.mono += 1.5
    page = read(hub.state.snapshot(clock.now()))
    assert page.row("pod") == {"Pod": "pod", "Engine": "vllm", "Accelerator": "H100", "State": "fresh", "Age": "1.5 s",
    "Running": "1,234",
                               "Waiting": "0", "KV cache": "–", "Prefix hits": "–", "Adapters": "none of 2"}  # fmt: skip
    pool = page.row("n/p")
    assert (pool["Pods"], pool["Model"], pool["Running"], pool["Waiting"]) == ("1 of 1", "m", "1,234", "0")


def test_a_pod_that_falls_silent_keeps_its_row_and_loses_its_load() -> None:
    one = target()
    hub, clock = fleet(one)
    hub.take(good(one, clock, adapter="a"))
    for seconds, failing, state in ((4.0, False, "stale"), (20.0, True, "down timeout")):
        clock.mono = 100.0 + seconds
        if failing:
            hub.take(failed(one, clock, "why"))
        row = read(hub.state.snapshot(clock.now())).row("pod")
        assert (row["State"], row["Age"], row["Engine"]) == (state, f"{seconds:.1f} s", "vllm")
        assert (row["Running"], row["Waiting"], row["Adapters"]) == ("–", "–", "–")


def test_an_engine_that_does_not_tell_which_adapters_run_gets_a_dash() -> None:
    one = target()
    hub, clock = fleet(one)
    reading = good(one, clock)
    (values,) = reading.rows.values()
    told = replace(values, adapters=Adapters(running=None, waiting=frozenset({"a"}), max=2))
    hub.take(replace(reading, rows={one: told}))
    assert read(hub.state.snapshot(clock.now())).row("pod")["Adapters"] == "–"


def test_states_are_counted_on_top() -> None:
    pods = [Target(url=f"http://h:{port}/metrics", namespace="n", pool="p", pod=f"h:{port}") for port in (1, 2, 3)]
    hub, clock = fleet(*pods)
    hub.take(good(pods[0], clock))
    hub.take(failed(pods[1], clock, "why"))
    top = "".join(read(hub.state.snapshot(clock.now())).texts)
    assert "1 fresh, 1 stale, 1 down" in top


def test_a_pool_whose_pods_went_stays_with_no_pods() -> None:
    hub, clock = fleet(target())
    hub.state.watch((), clock.now())
    page = read(hub.state.snapshot(clock.now()))
    assert page.row("n/p")["Pods"] == "0 of 0"
    assert "pod" not in [cells[0] for cells in page.rows]


def test_the_page_stands_without_any_pool() -> None:
    hub, clock = fleet()
    page = read(hub.state.snapshot(clock.now()))
    assert "no pods" in "".join(page.texts)
    assert [cells[0] for cells in page.rows] == ["Pool", "Pod"]
    assert page.tags.count("main") == 1
