"""Flags that several commands take, and what is made of them; a wrong one ends with exit code 2."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.config import Config, ConfigError, load_config, parse_config
from exporter.overrides import from_flags

if TYPE_CHECKING:
    from collector.model import Target
    from exporter.single import Access

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path)
CONFIG = click.option(
    "--config", "path", required=True, type=FILE, envvar="LLM_FLEET_EXPORTER_CONFIG", help="Configuration file (YAML)."
)
SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting that goes before file and environment; repeatable."
)
LISTEN = click.option(
    "--listen", default="127.0.0.1:9840", show_default=True, metavar="HOST:PORT", envvar="LLM_FLEET_EXPORTER_LISTEN",
    help="Address to serve on.",
)  # fmt: skip
LOG = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    envvar="LLM_FLEET_EXPORTER_LOG_FORMAT", help="Form of the log.",
)  # fmt: skip
OUTPUT = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form of result."
)
OUT = click.option("--out", required=True, type=FOLDER, help="Folder to write into.")


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Flags of commands that look at single URLs."""
    options = [
        click.option("--bearer-file", default="", metavar="FILE", help="Token to send."),
        click.option("--ca-file", default="", metavar="FILE", help="Authorities to trust instead of the system's."),
        click.option("--insecure", is_flag=True, help="Check no certificate."),
        click.option("--deadline", default="5s", show_default=True, help="Longest time for one request."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def load(path: Path, settings: tuple[str, ...] = ()) -> Config:
    try:
        return load_config(path, environment=os.environ, settings=settings)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


def overrides(settings: tuple[str, ...]) -> dict[str, Any]:
    """Settings for a configuration that has no file; one that cannot be used ends with exit code 2."""
    try:
        over = from_flags(settings)
        parse_config("cluster: demo", name="--set", over=over, environment=os.environ)
    except (ValueError, ConfigError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    return over


def access_to(url: str, reach: dict[str, Any]) -> tuple["Access", "Target"]:
    """How to reach a URL by the flags of a command."""
    from exporter.single import Access, existing

    try:
        access = Access(**reach)
        existing(access.bearer_file), existing(access.ca_file)
        assert access.seconds
        return access, access.target(url)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen: expected HOST:PORT such as 127.0.0.1:9840 or [::]:9840, got {listen!r}")
    return host.strip("[]"), int(port)
