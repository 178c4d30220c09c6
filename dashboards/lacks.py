"""Which engines do not tell what a panel shows, so that it says so instead of being empty."""

import re

from alerts.promql import braces
from collector.engines import ENGINES
from collector.engines.telling import tells
from collector.naming import families, metric, prometheus_name
from collector.signals import SIGNALS, Kind, Level
from dashboards.model import Panel, Query

TITLES = {"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI"}

_ROW_OF = {
    prometheus_name(row, level) + part: row.name
    for row, level in families()
    if level is not Level.EXPORTER
    for part in (("_bucket", "_count", "_sum") if row.kind is Kind.HISTOGRAM else ("",))
}
_NAME = re.compile(r"\bllm_\w+")


def lacking(panel: Panel) -> tuple[str, ...]:
    """Names of the engines that tell nothing of what the panel shows."""
    asked = {(name, child) for query in panel.queries for name, child in _asked(query.expression)}
    return tuple(name for name, engine in ENGINES.items() if asked and not any(tells(engine, *one) for one in asked))


def marker(panel: Panel, chosen: dict[str, str]) -> Query | None:
    """A line without points for each chosen pool whose engine does not tell: the legend says so."""
    names = lacking(panel)
    if not names:
        return None
    info = metric("info", Level.POOL) + braces({**chosen, "engine": "=~" + "|".join(names)})
    by = ", ".join((*chosen, "engine"))
    who = "/".join(f"{{{{{label}}}}}" for label in chosen)
    return Query(f"max by ({by}) ({info}) * NaN", f"{who}: not available from {{{{engine}}}}")


def _asked(expression: str) -> set[tuple[str, str]]:
    """Signals of the table in an expression; one that is matched by a child counts as that child."""
    found = set()
    for name in _NAME.finditer(expression):
        row = SIGNALS.get(_ROW_OF.get(name[0], ""))
        if row is None or row.name == "pods":  # ours, of every engine: weights of a ratio over exporters
            continue
        braces_after = re.match(r"\{[^}]*\}", expression[name.end() :])
        fixed = re.search(rf'{row.labels[0]}="([^"]+)"', braces_after[0]) if braces_after and row.labels else None
        found.add((row.name, fixed[1] if fixed else ""))
    return found
