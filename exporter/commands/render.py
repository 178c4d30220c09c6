"""Commands that write files: boards and rules."""

from pathlib import Path

import click

from exporter.commands.options import OUT
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
@click.option("--grafana-url", default="", help="Root of Grafana, for the links of alerts.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
def render_alerts(out: Path, grafana_url: str, runbook_url: str | None) -> None:
    """Write the Prometheus rules."""
    from alerts.render import Links, write

    links = Links(grafana=grafana_url) if runbook_url is None else Links(grafana=grafana_url, runbook=runbook_url)
    report(lambda: write(out, links), out)
