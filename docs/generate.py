"""Writes docs/metrics.md from the table of signals: `python docs/generate.py FILE`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from collector.engines import ENGINES
from collector.engines.spec import Engine, Rule
from collector.naming import LEVEL_LABELS, families, label_names, prometheus_name
from collector.signals import EXPORTER, INFO, SIGNALS, Fold, Kind, Level, Role, Signal

_COMPUTED_FROM = {"kv_cache_usage_max_ratio": "kv_cache_usage_ratio"}
_ASKED = {
    "requests_max": {"sglang": "`/v1/loads` (max_running_requests)", "tgi": "`/info` (max_concurrent_requests)"},
    "adapters_loaded": {"vllm": "`/v1/models` (entries with a parent)", "sglang": "`/v1/models` (entries with a parent)"},
    "process_start_timestamp_seconds": {"vllm": "`process_start_time_seconds` (single API process)"},
}
_NO_SOURCE = "not available from this engine"


def source(engine: Engine, name: str) -> str:
    """Names on the engine's page that feed a signal, in the order they are tried."""
    if name in _ASKED:
        return _ASKED[name].get(engine.name, _NO_SOURCE)
    name = _COMPUTED_FROM.get(name, name)
    aliases = [alias + _choice(rule) for rule in engine.of(name) for alias in rule.aliases]
    aliases += [alias for alias in engine.special.get(name, ()) if alias not in aliases]
    return ", ".join(f"`{engine.prefixes[0]}{alias}`" for alias in aliases) or _NO_SOURCE


def _choice(rule: Rule) -> str:
    kept = [f'{label}=~"{"|".join(sorted(values))}"' for label, values in rule.only.items()]
    return f"{{{', '.join([rule.child_label] * bool(rule.child_label) + kept)}}}" if rule.child_label or kept else ""


def _signals() -> Iterator[str]:
    for row in SIGNALS.values():
        names = [f"`{prometheus_name(row, level)}`" for level in row.levels]
        yield f"### {row.name}\n"
        yield f"{row.help}\n"
        yield f"{_facts(row)}\n"
        yield f"Names: {', '.join(names)}\n"
        if row.fold not in (Fold.RATIO, Fold.DERIVED):
            yield "\n".join(f"- {engine.name}: {source(engine, row.name)}" for engine in ENGINES.values()) + "\n"


def _facts(row: Signal) -> str:
    facts = [row.kind.value, f"unit {row.unit or 'none'}", f"combined upward by {row.fold}",
             "additive" if row.additive else "not additive"]  # fmt: skip
    if row.labels:
        values = f" ({', '.join(row.children)})" if row.children else ""
        facts.append(f"own label{'s' * (len(row.labels) > 1)} {' and '.join(f'`{label}`' for label in row.labels)}{values}")
    if "quantile" in row.labels:
        facts.append("declared as a summary on the metrics page")
    if row.role is not Role.BOTH:
        facts.append(f"counts above the pod from {row.role} pods where prefill and decode are apart")
    if row.ladder:
        facts.append(f"{len(row.ladder)} buckets from {row.ladder[0]:g} to {row.ladder[-1]:g}")
    return "; ".join(facts) + "; " + ("stable" if row.stable else "alpha") + "."


def _own() -> Iterator[str]:
    yield "| name | type | labels | meaning |\n|---|---|---|---|"
    for row in (*INFO.values(), *EXPORTER.values()):
        level = row.levels[0]
        kind = Kind.GAUGE if row.kind is Kind.INFO else row.kind
        labels = ", ".join(label_names(row, level)) or "none"
        yield f"| `{prometheus_name(row, level)}` | {kind} | {labels} | {row.help} |"


def write() -> str:
    """The whole page."""
    levels = [f"- {level}: {', '.join(f'`{label}`' for label in labels)}" for level, labels in LEVEL_LABELS.items()
              if level is not Level.EXPORTER]  # fmt: skip
    parts = [
        "# Metrics\n",
        f"All {len(families())} families, generated from `collector/signals.py` by `make generate`; do not edit by hand.\n",
        "A value that was not read is absent, never 0. Every series carries the labels of its level:\n",
        "\n".join(levels) + "\n",
        "## Signals\n",
        *_signals(),
        "## Information, and the exporter itself\n",
        *_own(),
        "\nBeside them stand the usual `process_*` families of the exporter's own process.",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(write(), encoding="utf-8")
