"""Every query of rules and boards against the table of signals, read by a parser that knows nothing of the builders."""

import re
from collections.abc import Iterator

import promql_parser
import pytest

from alerts.model import alerts_of, records_of
from alerts.rules import GROUPS
from alerts.slo import Severity
from collector.naming import LEVEL_LABELS, bound_label
from collector.signals import Kind
from dashboards.boards import BOARDS
from dashboards.draw import drawn
from tests.promql import SERIES, children, descend, labels_of, parsed, selectors


def queries() -> Iterator[tuple[str, str]]:
    for rule in (*records_of(GROUPS), *alerts_of(GROUPS)):
        yield rule.name, rule.expression
    for board in BOARDS:
        body = drawn(board)
        for panel in (inner for one in body["panels"] for inner in (one, *one.get("panels", ()))):
            yield from ((f"{board.uid}/{panel['title']}", target["expr"]) for target in panel.get("targets", ()))
        for variable in body["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
                yield f"{board.uid}/${variable['name']}", f"max by ({label}) ({series})"
        yield from ((f"{board.uid}/annotation {one['name']}", one["expr"]) for one in body["annotations"]["list"])


def check(expression: str) -> None:
    tree = parsed(expression)
    for selector, function in selectors(tree):
        known = labels_of(selector.name)
        for matcher in selector.matchers.matchers:
            assert matcher.name in known, f"{selector.name} has no label {matcher.name}"
        if selector.name in SERIES:
            check_kind(selector, function)
    for node in descend(tree):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier:
            for selector, _ in selectors(node):
                strange = set(node.modifier.labels) - labels_of(selector.name)
                assert not strange, f"by {strange}, which {selector.name} has not"
        if isinstance(node, promql_parser.Call) and node.func.name == "histogram_quantile":
            assert "le" in kept(node.args[1])
            assert all(selector.name.partition(":rate")[0].endswith("_bucket") for selector, _ in selectors(node))


def check_kind(selector, function) -> None:
    row, _ = SERIES[selector.name]
    grows = row.kind in (Kind.COUNTER, Kind.HISTOGRAM)
    assert (function in ("rate", "increase")) == grows, f"{function or 'nothing'} of {row.kind} {selector.name}"
    for matcher in selector.matchers.matchers:
        exact = str(matcher.op).endswith("Equal") and "Not" not in str(matcher.op)
        if exact and row.children and matcher.name in row.labels:
            assert matcher.value in row.children
        if exact and matcher.name == "le":
            assert matcher.value in [bound_label(bound) for bound in (*row.ladder, float("inf"))]


@pytest.mark.parametrize(("where", "expression"), sorted(set(queries())))
def test_a_query_parses_and_names_what_the_table_has(where, expression):
    check(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "llm_pool_saturation",
        "rate(llm_pool_saturation_ratio[5m])",
        "llm_pool_requests_total > 0",
        "max_over_time(llm_pool_requests_total[5m])",
        'llm_pool_saturation_ratio{model="x"}',
        'sum(rate(llm_pool_requests_total{outcome="eror"}[5m]))',
        'sum(rate(llm_pool_time_to_first_token_seconds_bucket{le="1"}[5m]))',
        "sum by (pod) (llm_pool_saturation_ratio)",
        "histogram_quantile(0.9, sum by (pool) (rate(llm_pool_time_to_first_token_seconds_bucket[5m])))",
        "pool:llm_slo_error:ratio2d",
    ],
)
def test_the_check_refuses_what_is_wrong(expression):
    with pytest.raises(AssertionError):
        check(expression)


def kept(node) -> set[str] | None:
    """Labels that surely survive an expression; None for a scalar."""
    match type(node).__name__:
        case "NumberLiteral":
            return None
        case "VectorSelector":
            return labels_of(node.name)
        case "AggregateExpr":
            return set(node.modifier.labels) if node.modifier else set()
        case "BinaryExpr":
            left, right = kept(node.lhs), kept(node.rhs)
            if left is None or right is None:
                return right if left is None else left
            return left & right if str(node.op) not in ("and", "unless") else left
    found = [kept(child) for child in children(node)]
    return found[0] if found else None


@pytest.mark.parametrize("rule", alerts_of(GROUPS), ids=lambda rule: f"{rule.name}{dict(rule.labels)}")
def test_an_alert_keeps_the_labels_of_its_level_and_its_texts_use_no_other(rule):
    assert (kept(parsed(rule.expression)) or set()) >= set(LEVEL_LABELS[rule.level])
    used = set(re.findall(r"\$labels\.(\w+)", rule.description))
    assert used or rule.severity is Severity.NONE
    assert used <= set(rule.carried)
    assert "{{" not in rule.summary


@pytest.mark.parametrize("rule", alerts_of(GROUPS), ids=lambda rule: f"{rule.name}{dict(rule.labels)}")
def test_an_alert_compares(rule):
    binary = [node for node in descend(parsed(rule.expression)) if isinstance(node, promql_parser.BinaryExpr)]
    if rule.severity is not Severity.NONE and not rule.expression.startswith("absent("):
        assert any(str(node.op) in (">", ">=", "<", "<=", "==", "!=", "unless") for node in binary)
