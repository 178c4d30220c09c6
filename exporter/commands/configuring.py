"""Commands about the configuration: check-config, init."""

import sys
from pathlib import Path
from typing import Any

import click

from exporter.commands.options import FILE, SET, access_to, load, reaching
from exporter.commands.result import run
from exporter.units import show_duration


@click.command("check-config")
@click.argument("path", type=FILE)
@SET
def check_config(path: Path, settings: tuple[str, ...]) -> None:
    """Check a configuration file, and the target files it names, without reading any target."""
    from collector.file_targets import FileSource
    from collector.targets import Batch, merge

    config = load(path, settings)
    found = [source.look() for source in config.sources if isinstance(source, FileSource)]
    whole = merge([Batch(config.placed), *found])
    for fault in whole.faults:
        click.echo(fault, err=True)
    if whole.faults:
        sys.exit(2)
    pools = {one.target.pool_key for one in whole.targets}
    intervals = f"every {show_duration(config.fast_interval)}, in full every {show_duration(config.full_interval)}"
    click.echo(f"{path}: good: cluster {config.cluster}, {len(whole.targets)} targets in {len(pools)} pools, read {intervals}")
    for note in config.notes:
        click.echo(f"note: {note}")


@click.command()
@click.argument("urls", nargs=-1)
@click.option("--cluster", default="my-cluster", show_default=True, help="Name of the cluster.")
@reaching
def init(urls: tuple[str, ...], cluster: str, **reach: Any) -> None:
    """Write a commented configuration for these URLs to stdout; each is asked once what it serves."""
    from exporter.single import probe_all
    from exporter.starter import write_starter

    accesses = [access_to(url, reach) for url in urls]
    targets = list({target.url: target for _, target in accesses}.values())
    probes = run(probe_all(targets, deadline_seconds=accesses[0][0].seconds)) if accesses else []
    click.echo(write_starter(probes, cluster=cluster), nl=False)
