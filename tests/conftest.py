"""Shared fixtures: recorded pages, a clock moved by hand, and one way from a page to its reading."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from collector.clock import Instant
from collector.model import Reading, Target
from collector.read import Body, understand
from collector.signals import Lane

TESTS = Path(__file__).parent

# The same examples at each run, so that a change is judged by itself; HYPOTHESIS_PROFILE=search looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing with them")


@dataclass(slots=True)
class FakeClock:
    """Time that stands still until a test moves it."""

    mono: float = 1000.0
    wall: float = 1_800_000_000.0

    def now(self) -> Instant:
        return Instant(mono=self.mono, wall=self.wall)

    def advance(self, seconds: float) -> Instant:
        self.mono += seconds
        self.wall += seconds
        return self.now()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def pages() -> Path:
    """Folder of the recorded pages."""
    return TESTS / "pages"


@pytest.fixture(scope="session")
def target() -> Target:
    return Target(url="http://10.0.0.1:8000/metrics", namespace="serving", pool="tiny", pod="tiny-0")


Understand = Callable[..., Reading]


@pytest.fixture(scope="session")
def understand_page(pages: Path, target: Target) -> Understand:
    """A page (bytes, text, or the name of a recorded one without `.prom`) to its reading; ReadError when it is none."""

    def read_one(
        page: str | bytes, *, at: Instant | None = None, lane: Lane = Lane.FULL, content_type: str = "text/plain",
        target: Target = target,
    ) -> Reading:  # fmt: skip
        if isinstance(page, str):
            page = page.encode() if "\n" in page or not page else (pages / f"{page}.prom").read_bytes()
        return understand(target, lane, Body(page, content_type), at=at or Instant(1000.0, 1_800_000_000.0))

    return read_one
