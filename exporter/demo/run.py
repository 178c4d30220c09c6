"""The demo: the exporter as users run it, reading a simulated fleet in the same process."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import click
import msgspec

from collector.model import Target
from exporter.app import serve
from exporter.config import Config, parse_config
from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.plan import Fault
from exporter.demo.scenario import DEMO
from exporter.demo.serve import DemoServer, DemoTarget

_WHAT = {
    "kill": "dies for {} s and comes back",
    "hang": "accepts connections and does not answer for {} s",
    "freeze": "serves its page for {} s while the engine stands still",
    "slow": "is slow for {} s: it stays fresh, its requests wait",
    "fail": "fails every request for {} s: it stays fresh, its pool shows errors",
}


async def run_demo(
    *, host: str, port: int, speed: float, over: Mapping[str, Any] | None = None, cloudwatch: bool = False
) -> None:  # fmt: skip
    """Serve until told to stop; `speed` is how much faster than the clock the fleet lives, `over` settings to lay over."""
    clock = FleetClock.start(factor=speed)
    async with AsyncExitStack() as stack:
        pods = await stack.enter_async_context(DemoServer(Fleet(DEMO, wall=clock.wall), clock))
        config = demo_config(pods, speed=speed, over=over or {})
        if cloudwatch:
            config = _with_cloudwatch(config, stack)

        async def announce(base: str) -> None:
            click.echo(announcement(base, pods, DEMO.faults, speed=speed))

        await serve(config, host=host, port=port, ready=announce)


def _with_cloudwatch(config: Config, stack: AsyncExitStack) -> Config:
    """The same, publishing to a stand-in for CloudWatch that prints what it takes."""
    from exporter.demo.cloudwatch.server import StandIn, serving
    from exporter.demo.cloudwatch.show import describe

    # The stand-in asks only that requests are signed; nobody's own keys are used, and no proxy.
    os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo", NO_PROXY="127.0.0.1")
    stand_in = stack.enter_context(serving(StandIn(told=lambda received: click.echo("\n".join(describe(received))))))
    section = {"region": "us-east-1", "endpoint_url": stand_in.url, "period": "5s"}
    click.echo(f"Every 5 s a stand-in for CloudWatch at {stand_in.url} is sent what happened; what it takes is printed below.\n")
    wanted = parse_config(json.dumps({"cluster": config.cluster, "cloudwatch": section}))
    return msgspec.structs.replace(config, cloudwatch=wanted.cloudwatch)


def demo_config(pods: Sequence[DemoTarget], *, speed: float, over: Mapping[str, Any]) -> Config:
    """The defaults, with the simulated pods as targets. Where they live faster, faults are over sooner and are judged sooner."""
    targets = tuple(Target(url=pod.url, namespace=pod.namespace, pool=pod.pool, pod=pod.pod, engine=pod.engine, model=pod.model,
                           accelerator=pod.accelerator) for pod in pods)  # fmt: skip
    times = {"no_progress_after": 30, "warming_for": 60, "down_after": 15}
    judged = {key: f"{max(round(seconds / speed), 3)}s" for key, seconds in times.items()}
    text = json.dumps({"cluster": {"name": "demo", "region": "local"}, "scrape": judged})
    return parse_config(text, over=over, environment=os.environ).with_targets(targets)


def announcement(base: str, pods: Sequence[DemoTarget], faults: Sequence[Fault], *, speed: float) -> str:
    """What to open, what runs, what will happen."""
    pools = {(pod.namespace, pod.pool) for pod in pods}
    lines = [
        f"{len(pods)} simulated pods in {len(pools)} pools are running.",
        "",
        f"  page          {base}/",
        f"  metrics       {base}/metrics",
        f"  picker feed   {base}/picker/v1/endpoints",
        "",
        "Their own pages, as the engines would print them:",
        *(f"  {pod.engine:7} {pod.pod:18} {pod.url}" for pod in pods),
        "",
        "What will happen, and again every ten minutes:" if speed == 1 else f"What will happen, at {speed:g} times the speed:",
        *(
            f"  {_moment(fault.at / speed)}  {fault.pod} {_WHAT[fault.kind].format(f'{fault.seconds / speed:g}')}"
            for fault in faults
        ),
        "",
        "Besides, traffic comes in waves: pools run full and recover without a fault.",
        "Ctrl-C ends it. State changes are logged below.",
    ]
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
