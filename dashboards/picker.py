"""The picker's view: whom would the endpoint picker choose by load, and why not the others?"""

from alerts.promql import fold_of
from alerts.slo import Settings
from collector.naming import LEVEL_LABELS
from collector.signals import PICKER_WEIGHTS, SCORERS, Lane, Level
from dashboards.kinds import TO_POD, alerts, how_to_read, number, restarts, states
from dashboards.limits import BAD, WARN, Limits
from dashboards.model import Board, Draw, Limit, Link, Panel, Query, Row
from dashboards.queries import Scope, choices, chosen, who, worst

_HERE = Scope(Level.POOL)
_CHOSEN = chosen(Level.POOL)
_PODS = LEVEL_LABELS[Level.POD]
_SHED = (Limit(0.8, WARN), Limit(1, BAD))
_COUNTED = tuple(scorer for scorer in SCORERS if scorer in PICKER_WEIGHTS)
_NO_LOAD = "no pod reports, or its engine does not tell what the scorer needs"
_POD = Link(title="This pod", board="llm-pod", level=Level.POD, column="pod")
_POOL = Link(title="This pool", board="llm-pool", column="pool")
_SHORT = {"queue-scorer": "Queue", "kv-cache-utilization-scorer": "KV cache", "running-requests-size-scorer": "Running",
          "load-aware-scorer": "Load-aware"}  # fmt: skip


def _score(scorer: str) -> str:
    return fold_of("max", "picker_score_ratio", Level.POD, by=_PODS, scorer=scorer, **_CHOSEN)


def _total() -> str:
    """By the picker's default weights, as a share of the most that load can give."""
    parts = " + ".join(f"{PICKER_WEIGHTS[scorer]:g} * {_score(scorer)}" for scorer in _COUNTED)
    return f"({parts}) / {sum(PICKER_WEIGHTS[scorer] for scorer in _COUNTED):g}"


def _of_pod(name: str) -> str:
    return fold_of("max", name, Level.POD, by=_PODS, **_CHOSEN)


def _now(limits: Limits) -> Row:
    blind = _HERE.gauge("sum", "pods", by=(), state="=~stale|down")
    return Row(
        title="Now",
        panels=(
            number("Saturation, as it counts", "Of the fullest pool. From 1 on the picker refuses sheddable requests; with flow "
                   "control it holds all back.", "picker-saturation", _HERE.gauge("max", "picker_saturation_ratio", by=()),
                   unit="percentunit", limits=_SHED, below="green", width=5),
            number("Saturation, of pods heard", "Of the fullest pool, without the pods that are not heard.", "saturation",
                   worst("max", _HERE.mean("saturation_ratio")), unit="percentunit", limits=limits.saturation, below="green",
                   width=5),
            number("Not heard", "Pods that are stale or down: each counts as full to the picker.", "reporting", blind,
                   limits=(Limit(1, WARN),), below="green", width=4),
            number("Imbalance", "Load of the busiest pod over the mean, in the worst pool: a picker that chooses well keeps it "
                   "near 1.", "balance", _HERE.gauge("max", "imbalance_ratio", by=()), limits=limits.imbalance, below="green",
                   width=4),
            states(_HERE, "reporting", "Pods by state; the picker gets load from fresh, warming and no_progress.", width=6),
        ),
    )  # fmt: skip


def _choice() -> Row:
    columns = (Query(_total(), "Total", "percentunit"),
               *(Query(_score(scorer), _SHORT[scorer], "percentunit") for scorer in SCORERS),
               Query(_of_pod("requests_waiting"), "Waiting", "short"),
               Query(_of_pod("requests_running"), "In the batch", "short"),
               Query(_of_pod("kv_cache_usage_max_ratio"), "KV cache in use", "percentunit"))  # fmt: skip
    return Row(
        title="Choice: the pod with the highest total gets the next request",
        panels=(
            Panel("Pods as the picker ranks them", "Total of queue and KV cache by the picker's default weights, as a share of "
                  "the most they can give; then each scorer, then what it goes by. Prefix and adapter depend on the request and "
                  "are not in it.", "picker-scores", draw=Draw.TABLE, queries=columns, links=(_POD, _POOL), first=("pod",),
                  sort="Total", silent=_NO_LOAD, width=24, height=9),
            Panel("Total", "By pod. Lines that change places often: choices hang on single requests.", "picker-scores",
                  queries=(Query(_total(), who(Level.POD)),), unit="percentunit", top=1.0, links=(TO_POD,), silent=_NO_LOAD,
                  width=24),
        ),
    )  # fmt: skip


def _scorers() -> Row:
    texts = {
        "queue-scorer": "1 for the shortest queue of the pool, 0 for the longest: of short ones one request is the whole range.",
        "kv-cache-utilization-scorer": "1 less the use of the KV cache. TGI tells none: the picker takes it for empty.",
        "running-requests-size-scorer": "1 for the fewest running requests of the pool; not in the default configuration.",
        "load-aware-scorer": "One half without a queue, down to 0 at 128 waiting; not in the default configuration.",
    }
    panels = tuple(
        Panel(f"{_SHORT[scorer]} score", texts[scorer], "picker-scores", queries=(Query(_score(scorer), who(Level.POD)),),
              unit="percentunit", top=1.0, links=(TO_POD,), silent=_NO_LOAD, width=12)
        for scorer in SCORERS
    )  # fmt: skip
    return Row(title="Scorers", panels=panels)


def _trust() -> Row:
    ages = fold_of("max", "signal_age_seconds", Level.POD, by=_PODS, lane=Lane.FAST, **_CHOSEN)
    lines = (
        _HERE.gauge("max", "picker_saturation_ratio", "as it counts"),
        _HERE.mean("saturation_ratio", "of pods heard"),
    )
    return Row(
        title="Can it be believed",
        panels=(
            Panel("Saturation", "Far apart: pods are not heard, and the picker sheds because of them.", "picker-saturation",
                  queries=lines, unit="percentunit", limits=(_SHED[-1],), width=12),
            Panel("Age of the load", "Of the pods' queues and caches as this exporter has them. A sidecar reads them anew at "
                  "each poll of the picker.", "reporting", queries=(Query(ages, who(Level.POD)),), unit="s", links=(TO_POD,),
                  width=12),
        ),
    )  # fmt: skip


_HOW_TO_READ = """\
The picker sends each request to the pod with the highest sum of scores times weights; this board shows the part that comes
from load. One pod with all traffic: look whether its scorers lack what others have (*KV cache in use* empty), or whether
*Not heard* hides the rest. *Saturation, as it counts* above *of pods heard*: pods are silent, and each counts as full. All
totals near 100 %: load does not decide, prefixes do. `llm-fleet-exporter explain POD --config FILE` says the same of one pod,
`lint picker URL` what a picker reads of it."""


def picker(settings: Settings) -> Board:
    """The board of the endpoint picker's view."""
    limits = Limits(settings)
    return Board(
        uid="llm-picker",
        title="LLM picker's view",
        question="Whom would the endpoint picker choose by load, and why not the others?",
        variables=choices(Level.POOL),
        rows=(_now(limits), _choice(), _scorers(), _trust(), how_to_read(_HOW_TO_READ, "picker-scores")),
        annotations=(alerts(Level.POOL), *restarts(Level.POOL)),
    )
