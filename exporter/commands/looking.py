"""Commands that look at targets: once, top, probe, explain."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from exporter.commands.options import CONFIG, FILE, OUTPUT, SET, access_to, load, reaching
from exporter.commands.result import print_json, print_lines, run
from exporter.units import parse_duration


@click.command()
@CONFIG
@SET
@OUTPUT
def once(path: Path, settings: tuple[str, ...], output: str) -> None:
    """Read every target once, print what it says; exit code 1 if any failed."""
    from collector.model import Failure
    from exporter.app import read_once
    from exporter.table import as_data, open_console, print_table

    hub, outcomes = run(read_once(load(path, settings)))
    snapshot = hub.snapshot()
    if output == "json":
        print_json(as_data(snapshot, outcomes))
    else:
        print_table(snapshot, outcomes, open_console())
    failed = sum(isinstance(outcome, Failure) for outcome in outcomes)
    for fault in hub.roster.faults:
        click.echo(fault, err=True)
    if failed:
        click.echo(f"{failed} of {len(outcomes)} targets failed", err=True)
    if failed or hub.roster.faults:
        sys.exit(1)


@click.command()
@CONFIG
@SET
@click.option("--every", default="1s", show_default=True, help="Time between two looks at the table.")
@click.option("--times", type=click.IntRange(1), default=None, help="How often to show it (default: until Ctrl-C).")
@OUTPUT
def top(path: Path, settings: tuple[str, ...], every: str, times: int | None, output: str) -> None:
    """Watch the targets of the configuration as a table that renews itself; piped, one table after another."""
    from exporter.show import show_live

    config = load(path, settings)
    try:
        seconds = parse_duration(every)
    except ValueError as error:
        raise click.UsageError(f"--every: {error}") from error
    with suppress(KeyboardInterrupt):
        run(show_live(config, every_seconds=seconds, times=times, as_json=output == "json"))


@click.command()
@click.argument("url")
@reaching
@OUTPUT
def probe(url: str, output: str, **reach: Any) -> None:
    """Look at one URL: engine, version, signals found and missing, and the flag that would change that."""
    from exporter.probe import as_text
    from exporter.single import probe_all

    access, target = access_to(url, reach)
    (found,) = run(probe_all([target], deadline_seconds=access.seconds))
    if output == "json":
        print_json(found.as_data())
    else:
        print_lines((line, "") for line in as_text(found))
    sys.exit(1 if found.failure else 0)


@click.command()
@click.argument("target")
@click.option("--config", "path", type=FILE, envvar="LLM_FLEET_EXPORTER_CONFIG", help="Where TARGET is found by name.")
@reaching
@OUTPUT
def explain(target: str, path: Path | None, output: str, **reach: Any) -> None:
    """Show where each signal of TARGET comes from, why one is absent, and with --config how a picker would judge it.

    TARGET is a URL, or with --config the name of a pod, an address or a UID.
    """
    from collector.reasons import ReadError
    from exporter.explain import as_text
    from exporter.picker.standing import as_text as shown
    from exporter.single import explain_one, find_targets, is_url, place_in_pool

    config = load(path) if path is not None else None
    found = find_targets(config, target) if config is not None else []
    if not found and not is_url(target):
        hint = f"{path} has no such target" if path else "give a URL, or --config with the name of a pod"
        raise click.UsageError(f"{target}: {hint}")
    access, bare = access_to(target if is_url(target) else found[0].url, reach)
    failed = False
    for one in found or [bare]:
        try:
            explanation = run(explain_one(one, deadline_seconds=access.seconds))
        except ReadError as error:
            click.echo(f"{one.url}: {error}", err=True)
            failed = True
            continue
        place = run(place_in_pool(config, one)) if config is not None and found else None
        if output == "json":
            known = {} if place is None else {"picker": place.as_data()}
            print_json({"url": one.url, **explanation.as_data(), **known})
        else:
            print_lines([(f"{one.url}: {explanation.engine}, {explanation.page_bytes:,} bytes", "bold"), *as_text(explanation),
                         *([] if place is None else shown(place))])  # fmt: skip
    sys.exit(1 if failed else 0)
