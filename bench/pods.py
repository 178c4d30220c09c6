"""Other processes for the benchmarks: simulated pods on ports of their own, or one fast server of one page.

`python bench/pods.py fleet 200` prints a line of JSON with the URLs; `page` one with the URL of the page, `cloudwatch` one with
that of a stand-in for CloudWatch. All run until their stdin is closed.
"""

import asyncio
import json
import sys
from pathlib import Path

from exporter.demo.cloudwatch.server import serving
from exporter.demo.config import H100, EngineConfig
from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.load import Mix, Wave
from exporter.demo.plan import FleetPlan, PodPlan, PoolPlan
from exporter.demo.serve import DemoServer

PAGE = (Path(__file__).parents[1] / "tests" / "pages" / "vllm-0.32.0-load-queued.prom").read_bytes()
_POOL = 20
_ENGINE = EngineConfig("vllm", "bench/model", H100, num_blocks=3400)


def plan(pods: int) -> FleetPlan:
    """Lightly loaded vLLM pods in pools of twenty."""
    pools = []
    for first in range(0, pods, _POOL):
        members = tuple(PodPlan(f"pod-{number}", _ENGINE) for number in range(first, min(first + _POOL, pods)))
        wave = Wave(2.0, swing=0.3, period_seconds=60.0)
        pools.append(PoolPlan(f"pool-{first // _POOL}", members, wave, Mix(prompt_tokens=200, output_tokens=60)))
    return FleetPlan(tuple(pools))


async def fleet(pods: int) -> None:
    clock = FleetClock.start()
    async with DemoServer(Fleet(plan(pods), wall=clock.wall), clock) as targets:
        print(json.dumps([{"url": one.url, "pool": one.pool, "pod": one.pod} for one in targets]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


class _Page(asyncio.Protocol):
    """As little server as possible, so that the client is what is measured."""

    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(PAGE) + PAGE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            self.transport.write(self.answer)  # type: ignore[attr-defined]


async def page() -> None:
    server = await asyncio.get_running_loop().create_server(_Page, "127.0.0.1", 0, backlog=1024)
    print(json.dumps(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"), flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def cloudwatch() -> None:
    with serving() as stand_in:
        print(json.dumps(stand_in.url), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    work = fleet(int(sys.argv[2])) if sys.argv[1] == "fleet" else {"page": page, "cloudwatch": cloudwatch}[sys.argv[1]]()
    try:
        import uvloop

        asyncio.Runner(loop_factory=uvloop.new_event_loop).run(work)
    except ImportError:
        asyncio.run(work)
