"""Numbers print as the engines print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.demo.pages.text import python_number, rust_number

PAGES = Path(__file__).parents[1] / "pages"
CAPTURES = Path(__file__).parents[2].parent / "shared" / "captures"


@pytest.mark.parametrize("name", ["vllm-0.32.0-load-queued.prom", "sglang-0.5.23-load-queued.prom"])
def test_python_numbers_print_as_recorded(name: str) -> None:
    for line in (PAGES / name).read_text().splitlines():
        if not line.startswith("#"):
            printed = line.rpartition(" ")[2]
            assert python_number(float(printed)) == printed


def test_rust_numbers_print_as_recorded() -> None:
    path = CAPTURES / "tgi-recorded-by-others.prom"
    if not path.exists():
        pytest.skip(f"no recorded page at {path}")
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            printed = line.rpartition(" ")[2]
            assert rust_number(float(printed)) == printed


def test_special_numbers() -> None:
    assert [python_number(value) for value in (0, 12.5, 1e15, float("inf"), float("nan"))] == [
        "0.0",
        "12.5",
        "1e+15",
        "+Inf",
        "NaN",
    ]
    assert [rust_number(value) for value in (0, 12.0, 2.5e-06)] == ["0", "12", "0.0000025"]
