"""A Prometheus with something to draw: the demo's last minutes."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.programs import start_prometheus
from tests.real.running import Running, free_port, running


@dataclass(frozen=True, slots=True)
class Store:
    """Where to ask, and when it will have what was asked for, by the monotonic clock."""

    url: str
    ready_at: float

    def wait(self) -> None:
        """Return when the history is long enough."""
        missing = self.ready_at - time.monotonic()
        if missing > 0:
            print(f"Prometheus gathers history for another {missing / 60:.0f} min", file=sys.stderr, flush=True)
            time.sleep(missing)


@contextmanager
def gathered(minutes: int) -> Iterator[Store]:
    """A Prometheus of our own that scrapes the demo, with the shipped rules, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as name, _demo(Path(name)) as demo:
        job = {"job_name": "llm-fleet", "honor_labels": True, "static_configs": [{"targets": [demo.address]}]}
        with start_prometheus("3", [job], Path(name)) as prometheus:
            yield Store(prometheus.url, time.monotonic() + 60 * minutes)


@contextmanager
def _demo(folder: Path) -> Iterator[Running]:
    port = free_port()
    command = [sys.executable, "-m", "exporter", "demo", "--listen", f"127.0.0.1:{port}"]
    with running(command, url=f"http://127.0.0.1:{port}", ready="/readyz", log=folder / "demo.log") as demo:
        yield demo
