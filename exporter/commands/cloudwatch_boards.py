"""The command that puts or prints CloudWatch dashboards."""

import sys
from pathlib import Path
from typing import Any

import click

from exporter.commands.account import NAMESPACE, PREFIX, account, arns, failing, one_of
from exporter.commands.result import print_json
from exporter.commands.rules import RULES, read_settings


@click.command("dashboards")
@one_of("put", "print")
@click.option("--board", "names", multiple=True, metavar="NAME", help="Only this dashboard; repeatable.  [default: all]")
@click.option(
    "--alarm",
    "told",
    multiple=True,
    metavar="ARN",
    callback=arns,
    help="An alarm to show on top; repeatable. --put adds our own.",
)
@RULES
@NAMESPACE
@PREFIX
@account
def dashboards(
    action: str,
    names: tuple[str, ...],
    told: tuple[str, ...],
    path: Path | None,
    namespace: str,
    prefix: str,
    **where: str,
) -> None:
    """Put CloudWatch dashboards of pools, clusters and SageMaker endpoints into an account, or print their bodies.

    --print needs no credentials. It prints the body of one --board as `aws cloudwatch put-dashboard` takes it, else all of them
    by name. --put replaces what is there and exits with 1 when CloudWatch has anything to complain of.
    """
    from dashboards.cloudwatch.native import body
    from dashboards.cloudwatch.pages import pages

    known = {page.name: page for page in pages(read_settings(path))}
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no board {unknown[0]!r}; there are {', '.join(known)}")
    with failing():
        from exporter.aws.client import region_of

        region = region_of(where["region"], where["profile"])
        shown = [*told, *(_ours(prefix, where) if action == "put" else ())]
        bodies = {name: body(known[name], region=region, namespace=namespace, alarms=shown) for name in names or known}
        if action == "print":
            print_json(bodies[names[0]] if len(names) == 1 else bodies)
        else:
            _put(bodies, where)


def _ours(prefix: str, where: dict[str, str]) -> list[str]:
    """Alarms that `cloudwatch alarms --put` has put: those that tell somebody, critical ones first."""
    from alerts.cloudwatch.model import MANAGED_BY
    from alerts.slo import Severity
    from exporter.aws.alarms import telling
    from exporter.aws.client import open_client

    return telling(open_client(**where), prefix, MANAGED_BY, [str(severity) for severity in Severity])


def _put(bodies: dict[str, Any], where: dict[str, str]) -> None:
    from exporter.aws.boards import put_boards
    from exporter.aws.client import open_client

    complained = False
    for name, messages in put_boards(open_client(**where), bodies):
        click.echo(f"put {name}: {len(bodies[name]['widgets'])} widgets")
        for message in messages:
            complained = True
            click.echo(f"{name}: {message}", err=True)
    if complained:
        sys.exit(1)
