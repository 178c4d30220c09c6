"""Real Prometheus on our pools and on the engines' own pages, side by side: quantiles and rates against the simulated events.

Ten minutes of a fleet are simulated, each page of ours and of the engines is written down with its time, and a Prometheus is
given all of it at once.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from collector.clock import Instant
from collector.ladders import Ladder
from collector.model import Target
from collector.read import Body, understand
from collector.signals import Lane
from collector.state import State
from exporter.demo.config import A100, H100, EngineConfig
from exporter.demo.fleet import Fleet
from exporter.demo.ledger import count_into
from exporter.demo.load import Mix, Wave
from exporter.demo.plan import Fault, FleetPlan, PodPlan, PoolPlan
from exporter.publish.prometheus import Format, render
from tests.real.running import Running, free_port, output_of, program, running

pytestmark = pytest.mark.real

EVERY, END, JOINS, WINDOW = 5.0, 600.0, 300.0, 120.0
VLLM = EngineConfig("vllm", "llama", H100, num_blocks=1500)
SGLANG = EngineConfig("sglang", "llama", A100, block_size=1, num_blocks=20_000)
PODS = (PodPlan("v-0", VLLM), PodPlan("v-1", VLLM), PodPlan("s-0", SGLANG))
MIX = Mix(prompt_tokens=600, output_tokens=60, max_tokens=200)
POOL = PoolPlan("chat", PODS, Wave(14.0, swing=0.3, period_seconds=200.0), MIX)
RESTART = Fault("v-1", "kill", at=451.0, seconds=2.0)  # between two looks
SELECTOR = 'llm_pool_time_to_first_token_seconds_bucket{pool="chat"}'
LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$")
RAW = ("generation_tokens_total", "prompt_tokens_total", "time_to_first_token_seconds_count")


@dataclass
class Told:
    """Everything that was on a page: lines with their times, family by family as the format wants it."""

    began: float
    lines: dict[str, list[str]] = field(default_factory=dict)

    def take(self, page: str, seconds: float, *, labels: str = "", only: Sequence[str] = ()) -> None:
        for line in page.splitlines():
            match = LINE.match(line)
            if match is None or (only and not match[1].endswith(tuple(only))):
                continue
            name, own, number = match.groups()
            inside = ",".join(part for part in ((own or "{}")[1:-1], labels) if part)
            text = f"{name}{{{inside}}} {number} {self.began + seconds:.3f}"
            self.lines.setdefault(re.sub("_(bucket|sum|count)$", "", name), []).append(text)

    def write(self, path: Path) -> Path:
        body = "\n".join(line for family in self.lines.values() for line in family)
        path.write_text(f"{body}\n# EOF\n", encoding="utf-8")
        return path


@dataclass(frozen=True)
class Story:
    """The fleet after ten minutes, the store that holds what was told of it, and the unix time of its beginning."""

    fleet: Fleet
    store: Running
    began: float

    def at(self, seconds: float) -> str:
        return f"{self.began + seconds:.3f}"

    def value(self, expression: str, seconds: float) -> float:
        """The only value of an instant query, which must come without a remark of any kind."""
        answer: dict[str, Any] = self.store.get("/api/v1/query", query=expression, time=self.at(seconds)).json()
        assert answer["status"] == "success", answer
        assert not answer.get("warnings"), answer
        assert not answer.get("infos"), answer
        [sample] = answer["data"]["result"]
        return float(sample["value"][1])

    def first_tokens(self, pods: Iterable[str], after: float, until: float) -> list[float]:
        """Times to first token of requests whose first token came in the span, in seconds, from single requests."""
        traces = (trace for name in pods for ledger in self.fleet.pod(name).ledgers for trace in ledger.records)
        return [(trace.first_token - trace.arrived) / 1e6 for trace in traces
                if trace.first_token is not None and after < trace.first_token / 1e6 <= until]  # fmt: skip


def tell(fleet: Fleet, began: float) -> Told:
    told, core = Told(began), State(cluster="c")
    for step in range(int(END / EVERY) + 1):
        now = EVERY * step
        fleet.advance(now)
        at = Instant(1000.0 + now, began + now)
        names = [pod.name for pod in PODS if pod.name != "s-0" or now >= JOINS]
        targets = {name: Target(url=f"http://{name}:8000/metrics", namespace="serving", pool="chat", pod=name) for name in names}
        core.watch(targets.values(), at)
        for name, target in targets.items():
            page = fleet.pod(name).page()
            core.absorb(understand(target, Lane.FULL, Body(page.encode(), "text/plain"), at=at))
            told.take(page, now, labels=f'pod="{name}"', only=RAW)
        told.take(render(core.snapshot(at), Format.TEXT, max_pods=9)[0], now)
    return told


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("quantiles")
    began = float(int(time.time()) // 60 * 60 - 7200)
    fleet = Fleet(FleetPlan((POOL,), (RESTART,)), seed=7, wall=lambda seconds: began + seconds, keep_records=True)
    page = tell(fleet, began).write(folder / "told.om")
    output_of([program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(page), str(folder / "data")])
    (folder / "prometheus.yml").write_text("{}\n")
    port = free_port()
    command = [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=30d"]  # fmt: skip
    with running(command, url=f"http://127.0.0.1:{port}", ready="/-/ready", log=folder / "log") as store:
        yield Story(fleet, store, began)


def own_ladder(story: Story, pod: str) -> Ladder:
    ledger = story.fleet.pod(pod).ledgers[0]
    bounds: Ladder = ledger.tally("ttft", streaming=True if "ttft" in ledger.books.split else None).bounds
    return bounds


def quantile_of_events(point: float, by_ladder: dict[Ladder, list[float]]) -> float:
    """histogram_quantile by its definition: counts grow linearly inside the bucket that the engine observed them in."""

    def below(x: float) -> float:
        total = 0.0
        for ladder, events in by_ladder.items():
            counts = [0, *accumulate(count_into(ladder, events))]
            place = bisect_right(ladder, x)
            low = ladder[place - 1] if place else 0.0
            part = (x - low) / (ladder[place] - low) if place < len(ladder) else 0.0
            total += counts[place] + part * (counts[place + 1] - counts[place])
        return total

    bounds = sorted({0.0, *(bound for ladder in by_ladder for bound in ladder)})
    rank = point * sum(map(len, by_ladder.values()))
    high = next(bound for bound in bounds if below(bound) >= rank)
    low = bounds[bounds.index(high) - 1]
    return low + (high - low) * (rank - below(low)) / (below(high) - below(low))


# A range looks back from its end and leaves its beginning out: the first page in it is one scrape later.
SPAN = WINDOW - EVERY


@pytest.mark.parametrize("point", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    ("seconds", "pods"), [(295.0, ("v-0", "v-1")), (420.0, ("v-0", "v-1", "s-0")), (600.0, ("v-0", "v-1", "s-0"))]
)
def test_quantiles_of_the_pool_are_those_of_the_events(story: Story, seconds: float, pods: Sequence[str], point: float) -> None:
    """Before and after an SGLang pod, with other buckets, joins the vLLM pool."""
    expression = f"histogram_quantile({point}, sum by (le) (rate({SELECTOR}[{WINDOW:g}s])))"
    by_ladder: dict[Ladder, list[float]] = {}
    for pod in pods:
        by_ladder.setdefault(own_ladder(story, pod), []).extend(story.first_tokens([pod], seconds - SPAN, seconds))
    assert len(by_ladder) == (2 if "s-0" in pods else 1)
    assert min(map(len, by_ladder.values())) > 100
    found = story.value(expression, seconds)
    assert found == pytest.approx(quantile_of_events(point, by_ladder), rel=0.02)
    true = sorted(value for events in by_ladder.values() for value in events)
    shared = sorted({0.0, *set.intersection(*(set(ladder) for ladder in by_ladder)), 1e9})
    exact = true[int(point * len(true))]
    bucket = [(low, high) for low, high in pairwise(shared) if low <= exact <= high]
    assert any(low <= found <= high for low, high in bucket), (found, exact)


def test_the_join_itself_makes_no_jump(story: Story) -> None:
    """While the pod joins, every step of the way: the count of the window is that of the events, and no bucket is lost."""
    for seconds in range(290, 431, 10):
        total = story.value(f'sum(increase(llm_pool_time_to_first_token_seconds_count{{pool="chat"}}[{WINDOW:g}s]))', seconds)
        inf = story.value(f'sum(increase({SELECTOR.replace("}", "")},le="+Inf"}}[{WINDOW:g}s]))', seconds)
        assert inf == pytest.approx(total, rel=1e-9)
        # The first page of a pod that served before counts for nothing: its events begin one scrape after.
        events = len(story.first_tokens(("v-0", "v-1"), seconds - SPAN, seconds))
        events += len(story.first_tokens(("s-0",), max(seconds - SPAN, JOINS), seconds)) if seconds > JOINS else 0
        assert total == pytest.approx(events * WINDOW / SPAN, rel=0.01)


@pytest.mark.parametrize("seconds", [295.0, 440.0, 445.0, 500.0, 600.0])
@pytest.mark.parametrize(
    ("ours", "raw"),
    [
        ("llm_pool_generation_tokens_total", "(vllm:|sglang:)generation_tokens_total"),
        ("llm_pool_prompt_tokens_total", "(vllm:|sglang:)prompt_tokens_total"),
        ("llm_pool_time_to_first_token_seconds_count", "(vllm:|sglang:)time_to_first_token_seconds_count"),
    ],
)
def test_rates_of_the_pool_are_the_sums_of_the_engines_rates(story: Story, ours: str, raw: str, seconds: float) -> None:
    """Also across a restart of one of them, for which the window holds the reset."""
    pool = story.value(f'sum(rate({ours}{{pool="chat"}}[{WINDOW:g}s]))', seconds)
    # A rate drops the name, so engines of equal labels are told apart before.
    alike = [f"rate({engine}{raw.rpartition(')')[2]}[{WINDOW:g}s])" for engine in ("vllm:", "sglang:")]
    engines = [one for one in alike if vector_at(story, one, seconds)]
    raw_rate = sum(story.value(f"sum({one})", seconds) for one in engines)
    assert len(engines) == (2 if seconds > JOINS else 1)
    assert pool == pytest.approx(raw_rate, rel=1e-9)


def vector_at(story: Story, expression: str, seconds: float) -> list[dict[str, Any]]:
    answer = story.store.get("/api/v1/query", query=expression, time=story.at(seconds)).json()
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def test_the_window_quantile_that_we_publish_agrees_with_prometheus(story: Story) -> None:
    """Ours is over a minute on the engines' own buckets, Prometheus' over the same minute on the published ones."""
    for seconds in (295.0, 600.0):
        ours = story.value('llm_pool_time_to_first_token_window_seconds{quantile="0.9",pool="chat"}', seconds)
        theirs = story.value(f"histogram_quantile(0.9, sum by (le) (rate({SELECTOR}[65s])))", seconds)
        assert ours == pytest.approx(theirs, rel=0.05)


def test_prometheus_is_of_today(story: Story) -> None:
    assert story.store.get("/api/v1/status/buildinfo").json()["data"]["version"].startswith("3.")
