"""What the HTTP front end of a pod counted: requests begun and answered, durations, bytes."""

from __future__ import annotations

from collections import Counter

from exporter.demo.ladders import HTTP_COARSE, HTTP_FINE, MICROS
from exporter.demo.ledger import Tally


class HttpBook:
    """Counts of one API server, which may stand in front of several data-parallel ranks."""

    def __init__(self) -> None:
        self.begun: Counter[tuple[str, str]] = Counter()
        self.answered: Counter[tuple[str, str, int]] = Counter()
        self.request_bytes: Counter[str] = Counter()
        self.response_bytes: Counter[str] = Counter()
        self.seconds = Tally(HTTP_FINE, scale=MICROS)
        self.seconds_by_path: dict[str, Tally] = {}
        self.first_answer: dict[tuple[str, str, int], int] = {}

    def begin(self, path: str, *, method: str = "POST") -> None:
        """A request came in."""
        self.begun[path, method] += 1

    def answer(self, path: str, status: int, *, at: int, took: int, sent: int, got: int) -> None:
        """A generation request was answered at time `at` after `took` (microseconds), with `sent` and `got`
        tokens.
        """
        key = (path, "POST", status)
        self.answered[key] += 1
        self.first_answer.setdefault(key, at)
        self.request_bytes[path] += 180 + 4 * sent
        self.response_bytes[path] += 320 + 5 * got
        self.seconds.observe(took)
        self.seconds_by_path.setdefault(path, Tally(HTTP_COARSE, scale=MICROS)).observe(took)

    def look(self, path: str, status: int = 200) -> None:
        """A page such as /metrics or /health was asked for and answered."""
        self.begin(path, method="GET")
        self.answered[path, "GET", status] += 1
