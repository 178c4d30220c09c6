"""The picker's page: legal for a strict reader, one series a family, folded ranks, nothing that was not told."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.model import Adapters
from collector.signals import State
from exporter.picker.dialects import DIALECTS, OWN
from exporter.sidecar.page import STATES, Style, View, render, view_of
from tests.conftest import Understand
from tests.make import at, reading, state, target, values

FOLDER = Path(__file__).parents[1] / "pages"
PAGES = [name for path in sorted(FOLDER.glob("*.prom")) if (name := path.stem).startswith(("vllm-0", "sglang-0", "tgi"))
         and not name.endswith(("disable-log-stats", "openmetrics"))]  # fmt: skip
VIEW = View(state=State.FRESH, sampled_at=1_800_000_000.25, age_seconds=0.02,
            gauges={"requests_running": 3.0, "requests_waiting": 4.0, "kv_cache_usage_ratio": 0.25,
                    "kv_cache_usage_max_ratio": 0.5})  # fmt: skip


def families(page: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By name; a family that stands twice, or is no gauge, fails."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(page.decode()):
        assert family.type == "gauge"
        assert family.documentation
        assert family.name not in found
        found[family.name] = {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
    return found


def view_of_page(understand_page: Understand, name: str) -> View:
    one = target()
    seen = understand_page(name, target=one)
    watched = state(one)
    watched.absorb(seen)
    view = view_of(watched.endpoints(seen.at))
    assert view is not None
    return view


@pytest.mark.parametrize("names", DIALECTS)
@pytest.mark.parametrize("name", PAGES)
def test_every_recorded_page_becomes_a_legal_page(understand_page: Understand, name: str, names: str) -> None:
    page = render(view_of_page(understand_page, name), Style(names=names))
    assert page.endswith(b"\n")
    found = families(page)
    assert all(len(samples) == 1 for samples in found.values())
    dialect = DIALECTS[names]
    assert {dialect.running, dialect.waiting} <= found.keys()
    assert dialect.kv_usage not in found or 0 <= next(iter(found[dialect.kv_usage].values())) <= 1
    assert len(page) < 4000


def test_ranks_are_folded_where_a_picker_would_read_the_first(understand_page: Understand) -> None:
    found = families(render(view_of_page(understand_page, "vllm-0.32.0-dp2-load"), Style()))
    raw = (FOLDER / "vllm-0.32.0-dp2-load.prom").read_text()
    rows = {name: [float(line.rpartition(" ")[2]) for line in raw.splitlines() if line.startswith(name + "{")]
            for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")}  # fmt: skip
    assert all(len(values) == 2 for values in rows.values())
    assert found["vllm:num_requests_running"][()] == sum(rows["vllm:num_requests_running"])
    assert found["vllm:num_requests_waiting"][()] == sum(rows["vllm:num_requests_waiting"])
    assert found["vllm:kv_cache_usage_perc"][()] == max(rows["vllm:kv_cache_usage_perc"])


def test_the_fold_of_kv_use_can_be_set() -> None:
    assert families(render(VIEW, Style()))["vllm:kv_cache_usage_perc"] == {(): 0.5}
    assert families(render(VIEW, Style(kv_fold="mean")))["vllm:kv_cache_usage_perc"] == {(): 0.25}


def test_what_is_not_told_is_left_out_and_info_families_stay_with_empty_labels() -> None:
    found = families(render(replace(VIEW, gauges={"requests_running": 0.0, "requests_waiting": 0.0}), Style()))
    assert "vllm:kv_cache_usage_perc" not in found
    assert found["vllm:lora_requests_info"] == {(("max_lora", ""), ("running_lora_adapters", ""), ("waiting_lora_adapters", "")):
                                                1_800_000_000.25}  # fmt: skip
    assert found["vllm:cache_config_info"] == {(("block_size", ""), ("num_gpu_blocks", "")): 1}
    assert not {name for name in found if name.startswith(OWN)} - {f"{OWN}state", f"{OWN}sample_age_seconds"}


def test_tgi_has_a_stand_in_only_when_asked_for(understand_page: Understand) -> None:
    view = view_of_page(understand_page, "tgi-3.3.7-from-source-load")
    reserved = view.gauges["kv_cache_reserved_ratio"]
    assert "vllm:kv_cache_usage_perc" not in families(render(view, Style()))
    found = families(render(view, Style(kv_stand_in=True)))
    assert found["vllm:kv_cache_usage_perc"] == {(("stand_in", "reserved"),): reserved}
    assert b"Stand-in: " in render(view, Style(kv_stand_in=True))
    assert families(render(VIEW, Style(kv_stand_in=True)))["vllm:kv_cache_usage_perc"] == {(): 0.5}


def test_adapters_with_work_waiting_and_loaded_are_kept_apart() -> None:
    told = Adapters(running=frozenset({"b", "a"}), waiting=frozenset({"c"}), max=4, loaded=frozenset({"a", "b", "d"}))
    view = replace(VIEW, adapters=told)
    labels = dict(next(iter(families(render(view, Style()))["vllm:lora_requests_info"])))
    assert labels == {"max_lora": "4", "running_lora_adapters": "a,b", "waiting_lora_adapters": "c"}
    own = dict(next(iter(families(render(view, Style()))[f"{OWN}adapters_info"])))
    assert own == {"running": "a,b", "waiting": "c", "loaded": "a,b,d"}
    resident = dict(next(iter(families(render(view, Style(adapters="loaded")))["vllm:lora_requests_info"])))
    assert resident["running_lora_adapters"] == "a,b,d"
    partly = replace(VIEW, adapters=Adapters(running=frozenset({"a"})))
    assert dict(next(iter(families(render(partly, Style(adapters="loaded")))["vllm:lora_requests_info"])))[
        "running_lora_adapters"] == "a"  # fmt: skip
    assert dict(next(iter(families(render(partly, Style()))[f"{OWN}adapters_info"]))) == {"running": "a"}


def test_odd_names_are_escaped() -> None:
    odd = 'a"b\\c\nd é'
    page = render(replace(VIEW, adapters=Adapters(running=frozenset({odd}), waiting=frozenset())), Style())
    assert dict(next(iter(families(page)["vllm:lora_requests_info"])))["running_lora_adapters"] == odd


def test_several_targets_of_a_pod_are_one_pod_and_a_part_is_no_whole() -> None:
    ranks = [target("p0", port=8000, uid="u"), target("p0", port=8001, uid="u")]
    watched = state(*ranks)
    for one, running in zip(ranks, (2.0, 5.0), strict=True):
        watched.absorb(reading(one, values(requests_running=running, requests_waiting=1.0,
                                           kv_cache_usage_max_ratio=running / 10), at(0)))  # fmt: skip
    view = view_of(watched.endpoints(at(1)))
    assert view is not None
    assert view.gauges == {"requests_running": 7.0, "requests_waiting": 2.0, "kv_cache_usage_max_ratio": 0.5}
    watched.absorb(reading(ranks[0], values(requests_running=1.0, requests_waiting=0.0), at(10)))
    assert view_of(watched.endpoints(at(10))) is None, "one rank fell silent"
    assert view_of([]) is None


def test_states_are_numbers_in_the_order_of_their_worth() -> None:
    assert sorted(STATES, key=STATES.__getitem__) == list(State)
    assert b"llm_picker_state 2\n" in render(replace(VIEW, state=State.NO_PROGRESS, stuck_seconds=31.5), Style())
    assert b"llm_picker_stuck_seconds 31.5\n" in render(replace(VIEW, state=State.NO_PROGRESS, stuck_seconds=31.5), Style())
