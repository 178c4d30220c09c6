"""Real Prometheus, old and new, beside the demo: every sample taken, every rule answers."""

import re

import pytest

from alerts.model import alerts_of, records_of
from alerts.rules import GROUPS
from tests.promql import parsed, selectors
from tests.real.promapi import query, vector
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


# What the demo cannot have: nothing is pushed, no label was capped, no back end exists; SGLang and TGI tell no adapters.
NOT_IN_THE_DEMO = re.compile(
    r"llm_exporter_sink_|llm_pod_adapters_waiting|prometheus_rule_evaluation|llm_exporter_label_values_capped|target_source"
)


def test_every_series_that_rules_read_is_there_and_no_expression_warns(fed: Running) -> None:
    missing = set()
    for rule in (*alerts_of(GROUPS), *records_of(GROUPS)):
        answer = query(fed, rule.expression)
        assert answer["status"] == "success", (rule.name, answer)
        assert not answer.get("warnings"), (rule.name, answer)
        assert not answer.get("infos"), (rule.name, answer)
        for node, _ in selectors(parsed(rule.expression)):
            text = node.prettify().removesuffix(" offset 1d")  # the demo has no yesterday
            if not NOT_IN_THE_DEMO.match(text) and not vector(fed, text):
                missing.add((rule.name, text))
    assert not missing
