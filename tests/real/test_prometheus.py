"""Real Prometheus, old and new, beside the demo: every sample taken, every rule answers."""

import re

import pytest

from tests.real.promapi import vector
from tests.real.running import Running

pytestmark = pytest.mark.real
REJECTIONS = (
    "prometheus_target_scrapes_sample_duplicate_timestamp_total",
    "prometheus_target_scrapes_sample_out_of_order_total",
    "prometheus_target_scrapes_sample_out_of_bounds_total",
    "prometheus_target_scrapes_exceeded_sample_limit_total",
    "prometheus_target_scrapes_exceeded_body_size_limit_total",
    "prometheus_target_scrapes_exemplar_out_of_order_total",
)


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


def test_rules_are_healthy_and_the_recorded_ones_return_data(fed: Running) -> None:
    groups = fed.get("/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["type"] for rule in rules} == {"alerting", "recording"}
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    assert not [name for name in sorted(recorded) if not vector(fed, name)]
