"""Pages that do not say what they should: one bad number, row or line may cost itself, never the page, never the process."""

import math
import random
import re
from typing import Any

import pytest

from collector.clock import Instant
from collector.engines import ENGINES
from collector.model import Values
from collector.reasons import ReadError
from collector.state import State

LOADED = (
    "vllm-0.32.0-dp2-load", "vllm-0.32.0-lora-running-waiting", "vllm-0.8.5.post2-lora-running-waiting",
    "sglang-0.5.23-dp2-load", "sglang-0.5.23-lora-load", "tgi-3.3.7-from-source-load",
)  # fmt: skip
NUMBERS = ("NaN", "+Inf", "-Inf", "1e308", "-1e308", "1e30", "1e999", "-1", "0.5", "1e-320", "")
READ = frozenset[str]().union(*(engine.wanted() for engine in ENGINES.values()))
LINE = re.compile(r"^((?:vllm|sglang|tgi)[a-z0-9_:]*)(.*) (\S+)$")


def follow(understand_page: Any, target: Any, *bodies: str) -> State:
    """The pages in turn through one State, two seconds apart, with everything that is computed from it."""
    state = State(cluster="c")
    at = Instant(1000.0, 1_800_000_000.0)
    state.watch([target], at)
    for body in bodies:
        at = Instant(at.mono + 2.0, at.wall + 2.0)
        state.absorb(understand_page(body, at=at))
        snapshot = state.snapshot(at)
        for row in snapshot.rows:
            assert all(math.isfinite(value) for value in row.gauges.values())
            assert all(count >= 0 for count in row.counters.values())
            for histogram in row.histograms.values():
                assert list(histogram.cumulative) == sorted(histogram.cumulative)
        assert all(math.isfinite(value) for endpoint in snapshot.endpoints for value in endpoint.gauges.values())
    return state


def families_of(text: str) -> list[str]:
    return sorted({match[1] for line in text.splitlines() if (match := LINE.match(line))} & READ)


def fed_by(family: str) -> set[str]:
    """Signals that may change when the family does: those that name it, and what capacity weighs."""
    fed: set[str] = set()
    for engine in ENGINES.values():
        names = [family.removeprefix(prefix) for prefix in engine.prefixes if family.startswith(prefix)]
        bare = {re.sub("_(bucket|sum|count)$", "", name) for name in names} | set(names)
        for rule in engine.rules:
            if bare & {*rule.aliases, rule.zero_beside, rule.unless}:
                fed.add(rule.signal)
        fed |= {signal for signal, sources in engine.special.items() if bare & set(sources)}
    if fed & {"kv_cache_usage_ratio", "kv_cache_capacity_tokens"}:
        fed |= {"kv_cache_usage_ratio", "kv_cache_usage_max_ratio"}
    return fed | ({"kv_cache_used_tokens"} if "kv_cache_usage_ratio" in fed else set())


def with_number(text: str, family: str | None, number: str) -> str:
    def changed(line: str) -> str:
        match = LINE.match(line)
        return f"{match[1]}{match[2]} {number}" if match and family in (None, match[1]) else line

    return "\n".join(changed(line) for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", LOADED)
def test_no_number_anywhere_harms_more_than_itself(name: str, number: str, understand_page: Any, pages: Any, target: Any) -> None:
    text = (pages / f"{name}.prom").read_text()
    [plain] = understand_page(text).rows.values()
    follow(understand_page, target, text, with_number(text, None, number), text)
    for family in families_of(text):
        [values] = understand_page(with_number(text, family, number)).rows.values()
        assert isinstance(values, Values)
        assert all(math.isfinite(value) for value in values.gauges.values())
        assert values.progress is None or math.isfinite(values.progress)
        changed = {signal.partition("/")[0] for signal, value in plain.gauges.items() if values.gauges.get(signal) != value}
        changed |= {key[0] for key, count in plain.counters.items() if values.counters.get(key) != count}
        changed |= {key[0] for key, one in plain.histograms.items() if values.histograms.get(key) != one}
        assert changed <= fed_by(family), family


@pytest.mark.parametrize("number", ["NaN", "1e30"])
@pytest.mark.parametrize("name", LOADED)
def test_one_bad_number_in_every_place_and_back(name: str, number: str, understand_page: Any, pages: Any, target: Any) -> None:
    """The page before, the bad one, the page again: what was counted stays what the two good pages say, nothing."""
    text = (pages / f"{name}.prom").read_text()
    for family in families_of(text):
        state = follow(understand_page, target, text, with_number(text, family, number), text)
        assert sum(state.totals.counters.values()) == 0, family
        assert all(sum(map(sum, ladders.values())) == 0 for ladders in state.totals.ladders.values()), family


@pytest.mark.parametrize("name", LOADED)
def test_a_mangled_line_is_not_counted_as_a_new_histogram(name: str, understand_page: Any, pages: Any, target: Any) -> None:
    """One bucket line lost in one scrape would otherwise look like another ladder, and count the whole past twice."""
    text = (pages / f"{name}.prom").read_text()
    lines = text.splitlines()
    buckets = [
        n for n, line in enumerate(lines) if "_bucket{" in line and re.search("token|latency|e2e|queue|duration|length", line)
    ]
    for n in random.Random(1).sample(buckets, 12):
        wrong = lines[n].replace('"', "", 1) if n % 2 else re.sub('le="[^"]*"', 'le="many"', lines[n])
        mangled = "\n".join([*lines[:n], wrong, *lines[n + 1 :]]) + "\n"
        state = follow(understand_page, target, text, mangled, text)
        assert sum(state.totals.counters.values()) == 0
        assert all(sum(map(sum, ladders.values())) == 0 for ladders in state.totals.ladders.values()), lines[n]


@pytest.mark.parametrize("name", LOADED)
def test_order_of_lines_does_not_matter(name: str, understand_page: Any, pages: Any) -> None:
    text = (pages / f"{name}.prom").read_text()
    plain = understand_page(text)
    for seed in range(3):
        lines = text.splitlines()
        random.Random(seed).shuffle(lines)
        reading = understand_page("\n".join(lines) + "\n")
        assert (reading.rows, reading.unknown_families) == (plain.rows, plain.unknown_families)


@pytest.mark.parametrize("name", LOADED)
def test_a_page_cut_anywhere_is_read_or_refused(name: str, understand_page: Any, pages: Any, target: Any) -> None:
    text = (pages / f"{name}.prom").read_text()
    for at in random.Random(2).sample(range(len(text)), 40):
        try:
            understand_page(text[:at].encode())
        except ReadError:
            continue


def test_a_bad_number_never_reaches_the_text_of_labels(understand_page: Any) -> None:
    digits = "9" * 400
    page = (f'vllm:cache_config_info{{engine="0",kv_cache_size_tokens="{digits}"}} 1\n'
            f'vllm:lora_requests_info{{max_lora="{digits}",running_lora_adapters="a",waiting_lora_adapters=""}} 1\n'
            'vllm:kv_cache_usage_perc{engine="0"} 0.5\n')  # fmt: skip
    [values] = understand_page(page).rows.values()
    assert values.gauges == {"kv_cache_usage_ratio": 0.5, "kv_cache_usage_max_ratio": 0.5}
