"""What a board is, as data: questions, rows, panels, queries. `dashboards.draw` makes Grafana's JSON of it."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from collector.signals import Level


class Draw(StrEnum):
    """How a panel shows its queries."""

    LINES = "lines"
    STACK = "stack"
    STAT = "stat"
    TABLE = "table"
    HEATMAP = "heatmap"
    TIMELINE = "timeline"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Limit:
    """From this value up a panel or column turns to the colour; on lines it is drawn as a line."""

    value: float
    color: str


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and how its series are called; in a table, `legend` heads the column, which the rest is about."""

    expression: str
    legend: str = ""
    unit: str = ""
    limits: tuple[Limit, ...] = ()
    below: str = "text"


@dataclass(frozen=True, slots=True)
class Named:
    """What a number stands for, in a word and a colour."""

    value: int
    text: str
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From a series or a table's row to another board, with the labels of `level`, the data source and the time.

    `column` is where a table shows it. With `url`, that is where it leads instead.
    """

    title: str
    board: str = ""
    level: Level = Level.POOL
    column: str = ""
    url: str = ""


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

    colors: tuple[tuple[str, str], ...] = ()
    """Fixed colours of series by the last word of their names; in a table, of the words in the column `state`."""

    first: tuple[str, ...] = ()
    """Labels whose columns stand before the numbers of a table; all others stand behind."""

    sort: str = ""
    """The column that a table is sorted by at first, the highest on top; with a `-` before it the lowest."""

    named: tuple[Named, ...] = ()
    links: tuple[Link, ...] = ()
    top: float | None = None
    """Upper end of the scale where the unit has one."""

    signed: bool = False
    """Values below zero have a meaning."""

    silent: str = ""
    """Why the panel may well be empty; it says so itself then."""

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
    """A choice above the board.

    `query` are the values of a label in series that match the choices before it, or for a `fixed` one the values themselves.
    `spelled_out`: All is the list of all values, so that it holds what the choices before it let through; else it is
    anything. `source` instead asks for a data source of that type.
    """

    name: str
    query: str = ""
    _: KW_ONLY
    label: str = ""
    spelled_out: bool = False
    fixed: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Marks on all graphs of a board: where the query is above zero or, with `value_is_time`, at its value in milliseconds."""

    title: str
    expression: str
    color: str
    heading: str
    text: str
    value_is_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One board that answers one question. `uid` is part of links from alerts and never changes."""

    uid: str
    title: str
    question: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...] = ()
    links: tuple[Link, ...] = ()
    """Links at the top, to what is no board."""
