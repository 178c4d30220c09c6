"""What an engine tells of the table of signals, known from its rules alone."""

from collector.engines.spec import Engine
from collector.signals import SIGNALS, Fold

_ASKED = {
    "requests_max": {"sglang", "tgi"},
    "adapters_loaded": {"vllm", "sglang"},
    "process_start_timestamp_seconds": {"vllm"},
}
"""Signals that no metrics page tells, and the engines whose servers do when asked."""


def tells(engine: Engine, name: str, child: str = "") -> bool:
    """Whether an engine tells a signal of the table, or the child of it."""
    row = SIGNALS[name]
    if name in _ASKED:
        return engine.name in _ASKED[name]
    if name == "kv_cache_usage_max_ratio":
        return tells(engine, "kv_cache_usage_ratio")
    if row.share is not None:
        return tells(engine, row.share.numerator, row.share.child) and tells(engine, row.share.denominator)
    if row.fold is Fold.DERIVED:
        return name != "adapter_pods" or tells(engine, "adapters_waiting")
    return child in engine.told(name) if child else bool(engine.of(name) or engine.special.get(name))
