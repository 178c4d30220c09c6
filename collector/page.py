"""The page reader: bytes of a metrics page to samples, in either text format.

Strict where a wrong guess would make a wrong number, lenient where only itself is lost: a bad line is counted and skipped, a
comment can never fail a page. Text format 0.0.4 and OpenMetrics 1.0, as their specifications say.
"""

import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from collector.reasons import FailureReason, Oddity, ReadError

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a page: its labels and its value (finite or not, as printed)."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    """Samples by the name on the wire, declared types by family name, and what was left out.

    `damaged`: sample names of which a line was left out, so that the rest is not taken for all there is.
    """

    samples: Mapping[str, list[Sample]]
    types: Mapping[str, str]
    oddities: Counter[Oddity] = field(default_factory=Counter)
    damaged: frozenset[str] = frozenset()
    whole: bool = True
    """False where nothing told that the page was complete."""


_LINE = re.compile(
    r"""
    ([a-zA-Z_:][a-zA-Z0-9_:]*+)
    (?: [ \t]*+ \{ ( (?: [^"{}] | "(?:[^"\\]|\\.)*+" )*+ ) \} [ \t]*+ | [ \t]++ )
    ([^ \t{}"\#]+)
    (?: [ \t]+ -?[0-9.eE+-]+ )?             # time stamp
    (?: [ \t]+ \# [ \t]* \{ .* )?           # exemplar
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*+)"[ \t]*(?:,|$)')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


MOST_LINES = 50_000
"""The most lines of a page; the largest engine pages have a fifth. All targets wait while one page is read."""

_heads: dict[str, tuple[str, Labels]] = {}
"""What stands before the number of a line, already read: pages repeat it at each look, and pods of one model share it."""

_MOST_HEADS = 1 << 16
_LONGEST_LINE = 1 << 16
_LONGEST_VALUE = 1024
_MOST_BAD_LINES = 1000


def read_page(body: bytes, content_type: str = "", *, wanted: Container[str] | None = None) -> Page:
    """Read a page; `wanted` limits it to those sample names (default all).

    ReadError: `not_metrics` for HTML, JSON and the like, `malformed` for a cut OpenMetrics page or one of rubbish,
    `body_too_large` for more lines than any engine prints.
    """
    if body.count(b"\n") > MOST_LINES:
        raise ReadError(FailureReason.BODY_TOO_LARGE, f"more than {MOST_LINES} lines")
    text = body.decode("utf-8", errors="replace")
    _refuse_other_formats(text, content_type)
    if "openmetrics" in content_type.lower() and not text.rstrip().endswith("# EOF"):
        raise ReadError(FailureReason.MALFORMED, "OpenMetrics page without the closing '# EOF': it was cut short")
    samples: dict[str, list[Sample]] = {}
    types: dict[str, str] = {}
    oddities: Counter[Oddity] = Counter()
    damaged: set[str] = set()
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if not line:
            continue
        if line[0] == "#":
            _note_type(line, types)
            continue
        head, _, number = line.rpartition(" ")
        if (known := _heads.get(head)) is not None and number.isascii() and _NUMBER.fullmatch(number):
            name_known, labels = known
            if wanted is None or name_known in wanted:
                samples.setdefault(name_known, []).append(Sample(labels, float(number)))
            continue
        name = _NAME.match(line)
        if wanted is not None and name and name[0] not in wanted:
            continue
        parsed = _read_line(line, head)
        if parsed is None:
            oddities[Oddity.BAD_LINE] += 1
            damaged |= {name[0]} if name else set()
            if oddities[Oddity.BAD_LINE] > _MOST_BAD_LINES:
                raise ReadError(FailureReason.MALFORMED, f"more than {_MOST_BAD_LINES} lines are no metric samples")
        else:
            samples.setdefault(parsed[0], []).append(parsed[1])
    if wanted is not None and not samples and not types:
        # All was skipped unread: look again, to tell another's metrics page from no metrics page.
        return read_page(body, content_type)
    bad, good = oddities[Oddity.BAD_LINE], sum(map(len, samples.values()))
    if wanted is None and not types and bad > good:
        raise ReadError(FailureReason.NOT_METRICS, f"not a metrics page: {bad} of {bad + good} lines are no metric samples")
    return Page(samples, types, oddities, frozenset(damaged))


def _refuse_other_formats(text: str, content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    start = text.lstrip()[:1]
    if kind in ("text/html", "application/json", "application/xml", "text/xml") or start in ("<", "{", "["):
        raise ReadError(FailureReason.NOT_METRICS, f"expected a metrics page, got {kind or 'a body that starts with ' + start!r}")


def _note_type(line: str, types: dict[str, str]) -> None:
    words = line.split(None, 3)
    if len(words) == 4 and words[0] == "#" and words[1] == "TYPE":
        types.setdefault(words[2], words[3].strip())


def _read_line(line: str, head: str) -> tuple[str, Sample] | None:
    match = _LINE.fullmatch(line) if len(line) <= _LONGEST_LINE else None
    if match is None:
        return None
    name, label_text, number = match.groups()
    labels = read_labels(label_text) if label_text else {}
    if labels is None or _NUMBER.fullmatch(number) is None:
        return None
    if match.start(3) == len(head) + 1 and match.end() == match.end(3):
        if len(_heads) >= _MOST_HEADS:
            _heads.clear()
        _heads[head] = (name, labels)
    return name, Sample(labels, float(number))


def read_labels(text: str) -> dict[str, str] | None:
    """Labels between the braces, unescaped; None when they are malformed, too long, or one name stands twice."""
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            return labels if not text[position:].strip() else None
        name, value = match.groups()
        if name in labels or len(value) > _LONGEST_VALUE:
            return None
        labels[name] = _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[0]), value) if "\\" in value else value
        position = match.end()
    return labels
