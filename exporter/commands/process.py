"""Commands that stay: serve, demo."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from exporter.commands.options import FILE, LISTEN, LOG, SET, address, load, overrides
from exporter.commands.result import run
from exporter.commands.sidecar import run_sidecar, sidecar_options

SPEED = click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(0.1, 100), help="How fast the fleet lives.")


@click.command()
@click.option("--config", "path", type=FILE, envvar="LLM_FLEET_EXPORTER_CONFIG", help="Configuration file (YAML).")
@SET
@LISTEN
@LOG
@click.option("--role", type=click.Choice(["cluster", "sidecar"]), default="cluster", show_default=True,
              envvar="LLM_FLEET_EXPORTER_ROLE", help="What this process does.")  # fmt: skip
@sidecar_options
def serve(path: Path | None, settings: tuple[str, ...], listen: str, log_format: str, role: str, **sidecar: Any) -> None:
    """Read the targets of the configuration and serve what they say; or, as a sidecar, feed one engine's load to a picker."""
    from exporter.log import set_up

    host, port = address(listen)
    if role == "sidecar":
        if path is not None or settings:
            raise click.UsageError("--role sidecar takes no configuration file: its flags say all")
        set_up(as_json=log_format == "json")
        return run_sidecar(host, port, sidecar)
    told = click.get_current_context().get_parameter_source
    if given := [f"--{name.replace('_', '-')}" for name in sidecar if told(name) is ParameterSource.COMMANDLINE]:
        raise click.UsageError(f"only --role sidecar takes {', '.join(given)}")
    if path is None:
        raise click.UsageError("Missing option '--config'.")
    return _run_cluster(path, settings, host, port, as_json=log_format == "json")


def _run_cluster(path: Path, settings: tuple[str, ...], host: str, port: int, *, as_json: bool) -> None:
    from exporter.app import serve as run_server
    from exporter.config import load_config
    from exporter.log import set_up
    from exporter.reload import Origin, look

    looked = look(path)
    config = load(path, settings)
    set_up(as_json=as_json)
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
