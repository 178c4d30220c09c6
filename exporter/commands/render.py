"""Commands that write files: boards and rules."""

import sys
from pathlib import Path

import click

from exporter.commands.options import FILE, OUT
from exporter.commands.result import report


@click.group()
def render() -> None:
    """Write Grafana boards or Prometheus rules."""


@render.command("dashboards")
@OUT
@click.option("--docs-url", default=None, help="Where docs/dashboards.md can be read; panels link to it.")
def render_dashboards(out: Path, docs_url: str | None) -> None:
    """Write the Grafana boards."""
    from dashboards.render import write

    report(lambda: write(out) if docs_url is None else write(out, docs=docs_url), out)


@render.command("alerts")
@OUT
@click.option("--config", "path", default=None, type=FILE, help="Objectives, thresholds and windows (YAML; docs/alerts.md).")
@click.option("--grafana-url", default="", help="Root of Grafana, for the links of alerts.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
@click.option("--no-keep-firing-for", is_flag=True, help="Leave out what vmalert before 1.91 refuses.")
def render_alerts(out: Path, path: Path | None, grafana_url: str, runbook_url: str | None, no_keep_firing_for: bool) -> None:
    """Write the Prometheus rules, and the same for Kubernetes, as a mixin, with an Alertmanager example."""
    from alerts.render import Form, Links, write
    from alerts.settings import SettingsError, load_settings
    from alerts.slo import DEFAULTS

    links = Links(grafana=grafana_url) if runbook_url is None else Links(grafana=grafana_url, runbook=runbook_url)
    try:
        settings = DEFAULTS if path is None else load_settings(path)
    except SettingsError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    report(lambda: write(out, Form(links=links, keep_firing=not no_keep_firing_for), settings), out)
