"""How an engine describes its page: aliases of each signal as data, traps as small functions."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.model import Adapters
from collector.page import Page, Sample
from collector.reasons import Oddity

HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
_LARGEST = 2.0**63
"""No engine counts further; a larger number is a fault, and one that would overflow the sums it is added to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRule:
    """One family that feeds a counter of the table.

    `aliases`: sample names without prefix, first present wins. `child` is fixed, or read from `child_label` through
    `children` (values not listed become `other_child`; "" leaves them out). `only` keeps rows whose label has one of the
    values. `zero_beside`: a family beside which absence means that nothing was counted yet. `unless`: a better family beside
    which this rule does not apply.
    """

    signal: str
    aliases: tuple[str, ...]
    child: str = ""
    child_label: str = ""
    children: Mapping[str, str] = field(default_factory=dict)
    other_child: str = ""
    only: tuple[str, frozenset[str]] | None = None
    zero_beside: str = ""
    unless: str = ""


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


def no_capacity(_: Lookup) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine: everything the pipeline needs to know of its pages.

    `rank_label` names the label that tells data-parallel ranks apart; rows that differ only in `copy_labels` repeat one
    number. `from_zero`: signals that every version supplies, so that their totals start at a true zero.
    `capacity` gives KV-cache tokens by rank, "" being the whole page. `special` names the families behind the signals that such
    functions supply. `extra` and `bare` are further names that are read, with
    and without the prefix; `unused` are families that are known and left unread.
    """

    name: str
    prefixes: tuple[str, ...]
    gauges: Mapping[str, tuple[str, ...]]
    counters: tuple[CounterRule, ...]
    histograms: Mapping[str, tuple[str, ...]]
    progress: tuple[str, ...]
    from_zero: frozenset[str]
    rank_label: str = ""
    copy_labels: frozenset[str] = frozenset()
    total_row_label: str = ""
    capacity: Callable[[Lookup], Mapping[str, float]] = no_capacity
    adapters: Callable[[Lookup], Adapters | None] = no_adapters
    special: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()

    @property
    def families(self) -> frozenset[str]:
        """Names without prefix that make a page this engine's."""
        return frozenset((*_flat(self.gauges.values()), *_flat(rule.aliases for rule in self.counters), *self.progress,
                          *_flat(self.histograms.values()), *_flat(self.special.values()), *self.extra))  # fmt: skip

    def wanted(self) -> frozenset[str]:
        """Sample names as they stand on the wire, in every prefix."""
        parts = [base + part for base in _flat(self.histograms.values()) for part in HISTOGRAM_PARTS]
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
