"""What a board is, as data: questions, rows, panels, queries. `dashboards.panels` draws it."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum


class Draw(StrEnum):
    """How a panel shows its queries."""

    LINES = "lines"
    STACK = "stack"
    STAT = "stat"
    TABLE = "table"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and how its series are called; in a table, `legend` heads the column."""

    expression: str
    legend: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """From this value up a panel turns to the colour; on lines it is drawn as a line."""

    value: float
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `anchor` is a heading of docs/dashboards.md as a link spells it; `unit` one of Grafana's."""

    title: str
    description: str
    anchor: str
    _: KW_ONLY
    draw: Draw = Draw.LINES
    queries: tuple[Query, ...] = ()
    unit: str = "short"
    limits: tuple[Limit, ...] = ()
    below: str = "green"
    """Colour below the first limit."""

    width: int = 8
    height: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under a heading, laid out left to right; 24 columns wide."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the board: the values of a label, in series that match the choices before it."""

    name: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One board that answers one question. `uid` is part of links from alerts and never changes."""

    uid: str
    title: str
    question: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Query, ...] = ()
