"""A board that reads CloudWatch, as data."""

from dataclasses import dataclass

from dashboards.cloudwatch.lines import Choice
from dashboards.model import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A board whose queries are lines. `name` is that of the dashboard in CloudWatch and never changes."""

    name: str
    board: Board
    choices: tuple[Choice, ...]
    """In Grafana each narrows the next."""

    chosen: tuple[str, ...]
    """Dimensions that can be chosen in CloudWatch itself, where one choice cannot narrow another."""

    intro: str
    """What the board is, in a sentence or two of Markdown."""
