"""The log: one line an event in text, one object a line in JSON, whatever stands in the facts."""

import io
import json
import logging
import re
import shlex
import warnings
from collections.abc import Iterator

import pytest
from botocore.credentials import DeferredRefreshableCredentials

from exporter.log import say, set_up

LOGGER = logging.getLogger("exporter.test")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NASTY = ["two words", 'a "quoted" one', "a=b", "", "line\nbreak", "\r", "\x1b[31mred", "\x9b2J", "tab\there", "\u2028",
        "\u202egnp",
         "\ud800", "\x7f"]  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The root logger as it was, so that other tests keep theirs."""
    root = logging.getLogger()
    handlers, level, shown = root.handlers[:], root.level, warnings.showwarning
    yield
    logging.captureWarnings(False)
    root.handlers, warnings.showwarning = handlers, shown
    root.setLevel(level)


def log(monkeypatch: pytest.MonkeyPatch, *, as_json: bool) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    set_up(as_json=as_json)
    return stream


def test_text_is_time_level_message_and_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = log(monkeypatch, as_json=False)
    say(LOGGER, logging.WARNING, "state changed", pod="h:1", looks=3, url="http://h:1/metrics", city="Köln")
    time, rest = stream.getvalue().split(" ", 1)
    assert TIME.fullmatch(time)
    assert rest == "warning state changed pod=h:1 looks=3 url=http://h:1/metrics city=Köln\n"


@pytest.mark.parametrize("value", NASTY)
def test_text_stays_one_printable_line_that_can_be_split_again(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    stream = log(monkeypatch, as_json=False)
    say(LOGGER, logging.INFO, "event", before="a", value=value, after="b")
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.isprintable()
    match = re.fullmatch(r'\S+ info event before=a value=("(?:[^"\\]|\\.)*") after=b', line)
    assert match is not None
    assert json.loads(match[1]) == value


def test_facts_with_spaces_are_read_by_a_shell_like_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = log(monkeypatch, as_json=False)
    say(LOGGER, logging.INFO, "event", detail="no complete answer within 2 s")
    assert shlex.split(stream.getvalue())[-1] == "detail=no complete answer within 2 s"


@pytest.mark.parametrize("value", [*NASTY, 5, 1.5, None, {"a": {1}}])
def test_json_is_one_object_a_line(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    stream = log(monkeypatch, as_json=True)
    say(LOGGER, logging.INFO, "event", value=value)
    say(LOGGER, logging.ERROR, "next")
    first, second = stream.getvalue().split("\n")[:-1]
    event = json.loads(first, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert list(event)[:3] == ["time", "level", "message"]
    assert (event["level"], event["message"]) == ("info", "event")
    assert TIME.fullmatch(event["time"])
    if isinstance(value, str):
        assert event["value"] == value
    assert json.loads(second)["level"] == "error"


def test_a_traceback_is_part_of_its_line_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = log(monkeypatch, as_json=True)
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError:
        LOGGER.exception("broke: %s", "here")
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event["message"] == "broke: here"
    assert "ZeroDivisionError: oh" in event["trace"]


def test_other_loggers_and_warnings_take_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = log(monkeypatch, as_json=True)
    logging.getLogger("asyncio").error("Task was destroyed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        set_up(as_json=True)
        warnings.warn("old thing", RuntimeWarning, stacklevel=1)
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages[0] == "Task was destroyed"
    assert "old thing" in messages[1]


def test_details_below_the_level_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = log(monkeypatch, as_json=False)
    say(LOGGER, logging.DEBUG, "detail")
    assert stream.getvalue() == ""


def test_credentials_that_cannot_be_fetched_leave_no_trace_at_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a role whose token the identity provider refuses; botocore itself raises the error, which its sink tells."""

    def refused() -> dict[str, str]:
        raise OSError("No OpenIDConnect provider found")

    stream = log(monkeypatch, as_json=False)
    credentials = DeferredRefreshableCredentials(refresh_using=refused, method="assume-role-with-web-identity")
    with pytest.raises(OSError, match="OpenIDConnect"):
        credentials.get_frozen_credentials()
    assert stream.getvalue() == ""
