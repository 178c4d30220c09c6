"""Commands that write files: boards, rules, a picker's configuration."""

import sys
from pathlib import Path
from typing import Any

import click

from exporter.commands.options import CONFIG, FILE, OUT, SET, load
from exporter.commands.result import report, run
from exporter.units import parse_duration

_PICKERS_FLOOR_SECONDS = 0.05


@click.group()
def render() -> None:
    """Write Grafana boards, Prometheus rules or a picker's configuration."""


@render.command("dashboards")
@OUT
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "provisioning", "configmaps"]),
    default="json",
    show_default=True,
    help="json: to import. provisioning: Grafana's folders. configmaps: for the sidecar of Grafana's chart.",
)
@click.option(
    "--config",
    "path",
    default=None,
    type=FILE,
    help="Objectives, thresholds and windows of the rules (YAML; docs/alerts.md), which the boards draw.",
)
@click.option("--docs-url", default=None, help="Where docs/dashboards.md can be read; panels link to it.")
@click.option("--uid-prefix", default=None, help="Goes before the uid of each board and of the links between them.")
@click.option("--refresh", default=None, help="How often boards ask again, such as 1m; empty: never.  [default: 30s]")
@click.option(
    "--match",
    "matches",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Matcher for every query, such as env=prod or env=~prod|test. May be repeated.",
)
@click.option(
    "--logs-url", default=None, help="Where a pod's logs are; $cluster, $namespace, $pod are filled in.  [default: Loki]"
)
@click.option("--traces-url", default=None, help="Where a pod's traces are, likewise.  [default: Tempo]")
def render_dashboards(out: Path, form: str, path: Path | None, matches: tuple[str, ...], **given: str | None) -> None:
    """Write the Grafana boards."""
    from dashboards.options import Options, matcher
    from dashboards.render import Form, write

    settings = _settings(path)
    names = {"docs_url": "docs", "logs_url": "logs", "traces_url": "traces"}
    chosen = {names.get(key, key): value for key, value in given.items() if value is not None}
    try:
        options = Options(matchers=tuple(matcher(text) for text in matches), **chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    report(lambda: write(out, options, Form(form), settings), out)


@render.command("alerts")
@OUT
@click.option("--config", "path", default=None, type=FILE, help="Objectives, thresholds and windows (YAML; docs/alerts.md).")
@click.option("--grafana-url", default="", help="Root of Grafana, for the links of alerts.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
@click.option("--no-keep-firing-for", is_flag=True, help="Leave out what vmalert before 1.91 refuses.")
def render_alerts(out: Path, path: Path | None, grafana_url: str, runbook_url: str | None, no_keep_firing_for: bool) -> None:
    """Write the Prometheus rules, and the same for Kubernetes, as a mixin, with an Alertmanager example."""
    from alerts.render import Form, Links, write

    links = Links(grafana=grafana_url) if runbook_url is None else Links(grafana=grafana_url, runbook=runbook_url)
    settings = _settings(path)
    report(lambda: write(out, Form(links=links, keep_firing=not no_keep_firing_for), settings), out)


def _settings(path: Path | None) -> Any:
    """What rules and boards go by: of the file, or what ships."""
    from alerts.settings import SettingsError, load_settings
    from alerts.slo import DEFAULTS

    try:
        return DEFAULTS if path is None else load_settings(path)
    except SettingsError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


@render.command("picker-config")
@CONFIG
@SET
@OUT
@click.option("--picker", type=click.Choice(["router", "gaie"]), default="router", show_default=True,
              help="llm-d-router 0.10, or the picker of gateway-api-inference-extension 1.5.")  # fmt: skip
@click.option("--profile", type=click.Choice(["default", "chat-latency", "batch-throughput"]), default="default",
              show_default=True, help="Scorers and their weights.")  # fmt: skip
@click.option("--sidecar-port", type=click.IntRange(1, 65535), default=None, help="Port of the sidecars; without one the picker "
              "reads the engines.")  # fmt: skip
@click.option("--sidecar-path", default="/picker", show_default=True, help="Where a sidecar's page stands.")
@click.option("--refresh", default="50ms", show_default=True, help="Pause between two polls of the picker.")
def render_picker_config(
    path: Path, settings: tuple[str, ...], out: Path, picker: str, profile: str, sidecar_port: int | None, sidecar_path: str,
    refresh: str,
) -> None:  # fmt: skip
    """Write an EndpointPickerConfig for each pool of the configuration; engines that are not declared are looked at."""
    from exporter.picker.bundle import Unfit, Wish
    from exporter.single import picker_configs

    config = load(path, settings)
    try:
        seconds = parse_duration(refresh)
    except ValueError as error:
        raise click.UsageError(f"--refresh: {error}") from error
    if seconds < _PICKERS_FLOOR_SECONDS:
        raise click.UsageError(f"--refresh: a picker polls every 50ms at most, got {refresh}")
    wish = Wish(
        picker=picker, profile=profile, sidecar_port=sidecar_port or 0, sidecar_path=sidecar_path, refresh_seconds=seconds
    )
    try:
        files = run(picker_configs(config, wish))
    except Unfit as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    if not files:
        raise click.UsageError(f"{path}: no targets, so no pool to write for")

    def write() -> list[Path]:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
        return [out / name for name in files]

    report(write, out)
