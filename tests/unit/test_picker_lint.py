"""lint picker: what a picker would read of recorded pages, and what is wrong with that."""

from pathlib import Path
from typing import Any

import pytest

from collector.page import read_page
from collector.read import Body
from exporter.picker.lint import Finding, Verdict, as_text, lint
from exporter.picker.reads import page_faults, read_newest, read_number
from exporter.sidecar.page import Style, render
from tests.conftest import Understand
from tests.make import target
from tests.unit.test_sidecar_page import FOLDER, PAGES, VIEW, view_of_page


def of_page(content: bytes, **more: Any) -> Verdict:
    return lint(target(), Body(content, "text/plain"), **more)


def recorded(name: str, **more: Any) -> Verdict:
    return of_page((FOLDER / f"{name}.prom").read_bytes(), **more)


def find(verdict: Verdict, field: str) -> Finding:
    return next(one for one in verdict.findings if one.field == field)


def test_the_first_rank_is_told_from_the_pod() -> None:
    verdict = recorded("vllm-0.32.0-dp2-load")
    assert not verdict.good
    queue = find(verdict, "queue")
    assert (queue.reads, queue.grade) == ("10", "wrong")
    assert queue.why == 'the first of 2 series (engine="0"); the pod has 19'


def test_an_ordinary_page_is_good_but_large() -> None:
    verdict = recorded("vllm-0.32.0-load-queued")
    assert verdict.good
    assert "KiB/s" in find(verdict, "page").why
    assert find(verdict, "queue") == Finding(field="queue", family="vllm:num_requests_waiting", reads="18", grade="ok")


def test_tgi_has_no_mapping_and_looks_empty() -> None:
    verdict = recorded("tgi-3.3.7-from-source-load", engine_type="tgi")
    assert [find(verdict, field).grade for field in ("engine label", "queue", "kv cache")] == ["note", "wrong", "wrong"]
    assert "an empty cache, the best score" in find(verdict, "kv cache").why


def test_sglang_needs_its_label_and_lacks_its_cache_labels() -> None:
    assert "label the pod 'sglang'" in find(recorded("sglang-0.5.23-load-queued"), "engine label").why
    verdict = recorded("sglang-0.5.23-load-queued", engine_type="sglang")
    assert find(verdict, "cache").grade == "note"


def test_adapters_that_only_tell_activity_are_noted() -> None:
    assert "activity" in find(recorded("vllm-0.32.0-lora-running-waiting"), "adapters").why


@pytest.mark.parametrize("name", PAGES)
def test_our_own_page_of_every_recorded_page_reads_as_it_is(understand_page: Understand, name: str) -> None:
    view = view_of_page(understand_page, name)
    verdict = of_page(render(view, Style(kv_stand_in=True)))
    assert find(verdict, "queue").reads == f"{view.gauges['requests_waiting']:.0f}"
    assert {one.field for one in verdict.findings if one.grade == "wrong"} <= (
        set() if view.gauges.keys() & {"kv_cache_usage_max_ratio", "kv_cache_reserved_ratio"} else {"kv cache"})  # fmt: skip


def test_a_sidecar_is_refused_for_several_ports() -> None:
    verdict = of_page(render(VIEW, Style()), ports=(8000, 8001))
    assert not verdict.good
    assert "run no sidecar for it" in find(verdict, "page").why
    assert of_page(render(VIEW, Style()), ports=(8000,)).good


@pytest.mark.parametrize(("page", "fault"), [
    (b"# TYPE a gauge\na 1", "does not end with a newline"),
    (b"# TYPE a gauge\na 1\n# TYPE a gauge\na 2\n", "declared twice"),
    (b"a 1\n# TYPE a gauge\n", "declared after its samples"),
    (b"# TYPE a gauge\na 1\n", ""),
    (b"", ""),
])  # fmt: skip
def test_what_makes_a_picker_refuse_a_page(page: bytes, fault: str) -> None:
    assert [text for text in page_faults(page) if fault and fault in text] or page_faults(page) == []
    assert bool(page_faults(page)) == bool(fault)


def test_the_pickers_choice_of_a_series() -> None:
    page = read_page(
        b'# TYPE a gauge\na{x="1"} 5\na{x="2"} 9\n# TYPE b untyped\nb 3\n# TYPE h gauge\nh{t="w",k="v"} 1\nh{t="r"} 2\n'
    )
    assert read_number(page, "a").value == 5
    assert read_number(page, "a{x=2}").value == 9
    assert read_number(page, 'h{t="r"}').value == 2
    assert read_number(page, "a{x=3}").fault == "not on the page"
    assert (read_number(page, "b").value, read_number(page, "b").fault) == (0.0, "its type is untyped, so it reads as 0")
    assert read_newest(page, "a").labels == {"x": "2"}


@pytest.mark.parametrize("value", ["42", "-0.5", "NaN"])
def test_a_share_that_is_none_is_wrong(value: str) -> None:
    page = f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc {value}\n".encode()
    assert find(of_page(page), "kv cache").grade == "wrong"


def test_the_text_names_all_and_a_page_of_strangers_is_judged_too() -> None:
    lines = [line for line, _ in as_text(of_page(b"# TYPE go_goroutines gauge\ngo_goroutines 3\n"))]
    assert lines[0] == "http://p0:8000/metrics: no known engine, read as vllm"
    assert any(line.startswith("  wrong  queue") for line in lines)


def test_pages_are_there() -> None:
    assert len(PAGES) > 15
    assert Path(FOLDER, f"{PAGES[0]}.prom").is_file()
