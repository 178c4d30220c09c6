"""No family of any recorded page escapes: each is read, or on the list of those that are known and left unread."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.engines import ENGINES
from collector.model import Reading, Values
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.prometheus import Format
from tests.make import HandClock

PAGES = Path(__file__).parents[1] / "pages"
PREFIX = {"vllm": "vllm[:_]", "sglang": "sglang:", "tgi": "tgi_"}
NAMES = sorted(str(path.relative_to(PAGES).with_suffix("")) for path in PAGES.rglob("*.prom")
               if re.match("vllm-0|sglang-0|tgi", path.name) and "disable-log-stats" not in path.name)  # fmt: skip
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)")


def families_on(name: str) -> Iterator[str]:
    """Family names without prefix, from the raw lines: the declared one, else the sample's without its part."""
    engine = name.partition("-")[0]
    prefix = re.compile(f"^{PREFIX[engine]}")
    declared = set()
    for line in (PAGES / f"{name}.prom").read_text().splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
        elif not line.startswith("#") and (match := SAMPLE.match(line)) and prefix.match(match[1]):
            sample = match[1]
            whole = next((one for one in (sample, re.sub("_(bucket|sum|count|created)$", "", sample))
                          if one in declared or f"{one}_total" in declared), sample)  # fmt: skip
            yield prefix.sub("", re.sub("_created$", "", whole))
    yield from (prefix.sub("", re.sub("_created$", "", one)) for one in declared if prefix.match(one))


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_read_or_consciously_unused(name: str) -> None:
    engine = ENGINES[name.partition("-")[0]]
    known = engine.families | engine.unused
    stray = set()
    for family in families_on(name):
        bare = re.sub("_(bucket|sum|count)$", "", family)
        if not {family, f"{family}_total", bare, f"{bare}_total"} & known:
            stray.add(family)
    assert stray == set()


def test_the_scan_above_sees_the_pages() -> None:
    counts = {name: len(set(families_on(name))) for name in NAMES}
    assert min(count for name, count in counts.items() if "name-filter" not in name and "idle" not in name) >= 20
    assert sum(count >= 40 for count in counts.values()) >= 35


@pytest.mark.parametrize("name", NAMES)
def test_a_family_of_a_newer_version_shows_up(name: str, understand_page: Any) -> None:
    """Renamed by its newest release, any family of any page is counted as unknown until it is mapped or put on the list."""
    engine = name.partition("-")[0]
    text = (PAGES / f"{name}.prom").read_text()
    prefix = {"vllm": "vllm:", "sglang": "sglang:", "tgi": "tgi_"}[engine]
    new = f'# TYPE {prefix}tokens_from_the_future counter\n{prefix}tokens_from_the_future_total{{engine="0"}} 1\n'
    assert understand_page(new + text.replace("# EOF\n", "")).unknown_families == 1


def test_the_exporter_tells_how_many_it_does_not_know(understand_page: Any) -> None:
    hub = Hub(parse_config("cluster: c\nstatic_targets: [{pool: p, urls: ['http://h:1']}]"), HandClock())
    page = 'vllm:num_requests_running{engine="0"} 1\n# TYPE vllm:new_one gauge\n# TYPE vllm:new_two histogram\n'
    [track] = hub.state.tracks.values()
    hub.take(understand_page(page, target=track.target, at=hub.clock.now()))
    assert "\nllm_exporter_unknown_families 2.0\n" in hub.own.render(Format.TEXT)


# What every page of an engine that has served must supply; SGLang's time between tokens begins with a second token.
REQUIRED = {
    "vllm": {"requests_running", "requests_waiting", "kv_cache_usage_ratio", "kv_cache_usage_max_ratio", "prompt_tokens",
             "generation_tokens", "kv_cache_capacity_tokens", "kv_cache_blocks", "kv_cache_block_size_tokens", "preemptions",
             "time_to_first_token_seconds", "inter_token_latency_seconds", "end_to_end_latency_seconds", "queue_time_seconds",
             "prefill_time_seconds", "decode_time_seconds", "inference_time_seconds", "request_prompt_tokens",
             "request_generation_tokens"},
    "sglang": {"requests_running", "requests_waiting", "requests_waiting_by_reason", "kv_cache_usage_ratio",
               "kv_cache_usage_max_ratio", "kv_cache_used_tokens", "requests", "prompt_tokens", "generation_tokens",
               "prefix_cache_query_tokens", "prefix_cache_hit_tokens", "cached_prompt_tokens", "time_to_first_token_seconds",
               "end_to_end_latency_seconds"},
    "tgi": {"requests_running", "requests_waiting", "requests", "rejected_requests", "prompt_tokens", "generation_tokens",
            "kv_cache_reserved_ratio", "end_to_end_latency_seconds", "time_per_output_token_seconds", "queue_time_seconds",
            "inference_time_seconds", "request_prompt_tokens", "request_generation_tokens"},
}  # fmt: skip
NEWER = {"vllm-0.32.0": {"requests", "prefix_cache_query_tokens", "prefix_cache_hit_tokens", "cached_prompt_tokens",
                         "rejected_requests", "requests_waiting_by_reason", "engines_asleep", "aborted_requests_estimate",
                         "time_per_output_token_seconds", "external_prefix_cache_query_tokens",
                         "external_prefix_cache_hit_tokens"},
         "sglang-0.5.23": {"kv_cache_capacity_tokens", "kv_cache_blocks", "kv_cache_block_size_tokens", "queue_time_seconds",
                           "external_prefix_cache_query_tokens", "rejected_requests", "prefill_time_seconds"}}  # fmt: skip


def signals_of(reading: Reading) -> set[str]:
    [values] = reading.rows.values()
    assert isinstance(values, Values)
    keys = {key[0] for key in (*values.counters, *values.histograms)}
    return keys | {key.partition("/")[0] for key in values.gauges}


@pytest.mark.parametrize("name", [name for name in NAMES if "name-filter" not in name
                                  and not re.search("(sglang|tgi|vllm-0.8).*idle", name)])  # fmt: skip
def test_no_required_signal_is_missing(name: str, understand_page: Any) -> None:
    content_type = "application/openmetrics-text; version=1.0.0" if "openmetrics" in name else "text/plain"
    found = signals_of(understand_page(name, content_type=content_type))
    required = REQUIRED[name.partition("-")[0]].union(*(more for version, more in NEWER.items() if name.startswith(version)))
    assert required - found == set()
