"""Commands that stay: serve, demo."""

import os
from functools import partial
from pathlib import Path

import click

from exporter.commands.options import CONFIG, LISTEN, LOG, SET, address, load, overrides
from exporter.commands.result import run
from exporter.config import load_config

SPEED = click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(0.1, 100), help="How fast the fleet lives.")


@click.command()
@CONFIG
@SET
@LISTEN
@LOG
@click.option("--role", type=click.Choice(["cluster"]), default="cluster", show_default=True, help="What this process does.")
def serve(path: Path, settings: tuple[str, ...], listen: str, log_format: str, role: str) -> None:
    """Read the targets of the configuration and serve what they say."""
    from exporter.app import serve as run_server
    from exporter.log import set_up
    from exporter.reload import Origin, look

    looked = look(path)
    config = load(path, settings)
    host, port = address(listen)
    set_up(as_json=log_format == "json")
    read_again = partial(load_config, path, environment=os.environ, settings=settings)
    run(run_server(config, host=host, port=port, origin=Origin(path, read_again, looked)))


@click.command()
@SET
@LISTEN
@LOG
@SPEED
@click.option("--cloudwatch", is_flag=True, help="Publish to a stand-in for CloudWatch, and print what it takes.")
def demo(settings: tuple[str, ...], listen: str, log_format: str, speed: float, cloudwatch: bool) -> None:
    """Run on an embedded simulated fleet: nothing else is needed."""
    from exporter.demo.run import run_demo
    from exporter.log import set_up

    host, port = address(listen)
    over = overrides(settings)
    set_up(as_json=log_format == "json")
    run(run_demo(host=host, port=port, speed=speed, over=over, cloudwatch=cloudwatch))
