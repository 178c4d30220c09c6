"""The text format as each engine's library prints it: numbers, label strings, and pages made of one block for
each family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate

from exporter.demo.ledger import Tally

Number = Callable[[float], str]
Labels = Mapping[str, str]


@lru_cache(maxsize=16_384)
def python_number(value: float) -> str:
    """A number as the Python client library prints it: `3.0`, `1e+06`, `NaN`."""
    plain = repr(float(value))
    if value == math.inf:
        return "+Inf"
    whole, dot, fraction = plain.partition(".")
    if not dot or value <= 0 or len(whole) <= 6 or "e" in plain:
        return "NaN" if value != value else plain
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0.")
    return f"{mantissa}e+{len(whole) - 1:02d}"


@lru_cache(maxsize=16_384)
def rust_number(value: float) -> str:
    """A number as Rust prints it: whole ones bare, never an exponent."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value):
        return str(int(value))
    return format(Decimal(repr(value)), "f")


def escaped(value: str) -> str:
    """A label value with backslash, quote and line break escaped."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def labelled(name: str, labels: Labels) -> str:
    """`name{a="x",b="y"}` in the order given, or the bare name."""
    if not labels:
        return name
    return name + "{" + ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items()) + "}"


def by_name(labels: Labels) -> dict[str, str]:
    """Labels in the order of their names, as the Python client library prints them."""
    return dict(sorted(labels.items()))


@dataclass(frozen=True, slots=True)
class Block:
    """One family: its name and its text, fixed or rendered anew for each page (empty while the engine does
    not show it).
    """

    name: str
    text: str | Callable[[], str]

    def render(self) -> str:
        """The text now."""
        return self.text if isinstance(self.text, str) else self.text()


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    blocks: Sequence[Block]

    def render(self) -> str:
        """All families."""
        return "".join(block.render() for block in self.blocks)

    def restrict(self, names: frozenset[str]) -> str:
        """Only the samples of exactly these names, with the heads of their families: what `name[]` does in
        the Python client library.
        """
        parts = []
        for block in self.blocks:
            if any(name.startswith(block.name) for name in names):
                parts.append(_only(block.render(), names))
        return "".join(parts)


def _only(text: str, names: frozenset[str]) -> str:
    lines = text.splitlines(keepends=True)
    head = [line for line in lines if line.startswith("#")]
    samples = [line for line in lines if not line.startswith("#") and line.partition("{")[0].partition(" ")[0] in names]
    return "".join(head + samples) if samples else ""


def head(name: str, kind: str, help_text: str) -> str:
    """HELP and TYPE lines; no HELP line where the text is empty."""
    described = f"# HELP {name} {help_text}\n" if help_text else ""
    return f"{described}# TYPE {name} {kind}\n"


Read = Callable[[], float]
Rows = Callable[[], Iterable[tuple[str, float]]]


def fixed(name: str, kind: str, help_text: str, samples: Iterable[tuple[str, str]]) -> Block:
    """A family that never changes: samples are (name with labels, printed value)."""
    return Block(name, head(name, kind, help_text) + "".join(f"{key} {value}\n" for key, value in samples))


def moving(
    name: str,
    kind: str,
    help_text: str,
    samples: Sequence[tuple[str, Read]],
    *,
    number: Number = python_number,
) -> Block:
    """A family with known samples whose values are read anew for each page."""
    top = head(name, kind, help_text)
    prepared = [(f"{key} ", read) for key, read in samples]

    def text() -> str:
        return top + "".join([f"{key}{number(read())}\n" for key, read in prepared])

    return Block(name, text)


def growing(
    name: str,
    kind: str,
    help_text: str,
    rows: Rows,
    *,
    number: Number = python_number,
    end: str = "",
    always: bool = False,
) -> Block:
    """A family whose samples come into being as things happen; without any it is its head alone when
    `always`, else nothing.
    """
    top = head(name, kind, help_text)

    def text() -> str:
        lines = [f"{key} {number(value)}\n" for key, value in rows()]
        return top + "".join(lines) + end if lines or always else ""

    return Block(name, text)


@dataclass(frozen=True, slots=True)
class HistogramStyle:
    """How a library prints a histogram: its numbers, where sum stands, and where `le` stands among the
    labels.
    """

    number: Number
    sum_first: bool
    le_sorted: bool = True
    count_last: bool = True


SINGLE_PROCESS = HistogramStyle(python_number, sum_first=False, count_last=False)
MULTIPROCESS = HistogramStyle(python_number, sum_first=True)
RUST = HistogramStyle(rust_number, sum_first=False, le_sorted=False)


class HistogramText:
    """The lines of one histogram child (tallies of equal ladders added up), made anew only when it has
    counted something.
    """

    __slots__ = ("_buckets", "_count", "_seen", "_style", "_sum", "_tallies", "_text")

    def __init__(self, name: str, labels: Labels, tallies: Sequence[Tally], style: HistogramStyle) -> None:
        bounds = [*(style.number(bound) for bound in tallies[0].bounds), "+Inf"]
        order: Callable[[Labels], Labels] = by_name if style.le_sorted else lambda given: given
        self._buckets = [labelled(f"{name}_bucket", order({**labels, "le": bound})) + " " for bound in bounds]
        self._count = labelled(f"{name}_count", order(labels)) + " "
        self._sum = labelled(f"{name}_sum", order(labels)) + " "
        self._tallies = tallies
        self._style = style
        self._seen = -1
        self._text = ""

    @property
    def counted(self) -> bool:
        """Whether anything was ever counted."""
        return any(tally.count for tally in self._tallies)

    def render(self) -> str:
        """The lines now."""
        seen = sum(tally.count for tally in self._tallies)
        if seen != self._seen:
            self._seen = seen
            self._text = self._lines()
        return self._text

    def _lines(self) -> str:
        number = self._style.number
        counts = [sum(column) for column in zip(*(tally.counts for tally in self._tallies), strict=True)]
        steps = zip(self._buckets, accumulate(counts), strict=True)
        buckets = "".join([f"{prefix}{number(count)}\n" for prefix, count in steps])
        total = f"{self._sum}{number(sum(tally.total for tally in self._tallies) / self._tallies[0].scale)}\n"
        count = f"{self._count}{number(self._seen)}\n"
        if self._style.sum_first:
            return total + buckets + count
        return buckets + (total + count if self._style.count_last else count + total)


def histogram(name: str, help_text: str, children: Sequence[HistogramText], *, end: str = "", empty: bool = True) -> Block:
    """A histogram family; with `empty` off, children that counted nothing are not there, nor is a family
    without children.
    """
    top = head(name, "histogram", help_text)

    def text() -> str:
        lines = [child.render() for child in children if empty or child.counted]
        return top + "".join(lines) + end if lines else ""

    return Block(name, text)
