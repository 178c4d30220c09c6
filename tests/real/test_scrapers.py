"""What four scrapers make of one page of ours: every series with its value, nothing rejected, nothing added."""

import re
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from exporter.publish.prometheus import Format
from tests.real import programs
from tests.real.frozen import ONLY_TEXT, FrozenPage, Samples, collect, differences
from tests.real.promapi import value, vector
from tests.real.running import Running, wait_until

pytestmark = pytest.mark.real
SCRAPES = 3
PROTOCOLS = {Format.TEXT: "PrometheusText0.0.4", Format.OPENMETRICS: "OpenMetricsText1.0.0"}
VICTORIA_PRECISION = 1e-11
"""VictoriaMetrics keeps decimal numbers, of about 12 digits."""
PROMETHEUS_REJECTIONS = r"prometheus_target_scrapes?_.*(sample|exceeded|exemplar).*_total"
VMAGENT_REJECTIONS = (
    r"vm_promscrape_scrapes(_failed|_timed_out|_skipped_by_sample_limit)\w*_total|vm_rows_invalid_total"
    r"|vmagent_remotewrite_(packets|rows)_dropped\w*_total|vm_metrics_with_dropped_labels_total"
)
OWN = re.compile(r"up|scrape_\w+|target_info|otel_scope_info")
"""What scrapers say of a scrape under the name of its job."""


def stored(store: Running, job: str) -> Samples:
    """What a store with Prometheus' API keeps of a job, without what the scraper added."""
    found = vector(store, f'{{job="{job}"}}')
    rows = ((dict(one["metric"]), one["value"][1]) for one in found)
    return collect((name, labels, float(text)) for labels, text in rows if not OWN.fullmatch(name := labels.pop("__name__")))


def settle(store: Running, job: str) -> None:
    """Wait for enough scrapes of a job."""
    query = f'count_over_time(up{{job="{job}"}}[10m])'
    wait_until(lambda: (value(store, query) or 0) >= SCRAPES, 60, f"{SCRAPES} scrapes of {job}")


def own_counters(page: str, pattern: str) -> dict[str, float]:
    """Totals by name of a program's own counters whose name matches."""
    found: dict[str, float] = {}
    for name, number in re.findall(r"^(\w+)(?:\{.*\})? (\S+)$", page, re.MULTILINE):
        if re.fullmatch(pattern, name):
            found[name] = found.get(name, 0.0) + float(number)
    return found


def test_the_frozen_page_says_the_same_in_both_formats(frozen: FrozenPage) -> None:
    """Judged before it judges others: samples there are, and the series of both formats are one set."""
    text, openmetrics = (frozen.samples(form) for form in Format)
    assert len(text) > 1000
    assert text.keys() == openmetrics.keys()


@pytest.mark.parametrize("change", ["a lost series", "an invented one", "another value"])
def test_the_comparison_can_fail(frozen: FrozenPage, change: str) -> None:
    page = frozen.samples(Format.TEXT)
    other = dict(page)
    series = next(iter(other))
    if change == "another value":
        other[series] += 1
    else:
        del other[series]
    pair = (other, page) if change == "an invented one" else (page, other)
    assert len(differences(*pair)) == 1


@pytest.mark.parametrize("version", ["2", "3"])
def test_prometheus_keeps_the_page_in_both_formats(version: str, frozen: FrozenPage, tmp_path: Path) -> None:
    """Prometheus 3 is told which format to ask for. 2.42 has no such setting: it likes OpenMetrics better, where there is any."""
    jobs = {form: f"{form.name.lower()}-{version}" for form in Format}
    if version == "3":
        settings = [frozen.job(jobs[form], scrape_protocols=[PROTOCOLS[form]]) for form in Format]
    else:
        settings = [frozen.job(jobs[Format.TEXT], metrics_path=ONLY_TEXT), frozen.job(jobs[Format.OPENMETRICS])]
    with programs.start_prometheus(version, settings, tmp_path) as prometheus:
        for form, job in jobs.items():
            settle(prometheus, job)
            page = frozen.samples(form)
            assert frozen.answered[job] is form
            assert value(prometheus, f'min_over_time(up{{job="{job}"}}[10m])') == 1
            assert value(prometheus, f'scrape_samples_scraped{{job="{job}"}}') == len(page)
            assert value(prometheus, f'scrape_samples_post_metric_relabeling{{job="{job}"}}') == len(page)
            assert differences(page, stored(prometheus, job)) == []
        errors = {one["lastError"] for one in prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]}
        assert errors == {""}
        rejected = own_counters(prometheus.get("/metrics").text, PROMETHEUS_REJECTIONS)
        assert len(rejected) >= 5
        assert not any(rejected.values()), rejected


def test_vmagent_brings_the_page_into_victoriametrics(vmagent: Running, victoria: Running, frozen: FrozenPage) -> None:
    settle(victoria, "frozen")
    page = frozen.samples(Format.TEXT)
    assert frozen.answered["frozen"] is Format.TEXT
    assert value(victoria, 'scrape_samples_scraped{job="frozen"}') == len(page)
    assert value(victoria, 'scrape_samples_post_metric_relabeling{job="frozen"}') == len(page)
    assert differences(page, stored(victoria, "frozen"), tolerance=VICTORIA_PRECISION) == []


def test_vmagent_scrapes_the_living_demo_and_rejects_nothing(vmagent: Running, victoria: Running) -> None:
    settle(victoria, "llm-fleet")
    assert value(victoria, 'min_over_time(up{job="llm-fleet"}[10m])') == 1
    own = vmagent.get("/metrics").text
    rejected = own_counters(own, VMAGENT_REJECTIONS)
    assert len(rejected) >= 3
    assert not any(rejected.values()), rejected


@pytest.mark.parametrize("form", Format, ids=lambda form: form.name.lower())
def test_the_collector_passes_the_page_on(form: Format, frozen: FrozenPage, demo_job: dict[str, object], tmp_path: Path) -> None:
    job = f"collector-{form.name.lower()}"
    jobs = [frozen.job(job, scrape_protocols=[PROTOCOLS[form]]), demo_job]
    with programs.start_otelcol(jobs, tmp_path) as otelcol:

        def passed() -> dict[str, list[tuple[str, dict[str, str], float]]]:
            """Samples on the Collector's page by job."""
            found: dict[str, list[tuple[str, dict[str, str], float]]] = {}
            for family in text_string_to_metric_families(otelcol.get("/metrics").text):
                for sample in family.samples:
                    found.setdefault(sample.labels.get("job", ""), []).append((sample.name, sample.labels, sample.value))
            return found

        wait_until(lambda: passed().keys() >= {job, "llm-fleet"}, 60, "both jobs on the Collector's page")
        page, jobs_passed = frozen.samples(form), passed()
        own = {name: number for name, _, number in jobs_passed[job] if OWN.fullmatch(name)}
        assert frozen.answered[job] is form
        assert own["up"] == 1
        assert own["scrape_samples_scraped"] == own["scrape_samples_post_metric_relabeling"] == len(page)
        # Quantiles over a window are summaries without a count, which the Collector's receiver leaves out, whole.
        kept = {series: number for series, number in page.items() if "quantile" not in dict(series)}
        assert differences(kept, collect(one for one in jobs_passed[job] if not OWN.fullmatch(one[0]))) == []
        assert ("up", 1.0) in [(name, number) for name, _, number in jobs_passed["llm-fleet"]]
        address = (tmp_path / "own").read_text(encoding="utf-8")
        telemetry = requests.get(f"http://{address}/metrics", timeout=10).text
        assert own_counters(telemetry, r"otelcol_receiver_accepted_metric_points\w*")
        refused = own_counters(telemetry, r"otelcol_(receiver_(refused|failed)|exporter_(send|enqueue)_failed)_metric_points\w*")
        assert not any(refused.values()), refused
