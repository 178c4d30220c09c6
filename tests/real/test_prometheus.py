"""Real Prometheus, old and new, beside the demo: every sample taken, every query and rule answers."""

import re
from typing import Any

import pytest

from tests.real.promapi import query, vector
from tests.real.running import Running, wait_until

pytestmark = pytest.mark.real
ENOUGH_SCRAPES = 20
MACROS = {"$__rate_interval": "15s", "$__range": "60s", "$__interval": "5s"}
REJECTIONS = (
    "prometheus_target_scrapes_sample_duplicate_timestamp_total",
    "prometheus_target_scrapes_sample_out_of_order_total",
    "prometheus_target_scrapes_sample_out_of_bounds_total",
    "prometheus_target_scrapes_exceeded_sample_limit_total",
    "prometheus_target_scrapes_exceeded_body_size_limit_total",
    "prometheus_target_scrapes_exemplar_out_of_order_total",
)


@pytest.fixture(scope="session")
def fed(prometheus: Running) -> Running:
    """Prometheus after enough scrapes for rates."""
    enough = f'count_over_time(up{{job="llm-fleet"}}[10m]) >= {ENOUGH_SCRAPES}'
    wait_until(lambda: vector(prometheus, enough), 90, f"{ENOUGH_SCRAPES} scrapes")
    return prometheus


def test_every_scrape_is_good_and_no_sample_is_rejected(fed: Running) -> None:
    assert {one["value"][1] for one in vector(fed, 'min_over_time(up{job="llm-fleet"}[10m])')} == {"1"}
    targets = fed.get("/api/v1/targets").json()["data"]["activeTargets"]
    assert [(one["health"], one["lastError"]) for one in targets] == [("up", "")]
    taken = vector(fed, "scrape_samples_scraped - scrape_samples_post_metric_relabeling")
    assert [one["value"][1] for one in taken] == ["0"]
    own = fed.get("/metrics").text
    rejected = {name: float(value) for name, value in re.findall(r"^(\w+) (\d+)$", own, re.MULTILINE) if name in REJECTIONS}
    assert rejected
    assert not any(rejected.values())


def test_prometheus_holds_the_values_of_the_page(fed: Running, demo: Running) -> None:
    """Counts of pods by state stand still while nothing fails: the page and the store agree."""
    stored = {one["metric"]["pool"]: float(one["value"][1]) for one in vector(fed, "sum by (pool) (llm_pool_pods)")}
    page = re.findall(r'^llm_pool_pods\{.*pool="([^"]+)",state="[a-z_]+"\} (\d+)', demo.get("/metrics").text, re.MULTILINE)
    shown: dict[str, float] = {}
    for pool, count in page:
        shown[pool] = shown.get(pool, 0.0) + float(count)
    assert stored == shown
    assert len(stored) == 4


def expressions(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Title and query of every target, collapsed rows included."""
    panels = [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", ()))]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ()) if "expr" in target]


def resolved(expression: str) -> str:
    for macro, value in MACROS.items():
        expression = expression.replace(macro, value)
    return re.sub(r"\$\{?[a-z_]+(:[a-z]+)?\}?", ".*", expression)


def test_every_query_of_every_board_returns_data(fed: Running, boards: dict[str, dict[str, Any]]) -> None:
    empty = []
    for uid, board in boards.items():
        for title, expression in expressions(board):
            answer = query(fed, resolved(expression))
            assert answer["status"] == "success", (uid, title, answer)
            assert not answer.get("warnings"), (uid, title, answer)
            assert not answer.get("infos"), (uid, title, answer)
            if not answer["data"]["result"]:
                empty.append((uid, title, expression))
    assert not empty


def test_every_choice_above_a_board_has_values(fed: Running, boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
                found = fed.get(f"/api/v1/label/{label}/values", **{"match[]": resolved(series)}).json()["data"]
                assert found, variable["name"]


def test_rules_are_healthy_and_the_recorded_ones_return_data(fed: Running) -> None:
    groups = fed.get("/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["type"] for rule in rules} == {"alerting", "recording"}
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    assert not [name for name in sorted(recorded) if not vector(fed, name)]
