"""How an engine describes its page: aliases of each signal as data, traps as small functions."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.model import ALL_CHILDREN, Adapters
from collector.page import Page, Sample
from collector.reasons import Oddity
from collector.signals import SIGNALS

HARMLESS_EXCESS = 1.5
"""A ratio up to this is a rounding or accounting fault and means full; beyond it the number means something else."""

HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
_LARGEST = 2.0**63
"""No engine counts further; a larger number is a fault, and one that would overflow the sums it is added to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One family that feeds a signal of the table.

    `aliases`: names without prefix (of samples; of the family for histograms), first present wins. `child` is fixed, or read
    from `child_label` through `children` (values not listed become `other_child`; "" leaves them out). `only` keeps rows whose
    labels each have one of the values. `zero_beside`: a family beside which absence means that nothing was counted yet.
    `unless`: a better family beside which this rule does not apply. `scale` turns the engine's unit into the table's, `factor`
    does where only the page tells (None: it does not, and the rule does not apply). `parts`: rows that differ in copy labels
    are shares of one number here, not copies.
    """

    signal: str
    aliases: tuple[str, ...]
    child: str = ""
    child_label: str = ""
    children: Mapping[str, str] = field(default_factory=dict)
    other_child: str = ""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    zero_beside: str = ""
    unless: str = ""
    scale: float = 1.0
    factor: Callable[["Lookup"], float | None] | None = None
    parts: bool = False


def plain(**aliases: tuple[str, ...] | str) -> tuple[Rule, ...]:
    """Rules that only name where a signal stands."""
    return tuple(Rule(signal=signal, aliases=(names,) if isinstance(names, str) else names) for signal, names in aliases.items())


@dataclass(frozen=True, slots=True)
class Lookup:
    """An engine's families on one page by name without prefix, and the count of what was left out.

    All values are finite and of a size that sums can bear. A name whose rows were all left out is present with none;
    `damaged` names lost some.
    """

    samples: Mapping[str, Sequence[Sample]]
    declared: frozenset[str]
    oddities: Counter[Oddity]
    damaged: frozenset[str] = frozenset()

    def first(self, aliases: Iterable[str]) -> Sequence[Sample]:
        """Samples of the first alias that is present; none = absent."""
        return next((self.samples[alias] for alias in aliases if alias in self.samples), ())


def no_adapters(_: Lookup) -> Adapters | None:
    return None


def no_numbers(_: Lookup) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine: everything the pipeline needs to know of its pages.

    `rank_label` names the label that tells data-parallel ranks apart; rows that differ only in `copy_labels` repeat one
    number. `total_row_label`: a row where it is empty is the total of the rows beside it. `from_zero`: signals that every
    version supplies, so that their totals start at a true zero. `progress`: counters that move with every step.
    `capacity` gives KV-cache tokens by rank, "" being the whole page; `computed` gives gauges that no single family holds;
    `special` names the families behind what functions supply. `extra` and `bare` are further names that are read, with and
    without the prefix; `unused` are families that are known and left unread. `role_label` tells prefill from decode.
    """

    name: str
    prefixes: tuple[str, ...]
    rules: tuple[Rule, ...]
    progress: tuple[str, ...]
    from_zero: frozenset[str]
    rank_label: str = ""
    copy_labels: frozenset[str] = frozenset()
    total_row_label: str = ""
    role_label: str = ""
    capacity: Callable[[Lookup], Mapping[str, float]] = no_numbers
    computed: Callable[[Lookup], Mapping[str, float]] = no_numbers
    adapters: Callable[[Lookup], Adapters | None] = no_adapters
    special: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset({"process_start_time_seconds"})
    unused: frozenset[str] = frozenset()
    families: frozenset[str] = field(init=False)
    """Names without prefix that make a page this engine's."""

    def __post_init__(self) -> None:
        names = {*self.progress, *self.extra, *_flat(rule.aliases for rule in self.rules), *_flat(self.special.values())}
        object.__setattr__(self, "families", frozenset(names))

    def of(self, signal: str) -> tuple[Rule, ...]:
        """The rules that feed a signal."""
        return tuple(rule for rule in self.rules if rule.signal == signal)

    def told(self, signal: str) -> tuple[str, ...]:
        """Children of a counter that the engine tells apart, in the order of the table."""
        children: set[str] = set()
        for rule in self.of(signal):
            fixed = "other" if rule.child == ALL_CHILDREN else rule.child
            children |= {*rule.children.values(), rule.other_child} if rule.child_label else {fixed}
        return tuple(child for child in SIGNALS[signal].children or ("",) if child in children)

    def wanted(self) -> frozenset[str]:
        """Sample names as they stand on the wire, in every prefix."""
        histograms = {alias for rule in self.rules if SIGNALS[rule.signal].ladder for alias in rule.aliases}
        parts = [base + part for base in histograms for part in HISTOGRAM_PARTS]
        return frozenset(prefix + name for prefix in self.prefixes for name in (*self.families, *parts)) | self.bare

    def look(self, page: Page) -> Lookup | None:
        """This engine's view of the page; None when nothing on it is the engine's.

        Where a page repeats itself under two prefixes, the first one with samples is read. Declarations count under any
        prefix: an OpenMetrics page can keep a colon in its comments that its samples have lost.
        """
        families = self.families
        declared = frozenset(name.removeprefix(prefix) for prefix in self.prefixes for name in page.types
                             if name.startswith(prefix))  # fmt: skip
        bare = {name: page.samples[name] for name in self.bare if name in page.samples}
        for prefix in self.prefixes:
            samples = {name.removeprefix(prefix): rows for name, rows in page.samples.items() if name.startswith(prefix)}
            if families & (samples.keys() | {_base(name) for name in samples}):
                damaged = frozenset(name.removeprefix(prefix) for name in page.damaged if name.startswith(prefix))
                return _usable(samples | bare, declared, page.oddities, damaged)
        return _usable(bare, declared, page.oddities, frozenset()) if families & declared else None

    def unknown(self, page: Page) -> int:
        """Number of families on the page under this engine's prefixes that are neither read nor known as unused."""
        known = self.families | self.unused
        names = {name.removeprefix(prefix) for prefix in self.prefixes for name in page.types if name.startswith(prefix)}
        return sum(1 for name in names if not {name, f"{name}_total", name.removesuffix("_created"),
                                               f"{name.removesuffix('_created')}_total"} & known
                   and _base(name) not in known)  # fmt: skip


def _usable(
    samples: Mapping[str, Sequence[Sample]], declared: frozenset[str], oddities: Counter[Oddity], damaged: frozenset[str]
) -> Lookup:
    kept: dict[str, Sequence[Sample]] = dict.fromkeys(damaged, ())
    lost = set(damaged)
    for name, rows in samples.items():
        bad = [row.value for row in rows if not abs(row.value) <= _LARGEST]
        kept[name] = [row for row in rows if abs(row.value) <= _LARGEST] if bad else rows
        lost |= {name} if bad else set()
        for value in bad:
            oddities[Oddity.OUT_OF_RANGE if math.isfinite(value) else Oddity.NOT_FINITE] += 1
    return Lookup(kept, declared, oddities, frozenset(lost))


def _flat(names: Iterable[tuple[str, ...]]) -> list[str]:
    return [name for group in names for name in group]


def _base(sample_name: str) -> str:
    for part in HISTOGRAM_PARTS:
        if sample_name.endswith(part):
            return sample_name.removesuffix(part)
    return sample_name
