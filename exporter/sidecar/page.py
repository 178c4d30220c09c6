"""The page for a picker: what it is to know of one pod, in the names that it reads. Pure.

Text format 0.0.4, gauges alone, one series a family, each family declared once, a newline at the end. A picker takes the first
series of a family that it finds, so data-parallel ranks are folded before. What is not known is left out; a family whose facts
are labels stays with empty ones, since pickers count its absence as an error at every look.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from collector.model import Adapters
from collector.signals import State
from collector.snapshot import Endpoint
from exporter.picker.dialects import DIALECTS, OWN, Dialect
from exporter.publish.prometheus import write_labels, write_number

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = {State.FRESH: 0, State.WARMING: 1, State.NO_PROGRESS: 2, State.STALE: 3, State.TERMINATING: 4, State.DOWN: 5}
"""The state as a number that a picker can compare: the higher the less it is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One pod at one moment; None = not known. `sampled_at` is unix time, ages are seconds."""

    state: State
    sampled_at: float
    age_seconds: float
    gauges: Mapping[str, float]
    adapters: Adapters | None = None
    prefix_cache_hit_ratio: float | None = None
    first_token_p95_seconds: float | None = None
    preemptions_per_second: float | None = None
    stuck_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How the page is written.

    `names`: whose dialect. `kv_fold`: `max` or `mean` over the ranks of a pod. `kv_stand_in`: where the engine tells no use of
    its KV cache, show the share of the token budget that is reserved in its place. `adapters`: which ones stand as running,
    those with `work` or all that are `loaded`.
    """

    names: str = "vllm"
    kv_fold: str = "max"
    kv_stand_in: bool = False
    adapters: str = "work"


def view_of(endpoints: Iterable[Endpoint]) -> View | None:
    """The pod behind some targets as one; None when not all of them tell their load, since a part is no whole."""
    several = list(endpoints)
    if not several or any(not one.gauges or one.sampled_at is None or one.age_seconds is None for one in several):
        return None
    if len(several) == 1:
        one = several[0]
        return View(state=one.state, sampled_at=one.sampled_at or 0.0, age_seconds=one.age_seconds or 0.0, gauges=one.gauges,
                    adapters=one.adapters, prefix_cache_hit_ratio=one.prefix_cache_hit_ratio)  # fmt: skip
    shared = frozenset.intersection(*(frozenset(one.gauges) for one in several))
    gauges = {name: (math.fsum if name in _ADDED else max)(one.gauges[name] for one in several) for name in _FOLDED & shared}
    return View(state=max((one.state for one in several), key=STATES.__getitem__), gauges=gauges,
                sampled_at=min(one.sampled_at or 0.0 for one in several),
                age_seconds=max(one.age_seconds or 0.0 for one in several))  # fmt: skip


class _Add(Protocol):
    def __call__(self, family: str, value: float | None, help_text: str, **labels: str) -> None: ...


_ADDED = frozenset({"requests_running", "requests_waiting"})
_FOLDED = _ADDED | {"kv_cache_usage_max_ratio", "kv_cache_reserved_ratio"}
"""What is known of several targets together; the rest has no sum and no highest."""


def render(view: View, style: Style) -> bytes:
    """The page."""
    names = DIALECTS[style.names]
    lines: list[str] = []

    def add(family: str, value: float | None, help_text: str, **labels: str) -> None:
        if family and value is not None:
            shown = write_labels(labels, labels.values())
            series = f"{family}{{{shown}}}" if shown else family
            lines.extend((f"# HELP {family} {help_text}", f"# TYPE {family} gauge", f"{series} {write_number(value)}"))

    gauges = view.gauges
    add(names.running, gauges.get("requests_running"), "Requests in the batch, over all ranks.")
    add(names.waiting, gauges.get("requests_waiting"), "Requests that wait, over all ranks.")
    _add_usage(add, names, view, style)
    _add_adapters(add, names, view, style)
    _add_cache(add, names, gauges)
    add(f"{OWN}prefix_cache_hit_ratio", view.prefix_cache_hit_ratio, "Share of looked-up prompt tokens that were cached.")
    add(f"{OWN}kv_cache_reserved_ratio", gauges.get("kv_cache_reserved_ratio"), "Share of the token budget that is reserved.")
    add(f"{OWN}time_to_first_token_p95_seconds", view.first_token_p95_seconds, "95th percentile over the last minute.")
    add(f"{OWN}preemptions_per_second", view.preemptions_per_second, "Over the last minute.")
    add(f"{OWN}stuck_seconds", view.stuck_seconds, "Time for which there was work and no step of it.")
    add(f"{OWN}state", STATES[view.state], "0 fresh, 1 warming, 2 no progress.")
    add(f"{OWN}sample_age_seconds", round(view.age_seconds, 6), "Age of these numbers when this page was written.")
    return ("\n".join(lines) + "\n").encode()


def _add_usage(add: _Add, names: Dialect, view: View, style: Style) -> None:
    key = "kv_cache_usage_max_ratio" if style.kv_fold == "max" else "kv_cache_usage_ratio"
    usage = view.gauges.get(key)
    if usage is None and style.kv_stand_in:
        add(names.kv_usage, view.gauges.get("kv_cache_reserved_ratio"),
            "Stand-in: share of the token budget that is reserved, an upper bound of use.", stand_in="reserved")  # fmt: skip
        return
    add(names.kv_usage, usage, f"Share of the KV cache in use, 0 to 1, {style.kv_fold} over the ranks.")


def _add_adapters(add: _Add, names: Dialect, view: View, style: Style) -> None:
    """Work, waiting work and residency are three things; what the engine does not tell apart is an empty label."""
    told = view.adapters or Adapters()
    resident = style.adapters == "loaded" and told.loaded is not None
    add(names.adapters, view.sampled_at, "LoRA adapters; the value is the time of the sample.",
        max_lora="" if told.max is None else str(told.max),
        running_lora_adapters=_names(told.loaded if resident else told.running),
        waiting_lora_adapters=_names(told.waiting))  # fmt: skip
    known = {"running": told.running, "waiting": told.waiting, "loaded": told.loaded}
    labels = {what: _names(names) for what, names in known.items() if names is not None}
    if labels:
        add(f"{OWN}adapters_info", 1, "LoRA adapters with running work, with waiting work, and loaded; by label.", **labels)


def _add_cache(add: _Add, names: Dialect, gauges: Mapping[str, float]) -> None:
    size, blocks = gauges.get("kv_cache_block_size_tokens"), gauges.get("kv_cache_blocks")
    labels = {
        names.block_size_label: "" if size is None else f"{size:.0f}",
        names.blocks_label: "" if blocks is None else f"{blocks:.0f}",
    }
    add(names.cache_info, 1, "Tokens in a block of the KV cache, and blocks in it.", **labels)
    add(names.block_size, size, "Tokens in a block of the KV cache.")
    add(names.blocks, blocks, "Blocks of the KV cache.")


def _names(names: Iterable[str] | None) -> str:
    return ",".join(sorted(names or ()))
