"""The command that puts, prints or deletes CloudWatch alarms."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.commands.account import NAMESPACE, PREFIX, account, arns, failing, one_of
from exporter.commands.cloudwatch_pools import Chosen, choose, named
from exporter.commands.engine import DEFAULT, ENGINE_OR_SENT, as_of
from exporter.commands.result import print_json
from exporter.commands.rules import RULES, read_settings

if TYPE_CHECKING:
    from alerts.cloudwatch.model import Alarm, LeftOut, Placing, Subject
    from exporter.aws.alarms import Standing


@click.command("alarms")
@one_of("put", "print", "delete")
@click.option("--pool", "pools", multiple=True, metavar="CLUSTER/NAMESPACE/POOL", help="A pool, and its cluster; repeatable.")
@click.option("--cluster", "clusters", multiple=True, help="A cluster alone; repeatable.")
@click.option("--promql", is_flag=True, help="PromQL alarms of all pools, for metrics sent over OTLP, instead of metric math.")
@ENGINE_OR_SENT
@RULES
@click.option(
    "--critical", multiple=True, metavar="ARN", callback=arns, help="Told of critical alerts, such as an SNS topic; repeatable."
)
@click.option("--warning", multiple=True, metavar="ARN", callback=arns, help="Told of warnings; repeatable.")
@click.option("--runbook-url", default=None, help="Where alerts/runbook.md can be read.")
@click.option(
    "--prune",
    is_flag=True,
    help="With --put: delete our alarms that are not described any more: of what is named, else of clusters that are heard of.",
)
@NAMESPACE
@PREFIX
@account
def alarms(
    action: str,
    pools: tuple[str, ...],
    clusters: tuple[str, ...],
    promql: bool,
    engine: str | None,
    prune: bool,
    **given: Any,
) -> None:
    """Put the alerts into an account as CloudWatch alarms, print them, or delete them.

    Without --pool or --cluster, --put finds the pools that send metrics, and leaves out what watches metrics that a pool does not
    send. Only alarms tagged as ours are changed or deleted. --put again changes what differs and nothing else.
    """
    if prune and action != "put":
        raise click.UsageError("--prune goes with --put")
    if promql and (pools or clusters):
        raise click.UsageError("--promql speaks of all pools: it goes without --pool and --cluster")
    if promql and engine:
        raise click.UsageError("--promql speaks of all pools: it goes without --engine")
    where = {name: given.pop(name) for name in ("region", "profile", "endpoint_url")}
    placing = _placing(**given)
    subjects = named(pools, clusters)
    if action == "print" and not subjects and not promql:
        raise click.UsageError("--print needs --pool CLUSTER/NAMESPACE/POOL or --cluster NAME")
    _say_outside(placing, subjects)
    with failing():
        if action == "delete":
            _delete(placing, subjects, promql, where)
        elif action == "print":
            chosen = Chosen(replace(placing, tells=as_of(engine or DEFAULT)), subjects)
            print_json([{"operation": str(alarm.kind), "request": alarm.request} for alarm in _made(chosen, promql)])
        else:
            _put(placing, subjects, engine, promql=promql, prune=prune, where=where)


def _say_outside(placing: "Placing", subjects: "Sequence[Subject]") -> None:
    for subject in subjects:
        if not placing.speaks_of(subject):
            click.echo(f"{'/'.join(subject.values)} is named, so it does not matter that the selector leaves it out", err=True)


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


def _made(chosen: Chosen, promql: bool) -> "list[Alarm]":
    """The alarms; what has none is said with the reason."""
    from alerts.cloudwatch.alarms import alarms, left_out
    from alerts.cloudwatch.promql import promql_alarms

    try:
        made, left = (
            promql_alarms(chosen.placing)
            if promql
            else (alarms(chosen.subjects, chosen.placing), left_out(chosen.placing, chosen.subjects))
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for (partly, reason), names in _by_reason(left).items():
        click.echo(f"{'not in the sums of' if partly else 'no alarm for'} {', '.join(names)}: {reason}", err=True)
    return made


def _by_reason(left: "Sequence[LeftOut]") -> dict[tuple[bool, str], list[str]]:
    reasons: dict[tuple[bool, str], list[str]] = {}
    for one in left:
        reasons.setdefault((one.partly, one.reason), []).append(one.alert)
    return reasons


def _put(
    placing: "Placing", subjects: "tuple[Subject, ...]", engine: str | None, *, promql: bool, prune: bool, where: dict[str, str]
) -> None:
    from alerts.cloudwatch.model import MANAGED_BY
    from exporter.aws.alarms import delete_alarms, ours, put_alarms
    from exporter.aws.client import open_client

    client = open_client(**where)
    chosen = Chosen(placing, ()) if promql else choose(client, placing, subjects, engine)
    made = _made(chosen, promql)
    for name, what in put_alarms(client, made, placing.prefix, MANAGED_BY):
        click.echo(f"{what} {name}")
    if prune:
        wanted = {alarm.name for alarm in made}
        there = [one for one in ours(client, placing.prefix, MANAGED_BY) if one.name not in wanted]
        doomed = [one for one in there if _queried(one, placing)] if promql else _prunable(there, chosen, bool(subjects))
        for name in delete_alarms(client, doomed):
            click.echo(f"deleted {name}")


def _prunable(there: "Sequence[Standing]", chosen: Chosen, by_name: bool) -> "list[Standing]":
    """What may go: of the subjects named, or else of clusters found that the settings speak of, less pools merely silent.

    A cluster that is not found may be one whose alarm of silence is on, so nothing of it goes unless it is named.
    """
    if by_name:
        return [one for one in there if _subject(one, chosen.placing) in chosen.subjects]
    clusters = {subject.cluster for subject in chosen.subjects}
    silent = set(chosen.sending.listed if chosen.sending else ()) - {subject.values for subject in chosen.subjects}
    return [
        one
        for one in there
        if (subject := _subject(one, chosen.placing)) is not None
        and subject.cluster in clusters
        and chosen.placing.speaks_of(subject)
        and subject.values not in silent
    ]


def _delete(placing: "Placing", subjects: "Sequence[Subject]", promql: bool, where: dict[str, str]) -> None:
    """Everything of ours under the prefix, or only that of the subjects named or for PromQL; a pool is not its cluster."""
    from alerts.cloudwatch.model import MANAGED_BY
    from exporter.aws.alarms import delete_alarms, ours
    from exporter.aws.client import open_client

    client = open_client(**where)
    there = ours(client, placing.prefix, MANAGED_BY)
    if promql:
        there = [one for one in there if _queried(one, placing)]
    elif subjects:
        there = [one for one in there if _subject(one, placing) in subjects]
    for name in delete_alarms(client, there):
        click.echo(f"deleted {name}")


def _subject(alarm: "Standing", placing: "Placing") -> "Subject | None":
    from alerts.cloudwatch.names import subject_of

    return subject_of(alarm.name, placing.prefix, condition=not alarm.composite)


def _queried(alarm: "Standing", placing: "Placing") -> bool:
    return alarm.name.startswith(placing.name("promql", ""))
