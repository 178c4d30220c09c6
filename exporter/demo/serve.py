"""Serve every pod of a simulated fleet on its own loopback port, in one process and one event loop.

clock = FleetClock.start()
server = DemoServer(Fleet(DEMO, wall=clock.wall), clock)
async with server as targets:
    ...                              # targets: one DemoTarget for each pod
    await server.kill("llama-70b-h100-0")
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from exporter.demo.answers import answer
from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.plan import FaultKind
from exporter.demo.pod import Pod
from exporter.demo.port import Port


@dataclass(frozen=True, slots=True)
class DemoTarget:
    """Where one pod is scraped and what is known about it, enough to write a `static_targets` entry."""

    pool: str
    namespace: str
    pod: str
    engine: str
    model: str
    accelerator: str
    url: str


class DemoServer:
    """An async context manager that yields the targets; inside it faults can be injected by hand, by the name
    of a pod.

    The fleet moves when it is scraped and every `tick_seconds`, so that an unwatched fleet never has much to
    catch up with. Scripted faults of the plan happen as well. Raises KeyError for a pod that is not there.
    """

    def __init__(self, fleet: Fleet, clock: FleetClock, *, host: str = "127.0.0.1", tick_seconds: float = 0.5) -> None:
        self.fleet = fleet
        self.clock = clock
        self._host = host
        self._tick_seconds = tick_seconds
        self._ports: dict[str, Port] = {}
        self._answering: dict[str, asyncio.Event] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> list[DemoTarget]:
        self._advance_all()
        for pod in self.fleet.pods:
            self._ports[pod.plan.name] = Port(self._host, partial(self._handle, pod))
            self._answering[pod.plan.name] = asyncio.Event()
            await self._settle(pod)
        self._ticker = asyncio.create_task(self._tick())
        return self.targets

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._settling, *([self._ticker] if self._ticker else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for port in self._ports.values():
            await port.give_up()
        self._ports.clear()

    @property
    def targets(self) -> list[DemoTarget]:
        """One target for each pod, pool by pool, dead pods included."""
        return [self._target(pod) for pod in self.fleet.pods]

    async def kill(self, pod: str) -> None:
        """The process of a pod dies now: connections are refused until `restore`."""
        await self._inject(pod, "kill")

    async def hang(self, pod: str) -> None:
        """A pod accepts connections and answers nothing until `restore`; then it answers what waited."""
        await self._inject(pod, "hang")

    async def freeze(self, pod: str) -> None:
        """The engine of a pod stands still; its page is served, and nothing on it moves until `restore`."""
        await self._inject(pod, "freeze")

    async def slow(self, pod: str, *, factor: float = 3.0) -> None:
        """The steps of a pod take `factor` times as long until `restore`."""
        await self._inject(pod, "slow", factor=factor)

    async def fail(self, pod: str) -> None:
        """Every request that a pod takes ends in an error until `restore`."""
        await self._inject(pod, "fail")

    async def restore(self, pod: str) -> None:
        """Whatever was wrong with a pod is over; a dead one starts a new process on its old port."""
        found = self._at_present(pod)
        found.restore()
        await self._settle(found)

    async def _inject(self, name: str, kind: FaultKind, *, factor: float = 3.0) -> None:
        pod = self._at_present(name)
        pod.apply(kind, factor=factor)
        await self._settle(pod)

    def _at_present(self, name: str) -> Pod:
        self._advance(name)
        return self.fleet.pod(name)

    def _advance(self, name: str) -> None:
        pool = self.fleet.pool_of(name)
        pool.advance(self.clock.now())
        for pod in pool.pods:
            self._settle_soon(pod)

    def _advance_all(self) -> None:
        self.fleet.advance(self.clock.now())

    async def _tick(self) -> None:
        while True:
            for pool in self.fleet.pools:
                self._advance(pool.pods[0].plan.name)
                await asyncio.sleep(0)
            await asyncio.sleep(self._tick_seconds)

    def _settled(self, pod: Pod) -> bool:
        port, answering = self._ports[pod.plan.name], self._answering[pod.plan.name]
        return port.listening == (pod.state != "dead") and answering.is_set() == (pod.state != "hung")

    def _settle_soon(self, pod: Pod) -> None:
        if not self._settled(pod):
            task = asyncio.create_task(self._settle(pod))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, pod: Pod) -> None:
        port, answering = self._ports[pod.plan.name], self._answering[pod.plan.name]
        if pod.state == "hung":
            answering.clear()
        else:
            answering.set()
        if pod.state == "dead":
            await port.close()
        else:
            await port.open()

    async def _handle(self, pod: Pod, request: web.BaseRequest) -> web.StreamResponse:
        self._advance(pod.plan.name)
        while pod.state == "hung":
            self._answering[pod.plan.name].clear()
            await self._answering[pod.plan.name].wait()
        if pod.state == "dead":
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405)
        found = answer(
            pod,
            request.path,
            names=request.query.getall("name[]", []),
            accept_encoding=request.headers.get("Accept-Encoding", ""),
        )
        pod.process.http.look(request.path, found.status)
        headers = {"Server": "uvicorn"}
        if found.content_type is not None:
            headers["Content-Type"] = found.content_type
        if found.zipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(status=found.status, body=found.body, headers=headers)

    def _target(self, pod: Pod) -> DemoTarget:
        plan, config = self.fleet.pool_of(pod.plan.name).plan, pod.plan.engine
        return DemoTarget(
            pool=plan.name,
            namespace=plan.namespace,
            pod=pod.plan.name,
            engine=config.kind,
            model=config.model,
            accelerator=config.accelerator.name,
            url=f"http://{self._host}:{self._ports[pod.plan.name].number}/metrics",
        )
