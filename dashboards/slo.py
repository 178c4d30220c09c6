"""The board of objectives: are users served as promised, and how long does the error budget last?"""

from dataclasses import dataclass

from alerts.burn import budget_left, error_ratio
from alerts.durations import seconds_of
from alerts.model import recorded
from alerts.promql import braces
from alerts.slo import BurnWindow, LatencyObjective, Objective, Settings
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import TO_POOL, alerts, how_to_read, number, restarts
from dashboards.limits import BAD, BUDGET, WARN
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.queries import choices, chosen, who

_CHOSEN = chosen(Level.POOL)
_WHO = who(Level.POOL)
_SILENT = "no data: the recording rules are not loaded, or there were no requests"
_TIMES = "suffix:x"


@dataclass(frozen=True, slots=True)
class _Burns:
    """The fastest and the slowest burn that alerts judge, and all their limits."""

    fast: BurnWindow
    slow: BurnWindow
    limits: tuple[Limit, ...]

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.fast.short, self.fast.long, self.slow.short, self.slow.long)))


def _burns(settings: Settings) -> _Burns:
    ordered = sorted(settings.windows, key=lambda pair: pair.factor)
    factors = sorted({pair.factor for pair in ordered})
    limits = tuple(Limit(factor, BAD if factor == factors[-1] else WARN) for factor in factors)
    return _Burns(ordered[-1], ordered[0], limits)


def _series(part: str, operation: str, **matchers: str) -> str:
    """Selector of what the rules record of objectives: all of them, unless one is matched by `slo`."""
    return recorded(Level.POOL, f"llm_slo_{part}", operation) + braces({**_CHOSEN, **matchers})


def _each(series: str) -> str:
    """One row per objective and pool. A table joins its columns by all labels, and recorded names differ."""
    return f"max by ({', '.join((*LEVEL_LABELS[Level.POOL], 'slo'))}) ({series})"


def _burn(window: str, **matchers: str) -> str:
    """How many times faster than it refills the budget is spent, over a window."""
    return f"{_series('error', f'ratio{window}', **matchers)} / (1 - {_series('objective', 'ratio', **matchers)})"


def _now(settings: Settings) -> Row:
    panels = []
    for one in settings.objectives:
        text = f"Error budget of {one.title} left over {settings.budget_window}, in the worst pool; overspent below 0."
        query = Query(f"min({budget_left(one, **_CHOSEN)})")
        panels.append(number(one.title[0].upper() + one.title[1:], text, "error-budget", query, unit="percentunit", limits=BUDGET,
                             below=BAD, silent=_SILENT, width=6))  # fmt: skip
    return Row(title="Budget left, worst pool", panels=tuple(panels))


def _all(settings: Settings) -> Row:
    burns, window = _burns(settings), settings.budget_window
    lasts = f"clamp_min({_series('budget', 'left')}, 0) * {seconds_of(window)} / ({_burn(burns.slow.short)} > 0)"
    colored = (burns.limits[0], burns.limits[-1])
    columns = (
        Query(_each(_series("objective", "ratio")), "Objective", "percentunit"),
        Query(f"1 - {_series('error', f'ratio{window}')}", "Good", "percentunit"),
        Query(_each(_series("budget", "left")), "Budget left", "percentunit", BUDGET, BAD),
        *(Query(_burn(span), f"Burn {span}", _TIMES, colored) for span in burns.windows),
        Query(lasts, "Lasts", "dtdurations"),
    )
    text = (
        "Every objective of every pool. Burn: how many times faster than it refills the budget is spent, over a window. "
        f"Lasts: until the budget is gone if the burn of the last {burns.slow.short} goes on."
    )
    link = Link(title=TO_POOL.title, board=TO_POOL.board, column="pool")
    table = Panel("Objectives now", text, "objectives", draw=Draw.TABLE, queries=columns, links=(link,), first=("pool", "slo"),
                  sort="-Budget left", silent=_SILENT, width=24, height=10)  # fmt: skip
    return Row(title="Objectives: which one is at risk", panels=(table,))


def _of(objective: Objective, settings: Settings) -> Row:
    """One objective over time."""
    slo, burns = objective.slug, _burns(settings)
    short, long = burns.fast.short, burns.fast.long
    share = f"{objective.objective * 100:g}%"
    bound = f" within {objective.bound_seconds:g} s" if isinstance(objective, LatencyObjective) else ""
    now, budget = error_ratio(objective, short, **_CHOSEN), f"max(1 - {_series('objective', 'ratio', slo=slo)})"
    total = f"{_series('total', f'increase{short}', slo=slo)} / {seconds_of(short)}"
    good = f"{_series('good', f'increase{short}', slo=slo)} / {seconds_of(short)}"
    burn = Query(_burn(long, slo=slo), _WHO)
    left = Query(budget_left(objective, **_CHOSEN), _WHO)
    return Row(
        title=f"{objective.title[0].upper()}{objective.title[1:]}: {share}{bound}",
        panels=(
            Panel(f"Bad events, {slo}", f"Share of the {objective.events} of the last {short} that {objective.missed}, and "
                  "the share that may be.", "objectives", queries=(Query(now, _WHO), Query(budget, "may be")), unit="percentunit",
                  silent=_SILENT, links=(TO_POOL,), width=6),
            Panel(f"Burn rate, {slo}", f"How many times faster than it refills the budget is spent, over {long}. The lines "
                  "are where alerts begin.", "objectives", queries=(burn,), unit=_TIMES, limits=burns.limits, silent=_SILENT,
                  links=(TO_POOL,), width=6),
            Panel(f"Budget left, {slo}", f"Over {settings.budget_window}; below 0 the objective is missed.", "error-budget",
                  queries=(left,), unit="percentunit", signed=True, silent=_SILENT, links=(TO_POOL,), width=6),
            Panel(f"Events, {slo}", f"All {objective.events} per second, and the good ones.", "objectives",
                  queries=(Query(total, f"{_WHO} all"), Query(good, f"{_WHO} good")), unit="ops", silent=_SILENT, width=6),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
An objective says which share of events must be good over {window}; what may be bad is the error budget. *Burn* 1 spends exactly
the budget; at {factor:g} all of {window} is gone in about {hours:.0f} hours, which is worth waking somebody. A budget below 0 is
a missed objective: reliability goes before features.

An alert needs both a long and a short window above its line, so a short peak does not page and an alert ends soon after its
cause. Pools without requests have no numbers: idle is neither good nor bad. Objectives are set for the alerting rules, see
docs/alerts.md."""


def slo(settings: Settings) -> Board:
    """The board of objectives."""
    factor, window = _burns(settings).fast.factor, settings.budget_window
    reading = _HOW_TO_READ.format(window=window, factor=factor, hours=seconds_of(window) / 3600 / factor)
    rows = (_of(one, settings) for one in settings.objectives)
    return Board(
        uid="llm-slo",
        title="LLM objectives",
        question="Are users served as promised, and how long does the error budget last?",
        variables=choices(Level.POOL),
        rows=(_now(settings), _all(settings), *rows, how_to_read(reading, "objectives")),
        annotations=(alerts(Level.POOL), *restarts(Level.POOL)),
    )
