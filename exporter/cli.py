"""The command line: results on stdout, complaints on stderr, exit code 0 done, 1 failed at its work, 2 wrong usage."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from exporter import __version__
from exporter.config import Config, ConfigError, load_config
from exporter.units import parse_duration, show_duration

if TYPE_CHECKING:
    from collector.model import Target
    from exporter.single import Access

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path)
_CONFIG = click.option(
    "--config", "path", required=True, type=_FILE, envvar="LLM_FLEET_EXPORTER_CONFIG", help="Configuration file (YAML)."
)
_SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting that goes before file and environment; repeatable."
)
_LISTEN = click.option(
    "--listen", default="127.0.0.1:9840", show_default=True, metavar="HOST:PORT", envvar="LLM_FLEET_EXPORTER_LISTEN",
    help="Address to serve on.",
)  # fmt: skip
_LOG = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    envvar="LLM_FLEET_EXPORTER_LOG_FORMAT", help="Form of the log.",
)  # fmt: skip
_OUTPUT = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form of result."
)
_OUT = click.option("--out", required=True, type=_FOLDER, help="Folder to write into.")
_SPEED = click.option(
    "--speed", default=1.0, show_default=True, type=click.FloatRange(0.1, 100), help="How fast the fleet lives."
)


class _Commands(click.Group):
    """Says in one line when a result cannot be written: a full disk is no fault of ours."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                sys.stdout.flush()
        except OSError as error:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            click.echo(f"cannot write the result: {error.strerror or error}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="llm-fleet-exporter")
def main() -> None:
    """Signals of vLLM, SGLang and TGI pods, pools and clusters, for Prometheus, Grafana and the endpoint picker."""


@main.command()
@_CONFIG
@_SET
@_LISTEN
@_LOG
@click.option("--role", type=click.Choice(["cluster"]), default="cluster", show_default=True, help="What this process does.")
def serve(path: Path, settings: tuple[str, ...], listen: str, log_format: str, role: str) -> None:
    """Read the targets of the configuration and serve what they say."""
    from exporter.app import serve as run_server
    from exporter.log import set_up
    from exporter.reload import Origin, look

    looked = look(path)
    config = _load(path, settings)
    host, port = _address(listen)
    set_up(as_json=log_format == "json")
    load = partial(load_config, path, environment=os.environ, settings=settings)
    _run(run_server(config, host=host, port=port, origin=Origin(path, load, looked)))


@main.command()
@_CONFIG
@_SET
@_OUTPUT
def once(path: Path, settings: tuple[str, ...], output: str) -> None:
    """Read every target once, print what it says; exit code 1 if any failed."""
    from collector.model import Failure
    from exporter.app import read_once
    from exporter.table import as_data, open_console, print_table

    hub, outcomes = _run(read_once(_load(path, settings)))
    snapshot = hub.snapshot()
    if output == "json":
        _print_json(as_data(snapshot, outcomes))
    else:
        print_table(snapshot, outcomes, open_console())
    failed = sum(isinstance(outcome, Failure) for outcome in outcomes)
    for fault in hub.roster.faults:
        click.echo(fault, err=True)
    if failed:
        click.echo(f"{failed} of {len(outcomes)} targets failed", err=True)
    if failed or hub.roster.faults:
        sys.exit(1)


@main.command("check-config")
@click.argument("path", type=_FILE)
@_SET
def check_config(path: Path, settings: tuple[str, ...]) -> None:
    """Check a configuration file, and the target files it names, without reading any target."""
    from collector.file_targets import FileSource
    from collector.targets import Batch, merge

    config = _load(path, settings)
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


def _reaching(command: Callable[..., None]) -> Callable[..., None]:
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


@main.command()
@click.argument("url")
@_reaching
@_OUTPUT
def probe(url: str, output: str, **reach: Any) -> None:
    """Look at one URL: engine, version, signals found and missing, and the flag that would change that."""
    from exporter.probe import as_text
    from exporter.single import probe_all

    access, target = _access(url, reach)
    (found,) = _run(probe_all([target], deadline_seconds=access.seconds))
    if output == "json":
        _print_json(found.as_data())
    else:
        _print_lines((line, "") for line in as_text(found))
    sys.exit(1 if found.failure else 0)


@main.command()
@click.argument("target")
@click.option("--config", "path", type=_FILE, envvar="LLM_FLEET_EXPORTER_CONFIG", help="Where TARGET is found by name.")
@_reaching
@_OUTPUT
def explain(target: str, path: Path | None, output: str, **reach: Any) -> None:
    """Show where each signal of TARGET comes from, and why one is absent.

    TARGET is a URL, or with --config the name of a pod, an address or a UID.
    """
    from collector.reasons import ReadError
    from exporter.explain import as_text
    from exporter.single import explain_one, find_targets, is_url

    found = find_targets(_load(path), target) if path is not None else []
    if not found and not is_url(target):
        hint = f"{path} has no such target" if path else "give a URL, or --config with the name of a pod"
        raise click.UsageError(f"{target}: {hint}")
    access, bare = _access(target if is_url(target) else found[0].url, reach)
    failed = False
    for one in found or [bare]:
        try:
            explanation = _run(explain_one(one, deadline_seconds=access.seconds))
        except ReadError as error:
            click.echo(f"{one.url}: {error}", err=True)
            failed = True
            continue
        if output == "json":
            _print_json({"url": one.url, **explanation.as_data()})
        else:
            _print_lines([(f"{one.url}: {explanation.engine}, {explanation.page_bytes:,} bytes", "bold"), *as_text(explanation)])
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("urls", nargs=-1)
@click.option("--cluster", default="my-cluster", show_default=True, help="Name of the cluster.")
@_reaching
def init(urls: tuple[str, ...], cluster: str, **reach: Any) -> None:
    """Write a commented configuration for these URLs to stdout; each is asked once what it serves."""
    from exporter.single import probe_all
    from exporter.starter import write_starter

    accesses = [_access(url, reach) for url in urls]
    targets = list({target.url: target for _, target in accesses}.values())
    probes = _run(probe_all(targets, deadline_seconds=accesses[0][0].seconds)) if accesses else []
    click.echo(write_starter(probes, cluster=cluster), nl=False)


@main.command()
@_CONFIG
@_SET
@click.option("--every", default="1s", show_default=True, help="Time between two looks at the table.")
@click.option("--times", type=click.IntRange(1), default=None, help="How often to show it (default: until Ctrl-C).")
@_OUTPUT
def top(path: Path, settings: tuple[str, ...], every: str, times: int | None, output: str) -> None:
    """Watch the targets of the configuration as a table that renews itself; piped, one table after another."""
    from exporter.show import show_live

    config = _load(path, settings)
    try:
        seconds = parse_duration(every)
    except ValueError as error:
        raise click.UsageError(f"--every: {error}") from error
    with suppress(KeyboardInterrupt):
        _run(show_live(config, every_seconds=seconds, times=times, as_json=output == "json"))


@main.command()
@_LISTEN
@_LOG
@_SPEED
def demo(listen: str, log_format: str, speed: float) -> None:
    """Run on an embedded simulated fleet: nothing else is needed."""
    from exporter.demo.run import run_demo
    from exporter.log import set_up

    host, port = _address(listen)
    set_up(as_json=log_format == "json")
    _run(run_demo(host=host, port=port, speed=speed))


@main.group()
def render() -> None:
    """Write Grafana boards or Prometheus rules."""


@render.command("dashboards")
@_OUT
@click.option("--docs-url", default=None, help="Where docs/dashboards.md can be read; panels link to it.")
def render_dashboards(out: Path, docs_url: str | None) -> None:
    """Write the Grafana boards."""
    from dashboards.render import write

    _report(lambda: write(out) if docs_url is None else write(out, docs=docs_url), out)


@render.command("alerts")
@_OUT
@click.option("--grafana-url", default="", help="Root of Grafana, for the links of alerts.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
def render_alerts(out: Path, grafana_url: str, runbook_url: str | None) -> None:
    """Write the Prometheus rules."""
    from alerts.render import Links, write

    links = Links(grafana=grafana_url) if runbook_url is None else Links(grafana=grafana_url, runbook=runbook_url)
    _report(lambda: write(out, links), out)


def _report(write: Callable[[], list[Path]], out: Path) -> None:
    try:
        for path in write():
            click.echo(str(path))
    except OSError as error:
        click.echo(f"cannot write into {out}: {error.strerror or error}", err=True)
        sys.exit(1)


def _load(path: Path, settings: tuple[str, ...] = ()) -> Config:
    try:
        return load_config(path, environment=os.environ, settings=settings)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


def _access(url: str, reach: dict[str, Any]) -> tuple["Access", "Target"]:
    """How to reach a URL by the flags of a command."""
    from exporter.single import Access, existing

    try:
        access = Access(**reach)
        existing(access.bearer_file), existing(access.ca_file)
        assert access.seconds
        return access, access.target(url)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _print_json(data: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))


def _print_lines(lines: Iterable[tuple[str, str]]) -> None:
    from exporter.table import open_console, plain

    console = open_console()
    for line, style in lines:
        console.print(plain(line, style), soft_wrap=True)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen: expected HOST:PORT such as 127.0.0.1:9840 or [::]:9840, got {listen!r}")
    return host.strip("[]"), int(port)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
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
