"""The page reader against prometheus-client's text parser: on every recorded page and on generated ones.

Two quirks of the referee are undone: it appends `_total` to counters that lack it (so it is told that they are gauges), and
keeps whole numbers as `int`.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from collector.page import Page, read_page
from collector.reasons import Oddity, ReadError

PAGES = Path(__file__).parents[1] / "pages"
TEXT_PAGES = sorted(str(path.relative_to(PAGES)) for path in PAGES.rglob("*.prom") if "openmetrics" not in path.name)

Row = tuple[str, tuple[tuple[str, str], ...], str]


def ours(page: Page) -> Counter[Row]:
    return Counter((name, tuple(sorted(sample.labels.items())), repr(sample.value))
                   for name, rows in page.samples.items() for sample in rows)  # fmt: skip


def referees(text: str) -> Counter[Row]:
    typed_as_gauges = re.sub(r"^([ \t]*#[ \t]+TYPE[ \t]+\S+[ \t]+)counter", r"\1gauge", text, flags=re.MULTILINE)
    return Counter((sample.name, tuple(sorted(sample.labels.items())), repr(float(sample.value)))
                   for family in text_string_to_metric_families(typed_as_gauges) for sample in family.samples)  # fmt: skip


@pytest.mark.parametrize("name", TEXT_PAGES)
def test_equal_to_the_referee_on_recorded_pages(name: str) -> None:
    body = (PAGES / name).read_bytes()
    page = read_page(body, "text/plain")
    assert ours(page) == referees(body.decode())
    assert not page.oddities
    assert ours(page).total() == sum(1 for line in body.splitlines() if line.strip() and not line.startswith(b"#"))


@pytest.mark.parametrize("name", TEXT_PAGES)
def test_equal_under_other_line_ends(name: str) -> None:
    text = (PAGES / name).read_text()
    whole = ours(read_page(text.encode(), "text/plain"))
    assert ours(read_page(text.replace("\n", "\r\n").encode(), "text/plain")) == whole
    assert ours(read_page(text.rstrip("\n").encode(), "text/plain")) == whole


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True)
TEXTS = st.lists(st.sampled_from([*'ab"\\\n{}=, #\t\réあ\u2028\x0b\x00', " # {", "le", "# EOF"]), max_size=12).map("".join)
NUMBERS = st.one_of(
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: f"{number:.6e}"),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e+15", "0", "-0.0", "1.", ".5", "5E3", "+1", "00.10"]),
)
BLANKS = st.sampled_from([" ", "  ", "\t", " \t"])
ENDS = st.sampled_from(["", " ", "\t"])


@st.composite
def sample_lines(draw: st.DrawFn, name: str) -> str:
    labels = draw(st.dictionaries(LABEL_NAMES, TEXTS, max_size=4))
    parts = []
    for label, value in labels.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        parts.append(f'{draw(st.sampled_from(["", " "]))}{label}{draw(st.sampled_from(["=", " = "]))}"{escaped}"')
    braces = "{" + ",".join(parts) + draw(st.sampled_from(["", ","] if parts else [""])) + "}"
    if not parts and draw(st.booleans()):
        braces = ""
    stamp = draw(st.one_of(st.just(""), st.integers(-(10**13), 10**13).map(lambda at: f" {at}")))
    blank = " " if stamp else draw(BLANKS)
    return f"{name}{braces}{blank}{draw(NUMBERS)}{stamp}{draw(ENDS)}"


@st.composite
def families(draw: st.DrawFn) -> list[str]:
    name = draw(NAMES)
    kind = draw(st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped", "stateset", "x"]))
    comments = [f"# HELP {name} {draw(TEXTS).replace(chr(10), ' ').replace(chr(13), ' ')}", f"# HELP {name}",
                f"# TYPE {name} {kind}", f"# TYPE {name} {kind}", "#", "# ", "# a note", ""]  # fmt: skip
    lines = draw(st.lists(st.sampled_from(comments), max_size=4))
    names = st.sampled_from([name, f"{name}_total", f"{name}_bucket", f"{name}_sum", f"{name}_count"])
    for sample in draw(st.lists(names, max_size=6)):
        lines.append(draw(sample_lines(sample)))
        lines.extend(draw(st.lists(st.sampled_from(comments), max_size=1)))
    return lines


@st.composite
def generated_pages(draw: st.DrawFn) -> str:
    lines = [line for family in draw(st.lists(families(), max_size=5)) for line in family]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(generated_pages())
def test_equal_to_the_referee_on_generated_pages(text: str) -> None:
    try:
        expected = referees(text)
    except (ValueError, IndexError):
        reject()
    page = read_page(text.encode(), "text/plain")
    assert not page.oddities
    assert ours(page) == expected


BAD = st.sampled_from(["word", "http2", "m{", 'm{a="1"', "m x", "m 1 2 3", 'm{a="1",a="2"} 1', "1m 1", 'm{a="1\\"} 1', "m 1_0",
                       'm{a="1"}} 1', "m = 1", "m 1 #"])  # fmt: skip


@SLOW
@given(generated_pages(), st.lists(st.tuples(st.integers(0, 40), BAD), max_size=4))
def test_bad_lines_cost_only_themselves(text: str, bad: list[tuple[int, str]]) -> None:
    whole = ours(read_page(text.encode(), "text/plain"))
    lines = ["# TYPE kept gauge", *text.split("\n")]
    for position, line in bad:
        lines.insert(1 + position % len(lines), line)
    page = read_page("\n".join(lines).encode(), "text/plain")
    assert ours(page) == whole
    assert page.oddities.get(Oddity.BAD_LINE, 0) == len(bad)


@SLOW
@given(st.binary(max_size=200), st.sampled_from(["", "text/plain", "application/openmetrics-text", "application/json"]))
def test_any_bytes_are_read_or_refused(body: bytes, content_type: str) -> None:
    try:
        read_page(body, content_type)
    except ReadError:
        return
