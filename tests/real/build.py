"""Gets the real programs of parts.toml into a cache outside the source tree, and says what is there.

    python -m tests.real.build [--only NAME ...] [--tier ci|full] [--jobs N]

What has not changed since the last time is not built or installed again. A part that fails does not stop the
others; the exit status is then 1. System packages are only looked for.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.real.build_go import build_go
from tests.real.build_python import install_python, installed
from tests.real.commands import CHECK_LIMIT_SECONDS, BuildError, run
from tests.real.parts import TIERS, Catalogue, GoPart, PackagedPart, PythonPart, cache_folder, python_folder, read_catalogue


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report; `seconds` and `size_bytes` are None where there is nothing to measure."""

    part: str
    version: str
    status: str
    seconds: float | None = None
    size_bytes: int | None = None
    failed: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Gets what the command line asks for, prints the table, and returns the exit status."""
    catalogue = read_catalogue()
    options = _parse(arguments, catalogue=catalogue)
    began = time.monotonic()
    rows = list(_rows(catalogue, only=options.only, tier=options.tier, jobs=options.jobs))
    print(_table(rows))
    print(f"{time.monotonic() - began:.0f} s; programs in {cache_folder() / 'bin'} and {python_folder() / 'bin'}")
    return 1 if any(row.failed for row in rows) else 0


def _parse(arguments: Sequence[str] | None, *, catalogue: Catalogue) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Get the real programs that the tests run against.")
    names = [part.name for part in catalogue.go] + [part.name for part in catalogue.python]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--tier", choices=TIERS, default="full", help="ci: the parts of every CI run; full: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="packages compiled at the same time")
    return parser.parse_args(arguments)


def _rows(catalogue: Catalogue, *, only: Sequence[str] | None, tier: str, jobs: int) -> Iterator[Row]:
    for part in catalogue.go:
        if part.name in only if only else tier in (part.tier, "full"):
            yield _go_row(part, jobs=jobs)
    if python := [part for part in catalogue.python if not only or part.name in only]:
        yield from _python_rows(python)
    if not only:
        yield from map(_packaged_row, catalogue.packaged)
        for gone in catalogue.left_out:
            yield Row(gone.name, gone.version, f"left out: {gone.reason}")


def _go_row(part: GoPart, *, jobs: int) -> Row:
    print(f"{part.name} {part.version} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        fresh = build_go(part, jobs=jobs)
    except BuildError as error:
        return Row(part.name, part.version, f"failed: {error}", seconds=time.monotonic() - began, failed=True)
    size = part.program.stat().st_size
    if not fresh:
        return Row(part.name, part.version, "cached", size_bytes=size)
    return Row(part.name, part.version, "built", seconds=time.monotonic() - began, size_bytes=size)


def _python_rows(parts: Sequence[PythonPart]) -> Iterator[Row]:
    """One line for the environment, which is made as a whole, and one for each part in it."""
    print("environment of the parts from PyPI ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        fresh = install_python()
        found = installed()
    except BuildError as error:
        yield Row("parts from PyPI", "-", f"failed: {error}", seconds=time.monotonic() - began, failed=True)
        return
    seconds = time.monotonic() - began if fresh else None
    whole = sum(one.size_bytes for one in found.values())
    status = "installed" if fresh else "cached"
    yield Row("parts from PyPI", "-", f"{status}, with what they need", seconds=seconds, size_bytes=whole)
    for part in parts:
        one = found[part.distribution]
        yield Row(part.name, one.version, status, size_bytes=one.size_bytes)


def _packaged_row(part: PackagedPart) -> Row:
    program = part.program
    if program is None:
        return Row(part.name, "-", f"missing: {part.install}")
    try:
        version = _version([str(program), *part.check])
        if not version and part.package:
            version = _version(["dpkg-query", "--show", "--showformat=${Version}", part.package])
    except BuildError as error:
        return Row(part.name, "-", f"present, does not run: {error}")
    return Row(part.name, version or "unknown", "present", size_bytes=program.stat().st_size)


def _version(command: Sequence[str]) -> str:
    """The first thing that looks like a version in what a command prints; "" without one."""
    output = run(command, folder=Path.cwd(), limit_seconds=CHECK_LIMIT_SECONDS)
    found = re.search(r"\d+\.\d+(?:\.\d+)*", output.stdout + output.stderr)
    return found[0] if found else ""


def _table(rows: Iterable[Row]) -> str:
    cells = [("part", "version", "seconds", "MB", "status")]
    for row in rows:
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        size = "" if row.size_bytes is None else f"{row.size_bytes / 1e6:.0f}"
        cells.append((row.part, row.version, seconds, size, row.status))
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return "\n".join(
        f"{part:{widths[0]}}  {version:{widths[1]}}  {seconds:>{widths[2]}}  {size:>{widths[3]}}  {status}"
        for part, version, seconds, size, status in cells
    )


if __name__ == "__main__":
    raise SystemExit(main())
