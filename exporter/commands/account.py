"""Flags of commands that speak to an AWS account, and how its failures end them."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from collector.naming import CLOUDWATCH_NAMESPACE
from exporter.aws.client import REGION

_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d{12}:\S+")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def arns(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Callback of options that take ARNs."""
    for value in values:
        if not _ARN.fullmatch(value):
            raise click.BadParameter(f"{value!r} is no ARN such as arn:aws:sns:us-east-1:123456789012:topic")
    return values


def region(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of an option that takes a region, where no account is asked."""
    if not REGION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no AWS region such as us-east-1")
    return value


def _prefix(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not up to 64 letters, digits, '.', '_' and '-'")
    return value


def _namespace(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not 1 <= len(value) <= 255 or value.startswith((":", "AWS/")) or not value.isprintable() or set(value) & set("'\"{},"):
        raise click.BadParameter(f"{value!r} cannot be a namespace of our metrics")
    return value


NAMESPACE = click.option(
    "--namespace", default=CLOUDWATCH_NAMESPACE, show_default=True, callback=_namespace,
    help="CloudWatch namespace that the exporter sends to.",
)  # fmt: skip
PREFIX = click.option(
    "--prefix", default="llm-fleet", show_default=True, callback=_prefix, help="First part of the names of our alarms."
)


def one_of(*actions: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A flag for each thing that a command can do, of which exactly one has to be given; the command gets it as `action`."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            asked = [action for action in actions if given.pop(f"to_{action}")]
            if len(asked) != 1:
                raise click.UsageError(f"give one of {', '.join(f'--{action}' for action in actions)}")
            command(action=asked[0], **given)

        flagged: Callable[..., None] = run
        for action in reversed(actions):
            flagged = click.option(f"--{action}", f"to_{action}", is_flag=True, help=_HELP[action])(flagged)
        return flagged

    return decorated


_HELP = {
    "put": "Bring the account to what is described.",
    "print": "Print what would be put; no credentials are needed.",
    "delete": "Delete what was put.",
}


def account(command: Callable[..., None]) -> Callable[..., None]:
    """Where the account is; credentials are found as the AWS SDK finds them."""
    options = [
        click.option("--region", default="", help="AWS region.  [default: that of the environment or profile]"),
        click.option("--profile", default="", help="Profile of the AWS configuration."),
        click.option("--endpoint-url", default="", help="Another endpoint than AWS's own."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def failing() -> Iterator[None]:
    """One line on stderr for what goes wrong with the account: exit code 2 for wrong usage, 1 for the rest."""
    from exporter.aws.client import AwsError

    try:
        yield
    except AwsError as error:
        click.echo(str(error), err=True)
        sys.exit(2 if error.wrong_usage else 1)
