"""What a picker reads from a page, by its own rules, right or wrong: the first series of a family, the newest of adapters. Pure.

Source: the extractor of gateway-api-inference-extension 1.5, whose rules llm-d-router 0.10 keeps.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collector.page import Page, Sample

_COUNTED = frozenset({"gauge", "counter"})


@dataclass(frozen=True, slots=True)
class Read:
    """A number, where it came from, and of how many series it is one; `fault` says why there is none, or a wrong one."""

    family: str
    value: float | None = None
    labels: dict[str, str] | None = None
    series: int = 0
    fault: str = ""


def read_number(page: Page, spec: str) -> Read:
    """The first series that fits `name` or `name{label=value}`; what is neither gauge nor counter reads as 0."""
    family, rows = _rows(page, spec)
    if not rows:
        return Read(family, fault="not on the page")
    first, kind = rows[0], page.types.get(family, "not declared")
    if kind not in _COUNTED:
        return Read(family, 0.0, dict(first.labels), len(rows), f"its type is {kind}, so it reads as 0")
    return Read(family, first.value, dict(first.labels), len(rows))


def read_newest(page: Page, spec: str) -> Read:
    """The series with the highest value, which for adapters is a time."""
    family, rows = _rows(page, spec)
    if not rows:
        return Read(family, fault="not on the page")
    newest = max(rows, key=lambda row: row.value)
    return Read(family, newest.value, dict(newest.labels), len(rows))


def _rows(page: Page, spec: str) -> tuple[str, Sequence[Sample]]:
    family, _, matchers = spec.partition("{")
    wanted = dict(re.findall(r'(\w+)="?([^",}]+)"?', matchers))
    rows = page.samples.get(family, [])
    return family, [row for row in rows if all(row.labels.get(name) == value for name, value in wanted.items())]


def page_faults(content: bytes) -> list[str]:
    """What makes a picker refuse a whole page: it gets nothing from it then."""
    faults = []
    if content and not content.endswith(b"\n"):
        faults.append("the page does not end with a newline")
    declared: set[str] = set()
    sampled: set[str] = set()
    for line in content.decode("utf-8", errors="replace").splitlines():
        words = line.split()
        if line.startswith("# TYPE ") and len(words) > 3:
            if words[2] in declared:
                faults.append(f"the type of {words[2]} is declared twice")
            elif words[2] in sampled:
                faults.append(f"the type of {words[2]} is declared after its samples")
            declared.add(words[2])
        elif line and not line.startswith("#"):
            sampled.add(re.split(r"[{ ]", line, maxsplit=1)[0])
    return faults
