"""What a Collector and a store cost behind the push: CPU and memory of each, by points. `python bench/tier.py`.

Needs the real programs of `make real-parts` and VictoriaMetrics from Debian.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from run import PODS, fleet

from collector.clock import Instant, SystemClock
from exporter.hub import Moment
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.otlp.settings import Settings
from tests.real import programs
from tests.real.running import Running

PUSHES = 20
_HERTZ = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _HERTZ


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(tiers: dict[str, Running], endpoint: str, data: Path) -> None:
    state = fleet()
    courier = Courier(Settings(endpoint=endpoint, header_files={}), resource_of("bench"), clock=SystemClock(), max_pods=PODS)
    courier.send(Moment(state.held(Instant(5.0, time.time()))))  # the series are made
    time.sleep(3)
    before = {name: cpu_seconds(one.pid) for name, one in tiers.items()}
    own = time.process_time()
    points = sum(courier.send(Moment(state.held(Instant(5.0, time.time())))).sent for _ in range(PUSHES))
    own = time.process_time() - own
    time.sleep(5)
    print(f"{PODS} pods, {PUSHES} pushes, {points:,} points (a histogram is one point)")
    print(f"  {'push':18} {own / points * 1e6:6.1f} us of CPU a point")
    for name, one in tiers.items():
        spent = cpu_seconds(one.pid) - before[name]
        print(f"  {name:18} {spent / points * 1e6:6.1f} us of CPU a point, {resident_mb(one.pid):5.0f} MB")
    print(f"  {'on disk':18} {bytes_below(data) / 1e6:6.1f} MB after {PUSHES + 1} pushes, index included")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folders = {name: Path(scratch) / name for name in ("store", "gateway")}
        for folder in folders.values():
            folder.mkdir()
        store = stack.enter_context(programs.start_victoria(folders["store"]))
        environment = {"REMOTE_WRITE_URL": f"{store.url}/api/v1/write"}
        config = programs.ROOT / "collector" / "otel" / "gateway.yaml"
        gateway, variables = stack.enter_context(programs.start_collector(config, folders["gateway"], environment))
        tiers = {"Collector": gateway, "VictoriaMetrics": store}
        measure(tiers, f"http://127.0.0.1:{variables['HTTP_PORT']}/v1/metrics", folders["store"] / "data")


if __name__ == "__main__":
    main()
