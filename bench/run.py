"""Speed as ratios in one run: CPU time, medians of interleaved rounds. `python bench/run.py`."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collector.clock import Instant
from collector.model import Target
from collector.read import Body, understand
from collector.signals import Lane
from collector.state import State
from exporter.publish.prometheus import Format, render

ROUNDS = 7
PODS = 500
PAGE = (Path(__file__).parents[1] / "tests" / "pages" / "vllm-0.32.0-load-queued.prom").read_bytes()


@dataclass(frozen=True, slots=True)
class Line:
    """One result: ours beside what it is compared with."""

    what: str
    ours_ms: float
    other: str = ""
    other_ms: float = 0.0


def target(index: int = 0) -> Target:
    url = f"http://10.0.{index // 250}.{index % 250}:8000/metrics"
    return Target(url=url, namespace="serving", pool=f"pool-{index % 20}", pod=f"pod-{index}")


def cpu_ms(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def compare(what: str, ours: Callable[[], object], other_name: str = "", other: Callable[[], object] | None = None) -> Line:
    """Medians of interleaved rounds."""
    mine, theirs = [], []
    for _ in range(ROUNDS):
        mine.append(cpu_ms(ours))
        if other is not None:
            theirs.append(cpu_ms(other))
    return Line(what, statistics.median(mine), other_name, statistics.median(theirs) if theirs else 0.0)


def fleet() -> State:
    """A state that has read every pod twice."""
    state = State(cluster="bench")
    targets = [target(index) for index in range(PODS)]
    state.watch(targets, Instant(0.0, 0.0))
    reading = understand(targets[0], Lane.FULL, Body(PAGE, ""), at=Instant(0.0, 0.0))
    values = reading.rows[targets[0]]
    for at in (0.0, 5.0):
        for one in targets:
            state.absorb(replace(reading, target=one, rows={one: values}, at=Instant(at, at)))
    return state


def lines() -> list[Line]:
    one = target()
    text = PAGE.decode()
    state = fleet()
    snapshot = state.snapshot(Instant(5.0, 5.0))
    page, samples = render(snapshot, Format.TEXT, max_pods=PODS)
    registry = CollectorRegistry()
    gauge = Gauge("bench", "as many samples as our page has", ["cluster", "namespace", "pool", "pod"], registry=registry)
    for index in range(samples):
        gauge.labels("bench", "serving", f"pool-{index % 20}", f"pod-{index}").set(index)
    body = Body(PAGE, "")
    return [
        compare(f"page of {len(PAGE):,} bytes to all signals", lambda: understand(one, Lane.FULL, body, at=Instant(0, 0)),
                "prometheus-client parser", lambda: list(text_string_to_metric_families(text))),
        compare("page to the fast signals", lambda: understand(one, Lane.FAST, body, at=Instant(0, 0)),
                "prometheus-client parser", lambda: list(text_string_to_metric_families(text))),
        compare(f"state of {PODS} pods held, on the loop", lambda: state.held(Instant(5.0, 5.0))),
        compare(f"cut of {PODS} pods, on a thread", lambda: state.snapshot(Instant(5.0, 5.0))),
        compare(f"picker view of {PODS} targets", lambda: state.endpoints(Instant(5.0, 5.0))),
        compare(f"own page, {samples:,} samples, {len(page):,} bytes", lambda: render(snapshot, Format.TEXT, max_pods=PODS),
                "generate_latest", lambda: generate_latest(registry)),
    ]  # fmt: skip


def main() -> None:
    print(f"{'what':58} {'ours':>10} {'other':>10} {'ratio':>7}  against")
    for line in lines():
        other = f"{line.other_ms:8.2f}ms {line.other_ms / line.ours_ms:6.1f}x  {line.other}" if line.other else ""
        print(f"{line.what:58} {line.ours_ms:8.2f}ms {other}")


if __name__ == "__main__":
    main()
