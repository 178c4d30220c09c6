"""Writes docs/cloudwatch-metrics.md from the table of signals: `python docs/generate_cloudwatch.py FILE`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from collector.naming import (
    CLOUDWATCH_NAMESPACE,
    CLOUDWATCH_SIGNALS,
    EXACT,
    OVERFLOW,
    cloudwatch_name,
    cloudwatch_unit,
    label_names,
)
from collector.signals import SIGNALS, Kind, Level, Signal
from exporter.publish.cloudwatch.data import HEARTBEAT, heartbeat
from exporter.publish.cloudwatch.settings import DEFAULT_LEVELS

_HEAD = f"""# CloudWatch: names, units, dimensions

Generated from `collector/signals.py` by `make generate`; do not edit by hand. [cloudwatch.md](cloudwatch.md) says how to
configure and read them.

Namespace `{CLOUDWATCH_NAMESPACE}` unless configured. A name, its unit and its dimensions stay what they are as long as the
signal is stable ([metrics.md](metrics.md)). **Bold** signals are sent by default, on the levels {" and ".join(DEFAULT_LEVELS)}.

| kind | in each period | read with |
|---|---|---|
| counter | its increase, 0 where nothing happened | Sum |
| gauge | a statistic set over the samples of the period | Average, Maximum, Minimum |
| histogram | values with counts under the plain name | percentiles: p50, p90, p99 |
| | `NAME{EXACT}`: statistic set with the engines' own sum and count | Average, Sum, SampleCount |
| | `NAME{OVERFLOW}` (Count): observations above the highest bound | Sum |

A histogram's three metrics are all there, or all absent in a period without an observation.
"""


def write() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_tables(), *_own()]) + "\n"


def _tables() -> Iterator[str]:
    yield "| signal | kind | unit | name | dimensions |\n|---|---|---|---|---|"
    for row in SIGNALS.values():
        for level in row.levels:
            yield _line(row, level)


def _line(row: Signal, level: Level) -> str:
    shown = f"**{row.name}**" if row.name in CLOUDWATCH_SIGNALS and level in DEFAULT_LEVELS else row.name
    name = cloudwatch_name(row.name, level)
    names = [name, name + EXACT, name + OVERFLOW] if row.kind is Kind.HISTOGRAM else [name]
    dimensions = ", ".join(f"`{label}`" for label in label_names(row, level))
    return (
        f"| {shown} | {row.kind} | {cloudwatch_unit(row.name, level)} | {', '.join(f'`{one}`' for one in names)} | {dimensions} |"
    )


def _own() -> Iterator[str]:
    beat = heartbeat("")
    dimensions = ", ".join(f"`{label}`" for label, _ in beat.dimensions)
    yield f"| **{HEARTBEAT}** | 1 from each writer | {beat.unit} | `{beat.name}` | {dimensions} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(write(), encoding="utf-8")
