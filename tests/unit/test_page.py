"""The page reader alone: both text formats, line by line, and what is refused."""

import math

import pytest

from collector.page import Page, read_page
from collector.reasons import FailureReason, Oddity, ReadError

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read(text: str, content_type: str = "text/plain; version=0.0.4") -> Page:
    return read_page(text.encode(), content_type)


def only(text: str, content_type: str = "text/plain; version=0.0.4") -> tuple[str, dict[str, str], float]:
    """Name, labels and value of a page's one sample, nothing left out."""
    page = read(text, content_type)
    assert not page.oddities
    [(name, [sample])] = page.samples.items()
    return name, dict(sample.labels), sample.value


@pytest.mark.parametrize(("text", "value"), [
    ("1", 1.0), ("-0.5", -0.5), ("+3", 3.0), ("1.", 1.0), (".5", 0.5), ("1e+15", 1e15), ("1.7e-05", 1.7e-05),
    ("1.7959837202571225e+09", 1795983720.2571225), ("00012", 12.0), ("18446744073709551614", 18446744073709551614.0),
    ("1e999", math.inf), ("+Inf", math.inf), ("-Inf", -math.inf), ("inf", math.inf), ("Infinity", math.inf), ("INF", math.inf),
])  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    assert only(f"m {text}\n") == ("m", {}, value)


@pytest.mark.parametrize("text", ["NaN", "nan", "NAN"])
def test_not_a_number_is_read_as_such(text: str) -> None:
    assert math.isnan(only(f"m {text}\n")[2])


@pytest.mark.parametrize("line", [
    "m 1", "m\t1", "m  1  ", "\tm 1", "m{} 1", "m{ } 1", "m {} 1", "m{}1", "m 1 1700000000000", "m 1\t-5", "m{} 1 17", "m 1\r",
    'm 1 # {trace_id="ab"} 0.5', 'm{} 1 17 # {trace_id="a } # { b"} 0.5 1.5',
])  # fmt: skip
def test_spellings_of_one_sample(line: str) -> None:
    assert only(line + "\n") == ("m", {}, 1.0)
    assert only(line) == ("m", {}, 1.0)
    assert only(f"# TYPE m gauge\n{line}\n# EOF\n", OPENMETRICS) == ("m", {}, 1.0)


@pytest.mark.parametrize(("text", "value"), [
    (r"a\"b", 'a"b'), (r"a\\", "a\\"), (r"a\nb", "a\nb"), (r"a\\nb", r"a\nb"), (r"a\tb", r"a\tb"), ("a,b={c}", "a,b={c}"),
    ("} 7", "} 7"), ("a # {b", "a # {b"), ("{'x': None, 'y': [1]}", "{'x': None, 'y': [1]}"), ("", ""), (" a ", " a "),
    ("日本 é", "日本 é"), ("a\rb", "a\rb"), ("a\u2028b", "a\u2028b"), ("# HELP", "# HELP"), ("a\tb", "a\tb"),
])  # fmt: skip
@pytest.mark.parametrize("end", ["", ",", ' , other="1" ,', ',other="}"'])
@pytest.mark.parametrize("exemplar", ["", ' # {x="y"} 2'])
def test_label_values(text: str, value: str, end: str, exemplar: str) -> None:
    name, labels, number = only(f'm{{ label = "{text}"{end}}} 5{exemplar}\n')
    assert (name, labels["label"], number) == ("m", value, 5.0)
    assert labels.get("other") in (None, "1", "}")


BAD_LINES = (
    "word", "word1", "http2", "e2e99", "m_inf", "m:nan", "m{", 'm{a="1"', 'm{a="1"}', 'm{a="1"} ', 'm{a="1"} x', "m x", "m 1 x",
    "m 1 2 3", "m 1,5", "m 1_000", "m 0x10", "m 1e", "m e5", "m --1", "m ٣", "1m 1", "m-n 1", '{a="1"} 1', "m{a=b} 1",
    "m{a='b'} 1", 'm{a="1"b="2"} 1', 'm{a="1",,b="2"} 1', 'm{a="1",a="2"} 1', 'm{="1"} 1', 'm{1a="1"} 1', 'm{a} 1', "m{,} 1",
    'm{a="1"}} 1', 'm{a="1"}{b="2"} 1', 'm{a="1\\"} 1', 'm{a="1"} 1 # note', "m 1 # note", "m 1 #", "m = 1", 'm{a="1" 1', "m,1",
    "\x00", "m\u00a01", "m+1", "m.5",
)  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_costs_only_itself(line: str) -> None:
    page = read(f'# TYPE good gauge\ngood{{a="1"}} 1\n{line}\ngood{{a="2"}} 2\n')
    assert {name: [sample.value for sample in rows] for name, rows in page.samples.items()} == {"good": [1.0, 2.0]}
    assert page.oddities == {Oddity.BAD_LINE: 1}


@pytest.mark.parametrize("comment", [
    "#", "# ", "##", "# HELP", "# TYPE", "# HELP good", "# HELP good  ", "# TYPE good", "# TYPE good gauge",
    "# TYPE good counter",
    "# HELP good a \\n b \\ c", "# just words", "#TYPE good summary", "# UNIT good seconds",
    '# TYPE "my.name" gauge', "# TYPE é x",
    "# HELP good 1 # {}", "#\ttabs", "# EOF",
])  # fmt: skip
def test_a_comment_can_never_fail_a_page(comment: str) -> None:
    page = read(f"# TYPE good gauge\n{comment}\ngood 1\n{comment}\n{comment}\ngood 2\n")
    assert [sample.value for sample in page.samples["good"]] == [1.0, 2.0]
    assert page.types["good"] == "gauge"
    assert not page.oddities


def test_a_huge_line_of_quotes_is_read_in_linear_time() -> None:
    page = read('m{a="' + '\\"{,=' * 200_000 + "\nm 1\n")
    assert [sample.value for sample in page.samples["m"]] == [1.0]
    assert page.oddities == {Oddity.BAD_LINE: 1}


def test_only_wanted_names_are_read() -> None:
    page = read_page(b"# TYPE a gauge\na 1\nb 2\na_b 3\n", "text/plain", wanted={"a"})
    assert list(page.samples) == ["a"]
    assert not page.oddities


@pytest.mark.parametrize(("body", "content_type"), [
    (b"<!doctype html><p>sign in</p>", "text/html; charset=utf-8"), (b"<html>", ""), (b"  \n<html>", "text/plain"),
    (b'{"detail":"Not Found"}', "application/json"), (b'{"error": 1}', ""), (b"[]", "text/plain"), (b"m 1\n", "TEXT/HTML"),
    (b"Not Found", "text/plain"), (b"not found\nat all\n", ""), (b"\x1f\x8b\x08\x00\x00\x00", "text/plain"),
    (b"OK", "text/plain"),
])  # fmt: skip
@pytest.mark.parametrize("wanted", [None, frozenset({"m"})])
def test_a_page_that_is_no_metrics_page_is_refused(body: bytes, content_type: str, wanted: frozenset[str] | None) -> None:
    with pytest.raises(ReadError) as refusal:
        read_page(body, content_type, wanted=wanted)
    assert refusal.value.reason is FailureReason.NOT_METRICS


@pytest.mark.parametrize("body", ["", "\n\n", "# HELP a b\n", "# TYPE a gauge\n"])
def test_an_empty_page_is_a_metrics_page(body: str) -> None:
    assert read(body).samples == {}


@pytest.mark.parametrize("text", ["a 1\nb 2\n", "# TYPE a gauge\na 1\n", "", "a 1\n# EOF b\n"])
def test_a_cut_openmetrics_page_is_malformed(text: str) -> None:
    with pytest.raises(ReadError) as refusal:
        read(text, OPENMETRICS)
    assert refusal.value.reason is FailureReason.MALFORMED


@pytest.mark.parametrize("content_type", [OPENMETRICS, "", "text/plain"])
def test_openmetrics_is_read_under_any_content_type(content_type: str) -> None:
    text = '# TYPE a counter\na_total 1.5 1700000000.123 # {id="7"} 1 1.5\na_created 1.7e9\n# EOF\n'
    assert {name: rows[0].value for name, rows in read(text, content_type).samples.items()} == {
        "a_total": 1.5,
        "a_created": 1.7e9,
    }


def test_the_body_need_not_be_utf8() -> None:
    page = read_page(b'm{a="\xff\xfe"} 1\nm{a="b"} 2\n', "text/plain")
    assert [sample.value for sample in page.samples["m"]] == [1.0, 2.0]
