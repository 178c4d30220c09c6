"""Envoy before the demo: what goes through it arrives unchanged and is counted."""

import re

import pytest
import requests

from tests.real.running import Running, wait_until

pytestmark = pytest.mark.real
REQUESTS = 5


def test_envoy_passes_our_answers_on_and_counts_them(envoy: tuple[Running, str], demo: Running) -> None:
    admin, front = envoy
    answers = [requests.get(f"{front}/healthz", timeout=10) for _ in range(REQUESTS)]
    assert {(one.status_code, one.text) for one in answers} == {(200, demo.get("/healthz").text)}

    def counted() -> int:
        page = admin.get("/stats/prometheus").text
        rows = re.findall(r'^envoy_cluster_upstream_rq_total\{envoy_cluster_name="engine"\} (\d+)$', page, re.MULTILINE)
        return sum(map(int, rows))

    wait_until(lambda: counted() == REQUESTS, 15, f"{REQUESTS} requests on Envoy's page")
