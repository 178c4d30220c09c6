"""Searches and metric math: one expression draws every metric that matches, new ones included."""

import re
from collections.abc import Mapping
from dataclasses import replace

from collector.naming import CLOUDWATCH_NAMESPACE
from dashboards.cloudwatch.lines import PERIOD_SECONDS, Line

_PLAIN = re.compile("[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*")
_SPECIAL = re.compile(r'(["\\()])')


def in_namespace(line: Line, namespace: str) -> Line:
    """The line where our metrics are sent into another namespace; those of AWS stay."""
    return replace(line, namespace=namespace) if line.namespace == CLOUDWATCH_NAMESPACE else line


def schema(namespace: str, dimensions: tuple[str, ...]) -> str:
    """Metrics with exactly these dimensions: `{LLMFleet,cluster,pool}`."""
    return "{" + ",".join(name if _PLAIN.fullmatch(name) else f'"{name}"' for name in (namespace, *dimensions)) + "}"


def exactly(value: str) -> str:
    """A value as a search takes it whole; unquoted, CloudWatch would look for parts of it."""
    return '"' + _SPECIAL.sub(r"\\\1", value) + '"'


def search(line: Line, chosen: Mapping[str, str]) -> str:
    """The metrics of a line, where `chosen` holds what is chosen of the dimensions that it has."""
    terms = [f"MetricName={exactly(line.metric)}"]
    terms += [f"{name}={exactly(value)}" for name, value in line.only]
    terms += [f"{name}={exactly(value)}" for name, value in chosen.items() if name in line.dimensions]
    found = f"{schema(line.namespace, line.dimensions)} {' '.join(terms)}"
    return f"SEARCH('{found}', '{line.statistic}', {PERIOD_SECONDS})"


def math(line: Line, found: str) -> str:
    """What is made of the metrics found, called by their id: rate, fold, scale; the id itself where nothing is."""
    if line.per_second:
        # Of the running sum, since PERIOD() takes no search: right whatever period CloudWatch chooses for long ranges.
        found = f"RATE(RUNNING_SUM({found}))"
    if line.fold:
        found = f"{line.fold}({found})"
    return found if line.scale == 1 else f"{line.scale:g} * {found}"
