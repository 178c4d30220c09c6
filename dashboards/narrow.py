"""More matchers for every selector of a query, for stores that hold more than one fleet."""

import re
from collections.abc import Sequence

from alerts.promql import braces

# Strings are skipped whole. A name is followed by its braces, or by none.
_SELECTOR = re.compile(r'"(?:[^"\\]|\\.)*"|\b((?:[a-z]+:)?llm_\w+(?::\w+)?|ALERTS(?:_FOR_STATE)?|process_\w+)\b(\{)?')


def narrowed(expression: str, matchers: Sequence[tuple[str, str]]) -> str:
    """The expression, or a variable's query, with the matchers in every selector."""
    if not matchers:
        return expression
    added = ", ".join(braces({label: text})[1:-1] for label, text in matchers)  # a label may have several

    def with_matchers(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"{found[1]}{{{added}, " if found[2] else f"{found[1]}{{{added}}}"

    return _SELECTOR.sub(with_matchers, expression)
