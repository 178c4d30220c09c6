"""Instant queries to whatever speaks Prometheus' API."""

import re
from typing import Any

from tests.real.running import Running


def query(store: Running, expression: str) -> dict[str, Any]:
    """The whole answer, an error too."""
    answer: dict[str, Any] = store.get("/api/v1/query", query=expression).json()
    return answer


def vector(store: Running, expression: str) -> list[dict[str, Any]]:
    """The series that a query returns; AssertionError when it fails."""
    answer = query(store, expression)
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def value(store: Running, expression: str) -> float | None:
    """The only value that a query returns; None when it returns nothing."""
    found = vector(store, expression)
    assert len(found) <= 1, found
    return float(found[0]["value"][1]) if found else None


def written(victoria: Running) -> float:
    """Samples that a VictoriaMetrics got by remote write. It remembers for ten seconds that a query found nothing, so whoever
    waits for samples asks for this first."""
    rows = re.findall(r'^vm_rows_inserted_total\{type="promremotewrite"\} (\S+)', victoria.get("/metrics").text, re.MULTILINE)
    victoria.get("/internal/force_flush")
    return sum(map(float, rows))
