"""The board of objectives: are users served as promised, and how long does the error budget last?"""

from alerts.burn import budget_left, error_ratio
from alerts.durations import seconds_of
from alerts.model import recorded
from alerts.promql import braces
from alerts.slo import BUDGET_WINDOW, BURN_WINDOWS, OBJECTIVES, LatencyObjective, Objective
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.kinds import BAD, BUDGET, TO_POOL, WARN, alerts, how_to_read, number, restarts
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.queries import choices, chosen, who

_CHOSEN = chosen(Level.POOL)
_WHO = who(Level.POOL)
_SILENT = "no data: the recording rules are not loaded, or there were no requests"
_FACTORS = tuple(sorted({pair.factor for pair in BURN_WINDOWS}))
_BURN = (Limit(_FACTORS[0], WARN), Limit(_FACTORS[-1], BAD))
_TIMES = "suffix:x"
_ANY = BURN_WINDOWS[0]
_SLOW = BURN_WINDOWS[-1]


def _series(part: str, operation: str, **matchers: str) -> str:
    """Selector of what the rules record of objectives: all of them, unless one is matched by `slo`."""
    return recorded(Level.POOL, f"llm_slo_{part}", operation) + braces({**_CHOSEN, **matchers})


def _each(series: str) -> str:
    """One row per objective and pool. A table joins its columns by all labels, and recorded names differ."""
    return f"max by ({', '.join((*LEVEL_LABELS[Level.POOL], 'slo'))}) ({series})"


def _burn(window: str, **matchers: str) -> str:
    """How many times faster than it refills the budget is spent, over a window."""
    return f"{_series('error', f'ratio{window}', **matchers)} / (1 - {_series('objective', 'ratio', **matchers)})"


def _now() -> Row:
    panels = []
    for one in OBJECTIVES:
        text = f"Error budget of {one.title} left over {BUDGET_WINDOW}, in the worst pool; overspent below 0."
        query = Query(f"min({budget_left(one, **_CHOSEN)})")
        panels.append(number(one.title[0].upper() + one.title[1:], text, "error-budget", query, unit="percentunit", limits=BUDGET,
                             below=BAD, silent=_SILENT, width=6))  # fmt: skip
    return Row(title="Budget left, worst pool", panels=tuple(panels))


def _all() -> Row:
    lasts = f"clamp_min({_series('budget', 'left')}, 0) * {seconds_of(BUDGET_WINDOW)} / ({_burn(_SLOW.short)} > 0)"
    columns = (
        Query(_each(_series("objective", "ratio")), "Objective", "percentunit"),
        Query(f"1 - {_series('error', f'ratio{BUDGET_WINDOW}')}", "Good", "percentunit"),
        Query(_each(_series("budget", "left")), "Budget left", "percentunit", BUDGET, BAD),
        *(Query(_burn(window), f"Burn {window}", _TIMES, _BURN) for window in (_ANY.short, _ANY.long, _SLOW.short, _SLOW.long)),
        Query(lasts, "Lasts", "dtdurations"),
    )
    text = (
        "Every objective of every pool. Burn: how many times faster than it refills the budget is spent, over a window. "
        f"Lasts: until the budget is gone if the burn of the last {_SLOW.short} goes on."
    )
    link = Link(title=TO_POOL.title, board=TO_POOL.board, column="pool")
    table = Panel("Objectives now", text, "objectives", draw=Draw.TABLE, queries=columns, links=(link,), first=("pool", "slo"),
                  sort="-Budget left",
                  silent=_SILENT, width=24, height=10)  # fmt: skip
    return Row(title="Objectives: which one is at risk", panels=(table,))


def _of(objective: Objective) -> Row:
    """One objective over time."""
    slo = objective.slug
    share = f"{objective.objective * 100:g}%"
    bound = f" within {objective.bound_seconds:g} s" if isinstance(objective, LatencyObjective) else ""
    now, budget = error_ratio(objective, _ANY.short, **_CHOSEN), f"max(1 - {_series('objective', 'ratio', slo=slo)})"
    total = f"{_series('total', f'increase{_ANY.short}', slo=slo)} / {seconds_of(_ANY.short)}"
    good = f"{_series('good', f'increase{_ANY.short}', slo=slo)} / {seconds_of(_ANY.short)}"
    burn = Query(_burn(_ANY.long, slo=slo), _WHO)
    left = Query(budget_left(objective, **_CHOSEN), _WHO)
    lines = tuple(Limit(factor, WARN if factor < _FACTORS[-1] else BAD) for factor in _FACTORS)
    return Row(
        title=f"{objective.title[0].upper()}{objective.title[1:]}: {share}{bound}",
        panels=(
            Panel(f"Bad events, {slo}", f"Share of the {objective.events} of the last {_ANY.short} that {objective.missed}, and "
                  "the share that may be.", "objectives", queries=(Query(now, _WHO), Query(budget, "may be")), unit="percentunit",
                  silent=_SILENT, links=(TO_POOL,), width=6),
            Panel(f"Burn rate, {slo}", f"How many times faster than it refills the budget is spent, over {_ANY.long}. The lines "
                  "are where alerts begin.", "objectives", queries=(burn,), unit=_TIMES, limits=lines, silent=_SILENT,
                  links=(TO_POOL,), width=6),
            Panel(f"Budget left, {slo}", f"Over {BUDGET_WINDOW}; below 0 the objective is missed.", "error-budget",
                  queries=(left,), unit="percentunit", signed=True, silent=_SILENT, links=(TO_POOL,), width=6),
            Panel(f"Events, {slo}", f"All {objective.events} per second, and the good ones.", "objectives",
                  queries=(Query(total, f"{_WHO} all"), Query(good, f"{_WHO} good")), unit="ops", silent=_SILENT, width=6),
        ),
    )  # fmt: skip


_HOW_TO_READ = f"""\
An objective says which share of events must be good over {BUDGET_WINDOW}; what may be bad is the error budget. *Burn* 1 spends
exactly the budget; at {_FACTORS[-1]:g} a whole month's budget is gone in about two days, which is worth waking somebody. A budget
below 0 is a missed objective: reliability goes before features.

An alert needs both a long and a short window above its line, so a short peak does not page and an alert ends soon after its
cause. Pools without requests have no numbers: idle is neither good nor bad. Objectives are set for the alerting rules, see
docs/alerts.md."""

SLO = Board(
    uid="llm-slo",
    title="LLM objectives",
    question="Are users served as promised, and how long does the error budget last?",
    variables=choices(Level.POOL),
    rows=(_now(), _all(), *(_of(one) for one in OBJECTIVES), how_to_read(_HOW_TO_READ, "objectives")),
    annotations=(alerts(Level.POOL), *restarts(Level.POOL)),
)
