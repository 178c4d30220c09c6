"""docs/metrics.md says of every family what it is and where it comes from."""

import re
from pathlib import Path

import pytest

from collector.engines import ENGINES
from collector.naming import families, prometheus_name
from collector.signals import READ_SIGNALS, SIGNALS, Fold, Signal

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
SECTIONS = {part.partition("\n")[0].strip(): part for part in PAGE.split("\n### ")[1:]}


def test_every_family_is_named() -> None:
    assert {prometheus_name(signal, level) for signal, level in families()} <= set(re.findall(r"`(llm_\w+)`", PAGE))


@pytest.mark.parametrize("row", SIGNALS.values(), ids=lambda row: row.name)
def test_every_row_is_told_whole(row: Signal) -> None:
    section = SECTIONS[row.name]
    facts = next(line for line in section.splitlines() if line.startswith(f"{row.kind}; "))
    for said in (row.help, f"unit {row.unit or 'none'}", f"combined upward by {row.fold}",
                 "; additive" if row.additive else "; not additive", "stable." if row.stable else "alpha."):  # fmt: skip
        assert said in section
    assert all(f"`{label}`" in facts for label in row.labels)
    assert all(child in facts for child in row.children)
    if row.fold not in (Fold.RATIO, Fold.DERIVED):
        assert [line.partition(":")[0] for line in section.splitlines() if line.startswith("- ")] == [
            f"- {one}" for one in ENGINES
        ]


@pytest.mark.parametrize("name", sorted(READ_SIGNALS))
def test_sources_are_the_engines_own_names_or_said_to_be_missing(name: str) -> None:
    for engine in ENGINES.values():
        [line] = [line for line in SECTIONS[name].splitlines() if line.startswith(f"- {engine.name}: ")]
        fed = any(rule.signal == name for rule in engine.rules) or name in engine.special
        if fed:
            sources = [source.partition("{")[0] for source in re.findall(r"`([^`]+)`", line)]
            assert sources
            assert all(source.startswith(engine.prefixes[0]) for source in sources)
            for rule in engine.of(name):
                assert {f"{engine.prefixes[0]}{alias}" for alias in rule.aliases} <= set(sources)
        elif name not in ("kv_cache_usage_max_ratio", "process_start_timestamp_seconds"):
            assert line == f"- {engine.name}: not available from this engine"


def test_a_reader_learns_what_tgi_lacks() -> None:
    lacking = {name for name in READ_SIGNALS if "- tgi: not available from this engine" in SECTIONS[name]}
    assert {"kv_cache_usage_ratio", "time_to_first_token_seconds", "inter_token_latency_seconds", "prefix_cache_hit_tokens",
            "adapters_running", "preemptions"} <= lacking  # fmt: skip
    assert "requests_running" not in lacking
