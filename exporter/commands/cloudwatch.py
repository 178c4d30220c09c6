"""Commands about CloudWatch."""

import sys
from pathlib import Path

import click

from exporter.commands.options import CONFIG, OUTPUT, SET, load
from exporter.commands.result import print_json, run


@click.group()
def cloudwatch() -> None:
    """What CloudWatch gets, and what it costs."""


@cloudwatch.command()
@CONFIG
@SET
@OUTPUT
def estimate(path: Path, settings: tuple[str, ...], output: str) -> None:
    """Read every target once, then say what this configuration would cost a month; exit code 1 if any target failed."""
    from collector.model import Failure
    from exporter.app import read_once
    from exporter.publish.cloudwatch import cost_table
    from exporter.publish.cloudwatch.cost import estimate as make_estimate
    from exporter.publish.cloudwatch.settings import DEFAULTS
    from exporter.table import open_console

    config = load(path, settings)
    hub, outcomes = run(read_once(config))
    chosen = config.cloudwatch or DEFAULTS
    found = make_estimate(hub.snapshot(), chosen)
    if output == "json":
        print_json(cost_table.as_data(found))
    else:
        open_console().print(cost_table.make_table(found))
        click.echo("\n" + "\n".join(cost_table.summary(found, chosen)))
    if config.cloudwatch is None:
        click.echo("the configuration has no section 'cloudwatch' yet; this is what its defaults would cost", err=True)
    failed = sum(isinstance(outcome, Failure) for outcome in outcomes)
    for fault in hub.roster.faults:
        click.echo(fault, err=True)
    if failed:
        click.echo(f"{failed} of {len(outcomes)} targets failed: what they would show is missing here", err=True)
    if failed or hub.roster.faults:
        sys.exit(1)
