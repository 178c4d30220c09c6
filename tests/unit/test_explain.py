"""Each signal of a recorded page can be followed from its raw line to what is published, or says why it cannot."""

from pathlib import Path

import pytest

from collector.engines import ENGINES
from collector.model import Target
from collector.read import Body
from collector.signals import READ_SIGNALS
from exporter.explain import Explained, Explanation, as_text
from exporter.probe import look
from tests.make import HandClock, target

PAGES = Path(__file__).parents[1] / "pages"


def explained(name: str, one: Target | None = None) -> Explanation:
    return look(one or target(), Body((PAGES / f"{name}.prom").read_bytes(), "text/plain"), HandClock())


def of(explanation: Explanation, signal: str) -> Explained:
    return next(one for one in explanation.signals if one.signal == signal)


ENGINE_PAGES = sorted(path.stem for path in PAGES.glob("*.prom")
                      if path.stem.startswith(("vllm-0", "sglang-0", "tgi")) and "disable-log" not in path.stem)  # fmt: skip


@pytest.mark.parametrize("name", ENGINE_PAGES)
def test_every_signal_has_a_line_or_a_reason_on_every_recorded_page(name: str) -> None:
    explanation = explained(name)
    text = (PAGES / f"{name}.prom").read_text(encoding="utf-8")
    assert {one.signal for one in explanation.signals} == READ_SIGNALS
    for one in explanation.signals:
        if one.absent:
            assert one.value is None
            assert not one.lines
        else:
            assert one.value is not None
            assert one.alias
            assert one.lines, one.signal
            assert all(line in text for line in one.lines)
            assert one.conversion


def test_a_gauge_is_followed_to_every_level() -> None:
    one = of(explained("vllm-0.32.0-dp2-load"), "requests_running")
    assert len(one.lines) == 2
    assert one.value == sum(float(line.rpartition(" ")[2]) for line in one.lines)
    assert one.published == {f"llm_{level}_requests_running": one.value for level in ("pod", "pool", "cluster")}


def test_the_alias_is_the_first_that_is_there() -> None:
    one = of(explained("vllm-0.8.5.post2-load-queued"), "kv_cache_usage_ratio")
    assert (one.tried, one.alias) == (("kv_cache_usage_perc", "gpu_cache_usage_perc"), "gpu_cache_usage_perc")
    sglang = of(explained("sglang-0.5.23-load-queued"), "prefix_cache_query_tokens")
    assert sglang.alias == "prefill_effective_tokens_total"


def test_a_long_family_is_cut_and_says_so() -> None:
    one = of(explained("vllm-0.32.0-load-queued"), "time_to_first_token_seconds")
    assert len(one.lines) == 4
    assert one.more_lines > 10
    assert any("_count{" in line for line in one.lines)


def test_an_absent_signal_says_which_names_were_looked_for_or_that_there_is_none() -> None:
    explanation = explained("vllm-0.8.5.post2-load-queued")
    assert all(
        ENGINES["vllm"].prefixes[0] in one.absent or "is on the page" in one.absent or "no source" in one.absent
        for one in explanation.signals
        if one.absent
    )
    assert of(explained("tgi-3.3.7-from-source-idle"), "kv_cache_usage_ratio").absent == "tgi has no source for it"


def test_lines_for_people_name_what_was_left_out() -> None:
    page = b"# TYPE vllm:x gauge\nvllm:num_requests_running 1\nvllm:num_requests_waiting -3\nvllm:new_thing 1\n"
    lines = [line for line, _ in as_text(look(target(), Body(page, ""), HandClock()))]
    assert "requests_running = 1" in lines
    assert "left out: 1 negative_count" in lines
    assert any("not known to this version" in line for line in lines)
