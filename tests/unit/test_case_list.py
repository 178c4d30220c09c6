"""Every known hard case and public fault that pages or CloudWatch can show has a test that carries its number."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = [*range(1, 19), *range(29, 38), *range(40, 48)]
NEED_A_SERVER = {23, 25, 40, 41, 53, 56, 60, 63}
NO_PAGE_SHOWS = {5, 21, 57}
FAULTS = set(range(1, 64)) - NEED_A_SERVER - NO_PAGE_SHOWS


def test_every_case_has_a_test_of_its_number() -> None:
    text = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    named = {int(number) for number in re.findall(r"\b[Aa](\d\d)\b|test_a(\d\d)_", text) for number in number if number}
    assert set(CASES) - named == set()


def test_every_fault_has_a_test_of_its_number() -> None:
    names = re.findall(r"def test_(f\d\d\w*)", "\n".join(path.read_text() for path in TESTS.rglob("test_*.py")))
    named = {int(number) for name in names for number in re.findall(r"(?:^|_)f(\d\d)(?=_)", name)}
    assert FAULTS - named == set()
