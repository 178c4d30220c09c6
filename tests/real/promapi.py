"""Instant queries to whatever speaks Prometheus' API."""

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
