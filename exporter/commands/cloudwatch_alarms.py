"""The command that puts, prints or deletes CloudWatch alarms."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.commands.account import NAMESPACE, PREFIX, account, arns, failing, one_of
from exporter.commands.result import print_json
from exporter.commands.rules import RULES, read_settings

if TYPE_CHECKING:
    from alerts.cloudwatch.model import Alarm, LeftOut, Placing, Subject


@click.command("alarms")
@one_of("put", "print", "delete")
@click.option("--pool", "pools", multiple=True, metavar="CLUSTER/NAMESPACE/POOL", help="A pool, and its cluster; repeatable.")
@click.option("--cluster", "clusters", multiple=True, help="A cluster alone; repeatable.")
@click.option("--promql", is_flag=True, help="PromQL alarms of all pools, for metrics sent over OTLP, instead of metric math.")
@RULES
@click.option(
    "--critical", multiple=True, metavar="ARN", callback=arns, help="Told of critical alerts, such as an SNS topic; repeatable."
)
@click.option("--warning", multiple=True, metavar="ARN", callback=arns, help="Told of warnings; repeatable.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
@click.option("--prune", is_flag=True, help="With --put: delete our alarms that are not described any more.")
@NAMESPACE
@PREFIX
@account
def alarms(action: str, pools: tuple[str, ...], clusters: tuple[str, ...], promql: bool, prune: bool, **given: Any) -> None:
    """Put the alerts into an account as CloudWatch alarms, print them, or delete them.

    Without --pool or --cluster, --put finds the pools that send metrics. Only alarms tagged as ours are changed or deleted.
    --put again changes what differs and nothing else.
    """
    if prune and action != "put":
        raise click.UsageError("--prune goes with --put")
    if promql and (pools or clusters):
        raise click.UsageError("--promql speaks of all pools: it goes without --pool and --cluster")
    where = {name: given.pop(name) for name in ("region", "profile", "endpoint_url")}
    placing = _placing(**given)
    subjects = _subjects(pools, clusters)
    with failing():
        if action == "delete":
            _delete(placing, subjects, promql, where)
            return
        if not subjects and not promql:
            if action == "print":
                raise click.UsageError("--print needs --pool CLUSTER/NAMESPACE/POOL or --cluster NAME")
            subjects = _found(placing, where)
        made, left = _made(placing, subjects, promql)
        for reason, names in _by_reason(left).items():
            click.echo(f"no alarm for {', '.join(names)}: {reason}", err=True)
        if action == "print":
            print_json([{"operation": str(alarm.kind), "request": alarm.request} for alarm in made])
        else:
            _put(made, placing, promql, prune, where)


def _placing(
    *,
    path: Path | None,
    critical: tuple[str, ...],
    warning: tuple[str, ...],
    runbook_url: str | None,
    namespace: str,
    prefix: str,
) -> "Placing":
    from alerts.cloudwatch.model import Placing
    from alerts.slo import Severity

    most = 5  # actions of one alarm
    if len(critical) > most or len(warning) > most:
        raise click.UsageError(f"an alarm tells at most {most} ARNs")
    actions = {Severity.PAGE: critical, Severity.TICKET: warning}
    placing = Placing(settings=read_settings(path), prefix=prefix, namespace=namespace, actions=actions)
    return placing if runbook_url is None else replace(placing, runbook=runbook_url)


def _subjects(pools: Sequence[str], clusters: Sequence[str]) -> "list[Subject]":
    from alerts.cloudwatch.model import Subject
    from collector.signals import Level

    try:
        return [Subject(Level.CLUSTER, (name,)) for name in clusters] + [
            Subject(Level.POOL, tuple(text.split("/"))) for text in pools
        ]
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _made(placing: "Placing", subjects: "Sequence[Subject]", promql: bool) -> "tuple[list[Alarm], list[LeftOut]]":
    from alerts.cloudwatch.alarms import alarms, left_out
    from alerts.cloudwatch.promql import promql_alarms

    try:
        return promql_alarms(placing) if promql else (alarms(subjects, placing), left_out(placing))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _by_reason(left: "Sequence[LeftOut]") -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for one in left:
        reasons.setdefault(one.reason, []).append(one.alert)
    return reasons


def _found(placing: "Placing", where: dict[str, str]) -> "list[Subject]":
    """Pools that send metrics now and that the settings' selector lets through; one that no alarm can name is said."""
    from alerts.cloudwatch.model import Subject
    from collector.naming import LEVEL_LABELS, cloudwatch_name
    from collector.signals import Level
    from exporter.aws.client import AwsError, open_client
    from exporter.aws.metrics import sent

    labels = LEVEL_LABELS[Level.POOL]
    found = sent(open_client(**where), placing.namespace, cloudwatch_name("reporting_ratio", Level.POOL), labels)
    pools = []
    for values in found:
        try:
            pool = Subject(Level.POOL, values)
        except ValueError as error:
            click.echo(f"no alarms for {'/'.join(values)!r}: {error}", err=True)
            continue
        if placing.speaks_of(pool):
            pools.append(pool)
    if not pools:
        where_to = f"sent metrics into {placing.namespace} within three hours: name some by --pool"
        raise AwsError(f"no pool that the settings speak of {where_to}", wrong_usage=True)
    return pools


def _put(made: "Sequence[Alarm]", placing: "Placing", promql: bool, prune: bool, where: dict[str, str]) -> None:
    from alerts.cloudwatch.model import MANAGED_BY
    from exporter.aws.alarms import delete_alarms, ours, put_alarms
    from exporter.aws.client import open_client

    client = open_client(**where)
    for name, what in put_alarms(client, made, placing.prefix, MANAGED_BY):
        click.echo(f"{what} {name}")
    if prune:
        # Alarms of the other door were not described here, which is no reason to delete them.
        wanted, queried = {alarm.name for alarm in made}, placing.name("promql", "")
        there = (one for one in ours(client, placing.prefix, MANAGED_BY) if one.name.startswith(queried) is promql)
        for name in delete_alarms(client, [one for one in there if one.name not in wanted]):
            click.echo(f"deleted {name}")


def _delete(placing: "Placing", subjects: "Sequence[Subject]", promql: bool, where: dict[str, str]) -> None:
    """Everything of ours under the prefix, or only what was put for the subjects named or for PromQL."""
    from alerts.cloudwatch.model import MANAGED_BY
    from exporter.aws.alarms import delete_alarms, ours
    from exporter.aws.client import open_client

    client = open_client(**where)
    there = ours(client, placing.prefix, MANAGED_BY)
    if subjects or promql:
        # Alarms of a cluster are those of all its pools: they stay unless it is named itself.
        above = [subject.cluster for subject in subjects if subject.cluster not in subjects]
        kept = {alarm.name for alarm in _made(placing, above, promql=False)[0]}
        named = {alarm.name for alarm in _made(placing, subjects, promql)[0]} - kept
        there = [one for one in there if one.name in named]
    for name in delete_alarms(client, there):
        click.echo(f"deleted {name}")
