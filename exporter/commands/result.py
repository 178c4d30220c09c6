"""How commands run and say what came of it: results on stdout, complaints on stderr."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec


def report(
    write: Callable[[], list[Path]], out: Path, left_over: Callable[[Path, list[Path]], Iterable[Path]] | None = None
) -> None:
    """Write, and then delete what is left over of an earlier run, if that can be told; each path is said."""
    try:
        written = write()
        for path in written:
            click.echo(str(path))
        for path in list(left_over(out, written)) if left_over else ():
            path.unlink()
            click.echo(f"{path}: deleted, since nothing is in it any more")
    except OSError as error:
        click.echo(f"cannot write into {out}: {error.strerror or error}", err=True)
        sys.exit(1)


def print_json(data: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    from exporter.table import open_console, plain

    console = open_console()
    for line, style in lines:
        console.print(plain(line, style), soft_wrap=True)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    from exporter.app import ListenError

    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        with runner:
            return runner.run(work)
    except ListenError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
