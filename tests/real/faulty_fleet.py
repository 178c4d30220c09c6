"""A simulated fleet as a process of its own, for alerts: one pool for each thing that can go wrong, and one that stays well.

It prints its targets as a line of JSON, then does what it is told on standard input: `kill pod`, `restore pod`, ...
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from exporter.demo.config import H100, EngineConfig
from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.load import Mix, Wave
from exporter.demo.plan import FleetPlan, PodPlan, PoolPlan
from exporter.demo.serve import DemoServer

SPEED = 4.0
POOLS = ("steady", "dying", "frozen", "full", "failing")
_ENGINE = EngineConfig("vllm", "meta-llama/Llama-3.3-70B-Instruct", H100, num_blocks=3400)
# Short answers, nobody breaks off, nothing fails by itself: what fires is what was done to the fleet.
_MIX = Mix(prompt_tokens=200, output_tokens=40, max_tokens=80, patience_seconds=None, cut_share=0, abort_share=0, error_share=0,
           oversized_share=0)  # fmt: skip
# The frozen one is busy enough to hold requests at any moment: a pod that stands still without work is no fault to be seen.
_RATES = {"frozen": 10.0, "full": 5.0}
PLAN = FleetPlan(tuple(
    PoolPlan(name, tuple(PodPlan(f"{name}-{number}", _ENGINE) for number in range(2)), Wave(_RATES.get(name, 2.0)), _MIX,
             "serving", "round_robin")
    for name in POOLS
))  # fmt: skip
FACTOR = 60.0
"""How much slower a slow pod is: its queue grows for ever."""


async def _serve() -> None:
    clock = FleetClock.start(factor=SPEED)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server = DemoServer(Fleet(PLAN, wall=clock.wall), clock)
    async with server as targets:
        print(json.dumps([{"targets": [one.url.removeprefix("http://").removesuffix("/metrics")], "labels": {
            "namespace": one.namespace, "pool": one.pool, "pod": one.pod}} for one in targets]), flush=True)  # fmt: skip
        while line := (await reader.readline()).decode().split():
            kind, pod = line
            await (server.slow(pod, factor=FACTOR) if kind == "slow" else getattr(server, kind)(pod))
            print("done", flush=True)


@dataclass(frozen=True, slots=True)
class FaultyFleet:
    """A running fleet: its targets in the form of file_sd, and faults to be given to it."""

    groups: Sequence[Mapping[str, object]]
    told: IO[str]
    answers: IO[str]

    def do(self, kind: str, *pods: str) -> float:
        """Let something happen to pods now; the moment at which it had."""
        for pod in pods:
            self.told.write(f"{kind} {pod}\n")
            self.told.flush()
            assert self.answers.readline() == "done\n"
        return time.monotonic()

    def write(self, path: Path, part: slice = slice(None)) -> Path:
        """The targets, or every so many of them, as a file for an exporter; it appears whole."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(self.groups[part]), encoding="utf-8")
        fresh.rename(path)
        return path


@contextmanager
def running_fleet() -> Iterator[FaultyFleet]:
    command = [sys.executable, "-m", "tests.real.faulty_fleet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield FaultyFleet(json.loads(process.stdout.readline()), process.stdin, process.stdout)
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve())
