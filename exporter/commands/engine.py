"""The flag that names the engine of pools, where no account is there to tell what they send."""

from typing import TYPE_CHECKING

import click

from collector.engines import ENGINES
from collector.engines.telling import tells
from collector.signals import Level

if TYPE_CHECKING:
    from alerts.cloudwatch.model import Subject, Tells

DEFAULT = "vllm"
_CHOICE = click.Choice(list(ENGINES))

ENGINE = click.option(
    "--engine", type=_CHOICE, default=DEFAULT, show_default=True, help="What the pools run: alarms are for what it tells."
)
ENGINE_OR_SENT = click.option(
    "--engine",
    type=_CHOICE,
    help=f"What the pools run: alarms are for what it tells.  [default: --put: what each pool sends; else {DEFAULT}]",
)


def as_of(engine: str) -> "Tells":
    """What a pool of an engine sends; of clusters, all."""

    def told(subject: "Subject", signal: str, child: str) -> bool:
        return subject.level is not Level.POOL or tells(ENGINES[engine], signal, child)

    return told
