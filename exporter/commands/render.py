"""Commands that write files: boards, rules, a picker's configuration."""

from pathlib import Path

import click

from exporter.commands.account import NAMESPACE, region
from exporter.commands.engine import ENGINE, as_of
from exporter.commands.options import OUT
from exporter.commands.result import report
from exporter.commands.rules import RULES, read_settings


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
@RULES
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

    settings = read_settings(path)
    names = {"docs_url": "docs", "logs_url": "logs", "traces_url": "traces"}
    chosen = {names.get(key, key): value for key, value in given.items() if value is not None}
    try:
        options = Options(matchers=tuple(matcher(text) for text in matches), **chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    report(lambda: write(out, options, Form(form), settings), out)


@render.command("alerts")
@OUT
@RULES
@click.option("--grafana-url", default="", help="Root of Grafana, for the links of alerts.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
@click.option("--no-keep-firing-for", is_flag=True, help="Leave out what vmalert before 1.91 refuses.")
def render_alerts(out: Path, path: Path | None, grafana_url: str, runbook_url: str | None, no_keep_firing_for: bool) -> None:
    """Write the Prometheus rules, and the same for Kubernetes, as a mixin, with an Alertmanager example.

    Generated files of an earlier run that are not written any more are deleted.
    """
    from alerts.render import Form, Links, left_over, write

    links = Links(grafana=grafana_url) if runbook_url is None else Links(grafana=grafana_url, runbook=runbook_url)
    settings = read_settings(path)
    report(lambda: write(out, Form(links=links, keep_firing=not no_keep_firing_for), settings), out, left_over)


@render.command("cloudwatch-dashboards")
@OUT
@click.option("--region", default="us-east-1", show_default=True, callback=region, help="AWS region of the metrics.")
@NAMESPACE
@RULES
def render_cloudwatch_dashboards(out: Path, region: str, namespace: str, path: Path | None) -> None:
    """Write CloudWatch dashboard bodies, and Grafana boards that read CloudWatch."""
    from dashboards.cloudwatch.render import write

    settings = read_settings(path)
    report(lambda: write(out, region=region, namespace=namespace, settings=settings), out)


@render.command("cloudwatch-alarms")
@OUT
@RULES
@ENGINE
def render_cloudwatch_alarms(out: Path, path: Path | None, engine: str) -> None:
    """Write the CloudWatch alarms as CloudFormation templates.

    Generated templates of an earlier run that are not written any more are deleted.
    """
    from alerts.cloudwatch.render import left_over, write

    settings = read_settings(path)
    report(lambda: write(out, settings, as_of(engine)), out, left_over)
