"""PromQL read by a parser that knows nothing of the builders, beside the table of signals."""

from collections.abc import Iterator
from typing import Any

import promql_parser

from alerts.model import alerts_of, records_of
from alerts.promql import SCRAPE_LABELS
from alerts.rules import GROUPS
from collector.naming import LEVEL_LABELS, families, label_names, prometheus_name
from collector.signals import Kind, Level

PARTS = {Kind.HISTOGRAM: ("_bucket", "_count", "_sum")}
SERIES = {prometheus_name(row, level) + part: (row, level) for row, level in families() for part in PARTS.get(row.kind, ("",))}


OWN_PROCESS = {f"process_{what}" for what in (
    "cpu_seconds_total", "resident_memory_bytes", "start_time_seconds", "open_fds", "max_fds")}  # fmt: skip
FOREIGN = {"up": {"job", "instance"}, "prometheus_rule_evaluation_failures_total": {"job", "instance", "rule_group"}}
VARIABLES = {"$__rate_interval": "5m", "$__interval": "5m", "$__range": "5m", "$quantile": "0.9"}


def parsed(expression: str) -> Any:
    """The tree of an expression in which Grafana's own variables have a value."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return promql_parser.parse(expression)


def children(node: Any) -> list[Any]:
    match type(node).__name__:
        case "Call":
            return list(node.args)
        case "BinaryExpr":
            return [node.lhs, node.rhs]
        case "AggregateExpr" | "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            return [node.expr]
        case "MatrixSelector":
            return [node.vector_selector]
    return []


def selectors(node: Any, function: str = "") -> Iterator[tuple[Any, str]]:
    """Each selector with the function that is applied to it directly."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node, function
    inner = node.func.name if isinstance(node, promql_parser.Call) else function
    for child in children(node):
        yield from selectors(child, inner)


def descend(node: Any) -> Iterator[Any]:
    yield node
    for child in children(node):
        yield from descend(child)


def labels_of(name: str) -> set[str]:
    if name in ("ALERTS", "ALERTS_FOR_STATE"):
        own = {"alertname", "alertstate"} if name == "ALERTS" else {"alertname"}
        return {label for rule in alerts_of(GROUPS) for label in rule.carried} | own
    if name in SERIES:
        row, level = SERIES[name]
        # The scrape adds them; by some exporters are told apart and found in a cluster, by one what part of it they read.
        whose = level is Level.EXPORTER or (level is Level.CLUSTER and row.name == "info")
        scraped = SCRAPE_LABELS if whose else ("shard",)
        return {*label_names(row, level), *scraped, *(("le",) if name.endswith("_bucket") else ())}
    if name in OWN_PROCESS:
        return {"instance"}
    if name in FOREIGN:
        return FOREIGN[name]
    rule = next((rule for rule in records_of(GROUPS) if rule.name == name), None)
    assert rule, f"{name} is neither published nor recorded"
    return {*LEVEL_LABELS[rule.name.partition(":")[0]], *(label for label, _ in rule.labels), *rule.kept}
