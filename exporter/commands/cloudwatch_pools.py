"""Which pools a command about alarms speaks of, and what they send."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from collector.signals import Level
from exporter.commands.engine import DEFAULT, as_of

if TYPE_CHECKING:
    from alerts.cloudwatch.model import Placing, Subject
    from exporter.aws.metrics import Sending


@dataclass(frozen=True, slots=True)
class Chosen:
    """Subjects of alarms, and how they are placed: `placing.tells` knows what each pool sends."""

    placing: "Placing"
    subjects: "tuple[Subject, ...]"
    sending: "Sending | None" = None
    """Of an account, where nothing is named."""


def named(pools: Sequence[str], clusters: Sequence[str]) -> "tuple[Subject, ...]":
    """Pools and clusters as flags name them; a wrong one ends with exit code 2."""
    from alerts.cloudwatch.model import Subject

    try:
        return (
            *(Subject(Level.CLUSTER, (name,)) for name in clusters),
            *(Subject(Level.POOL, tuple(text.split("/"))) for text in pools),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def choose(client: Any, placing: "Placing", subjects: "tuple[Subject, ...]", engine: str | None) -> Chosen:
    """The subjects named, or else the pools that send metrics now; of each, what it sends, unless an engine is named."""
    from exporter.aws.metrics import sending

    pools = [subject for subject in subjects if subject.level is Level.POOL]
    if subjects and (engine or not pools):
        return Chosen(replace(placing, tells=as_of(engine or DEFAULT)), subjects)
    seen = sending(client, placing.namespace)
    whole = subjects or _found(placing, seen)
    tells = as_of(engine) if engine else _seen(seen, [subject for subject in whole if subject.level is Level.POOL])
    return Chosen(replace(placing, tells=tells), whole, None if subjects else seen)


def _seen(seen: "Sending", pools: "Sequence[Subject]") -> Any:
    """What pools send; one that sends nothing of an engine is taken for one of the default, and said."""
    fallback, unknown = as_of(DEFAULT), {pool for pool in pools if not seen.knows(pool.values)}
    for pool in sorted(unknown, key=lambda one: one.values):
        who = "/".join(pool.values)
        click.echo(f"{who} sent nothing of an engine within two weeks: its alarms are those of {DEFAULT} (--engine)", err=True)

    @cache
    def told(subject: "Subject", signal: str, child: str) -> bool:
        if subject.level is not Level.POOL or subject in unknown:
            return fallback(subject, signal, child)
        return seen.tells(subject.values, signal, child)

    return told


def _found(placing: "Placing", seen: "Sending") -> "tuple[Subject, ...]":
    """Pools that send metrics now and that the settings' selector lets through; one that no alarm can name is said."""
    from alerts.cloudwatch.model import Subject
    from exporter.aws.client import AwsError

    pools = []
    for values in seen.pools():
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
    return tuple(pools)
