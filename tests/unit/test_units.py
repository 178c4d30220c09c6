"""Durations and sizes: what people write, what they get wrong, and back again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.units import parse_duration, parse_size, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50ms", 0.05), ("1ms", 0.001), ("1s", 1.0), ("1.5s", 1.5), ("90s", 90.0), ("5m", 300.0), ("0.5m", 30.0), ("2h", 7200.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        "", "s", "1", "1 s", " 1s", "1s\n", "-1s", "+1s", "0s", "0.0ms", "0.1ms", "1S", "1sec", "1d", "1m30s", "1e3s",
        ".5s", "1.s",
        "1,5s", "nan", "inf", "infs", "٣s", "9" * 400 + "s", "8761h", 1, 1.5, None, True, [], {"a": 1},
    ],
)  # fmt: skip
def test_a_bad_duration_says_what_would_be_right(wrong: object) -> None:
    with pytest.raises(ValueError, match="such as 50ms, 1s or 5m, got ") as caught:
        parse_duration(wrong)
    assert len(str(caught.value)) < 160


@pytest.mark.parametrize(("text", "size"), [("1B", 1), ("512KiB", 524288), ("16MiB", 16777216), ("2GiB", 2147483648)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "wrong", ["", "16", "16MB", "16M", "1.5MiB", "0B", "-1B", "16 MiB", "16mib", "9" * 5000 + "B", 16, None, [1], True]
)
def test_a_bad_size_says_what_would_be_right(wrong: object) -> None:
    with pytest.raises(ValueError, match="such as 512KiB or 16MiB, got ") as caught:
        parse_size(wrong)
    assert len(str(caught.value)) < 160


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.05, "50ms"), (0.001, "1ms"), (0.0015, "1.5ms"), (1.0, "1s"), (1.5, "1.5s"), (60.0, "1m"), (90.0, "90s"), (300.0, "5m"),
     (7200.0, "2h"), (1234567.0, "1234567s"), (1234567.5, "1234567.5s")],
)  # fmt: skip
def test_durations_are_shown_as_they_are_written(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@given(st.floats(min_value=0.001, max_value=8760 * 3600.0, allow_nan=False))
def test_what_is_shown_can_be_read_again(seconds: float) -> None:
    assert math.isclose(parse_duration(show_duration(seconds)), seconds, rel_tol=1e-9)
