"""Commands that say what others would make of a page."""

import sys
from typing import Any

import click

from exporter.commands.options import OUTPUT, access_to, reaching
from exporter.commands.result import print_json, print_lines, run


@click.group()
def lint() -> None:
    """Say what a reader of ours or of an engine's page would make of it."""


@lint.command("picker")
@click.argument("url")
@reaching
@click.option("--engine-type", default="", help="The pod's engine label, which says how the picker reads it (default: vllm).")
@click.option(
    "--target-port", "ports", multiple=True, type=click.IntRange(1, 65535), help="Port of the InferencePool; repeatable."
)
@OUTPUT
def lint_picker(url: str, engine_type: str, ports: tuple[int, ...], output: str, **reach: Any) -> None:
    """Read URL, an engine's page or a sidecar's, as an endpoint picker would; exit code 1 when it would choose badly."""
    from collector.reasons import ReadError
    from exporter.picker.lint import as_text
    from exporter.single import lint_one

    access, target = access_to(url, reach)
    try:
        verdict = run(lint_one(target, deadline_seconds=access.seconds, engine_type=engine_type, ports=ports))
    except ReadError as error:
        click.echo(f"{target.url}: {error}", err=True)
        sys.exit(1)
    if output == "json":
        print_json(verdict.as_data())
    else:
        print_lines(as_text(verdict))
    sys.exit(0 if verdict.good else 1)
