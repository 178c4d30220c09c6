"""Each recorded page is read as its golden file says; `pytest --update-golden` writes the files anew."""

import json
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from collector.fixed import from_fixed
from collector.ladders import RawHistogram
from collector.model import Reading, SeriesKey
from collector.reasons import ReadError

TESTS = Path(__file__).parents[1]
NAMES = sorted(str(path.relative_to(TESTS / "pages").with_suffix("")) for path in (TESTS / "pages").rglob("*.prom"))


def histogram_as_data(histogram: RawHistogram) -> dict[str, Any]:
    bounds = [*map(repr, histogram.bounds), "+Inf"]
    buckets = " ".join(f"{bound}:{count}" for bound, count in zip(bounds, accumulate(histogram.counts), strict=True))
    return {"count": histogram.count, "sum": from_fixed(histogram.sum_fixed), "buckets": buckets}


def by_signal(series: Iterable[tuple[SeriesKey, Any]]) -> dict[str, dict[str, Any]]:
    grouped: dict[str, dict[str, Any]] = {}
    for (signal, child, source), value in series:
        grouped.setdefault(f"{signal}/{child}" if child else signal, {})[source] = value
    return grouped


def reading_as_data(reading: Reading) -> dict[str, Any]:
    [values] = reading.rows.values()
    adapters = values.adapters and {
        "running": None if values.adapters.running is None else sorted(values.adapters.running),
        "waiting": None if values.adapters.waiting is None else sorted(values.adapters.waiting), "max": values.adapters.max,
    }  # fmt: skip
    histograms = ((key, histogram_as_data(one)) for key, one in values.histograms.items())
    return {
        "engine": reading.engine, "model": values.model, "started_at": values.started_at, "progress": values.progress,
        "unknown_families": reading.unknown_families, "oddities": dict(reading.oddities), "gauges": dict(values.gauges),
        "adapters": adapters, "counters": by_signal(values.counters.items()), "histograms": by_signal(histograms),
    }  # fmt: skip


def page_as_data(understand_page: Any, name: str) -> Mapping[str, Any]:
    content_type = "application/openmetrics-text; version=1.0.0" if "openmetrics" in name else "text/plain"
    try:
        return reading_as_data(understand_page(name, content_type=content_type))
    except ReadError as refusal:
        return {"refused": refusal.reason.value}


@pytest.mark.parametrize("name", NAMES)
def test_page_is_read_as_its_golden_file_says(name: str, understand_page: Any, request: pytest.FixtureRequest) -> None:
    data = page_as_data(understand_page, name)
    golden = TESTS / "golden" / f"{name}.json"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert json.loads(golden.read_text()) == data


def test_every_golden_file_has_its_page() -> None:
    found = {str(path.relative_to(TESTS / "golden").with_suffix("")) for path in (TESTS / "golden").rglob("*.json")}
    assert found == set(NAMES)
