"""What several exporters say of parts of one cluster, as one: shards list different pods of the same pool.

Counts and counters add up. A ratio is weighted by the pods behind it, which for one exporter alone is the ratio itself.
"""

from alerts.promql import fold_of, selector
from collector.naming import LEVEL_LABELS
from collector.signals import REPORTING, Level, State

_SPEAKING = "=~" + "|".join(state for state in State if state in REPORTING)
_SETTLED = "=~" + "|".join(state for state in State if state in REPORTING and state is not State.WARMING)


def known_pods(level: Level, **chosen: str) -> str:
    """Pods that are expected to speak: all that exporters list but those told to go."""
    return fold_of("sum", "pods", level, **chosen, state=f"!={State.TERMINATING}")


def reporting_pods(level: Level, **chosen: str) -> str:
    """Those whose values are current."""
    return fold_of("sum", "pods", level, **chosen, state=_SPEAKING)


def reporting_share(level: Level, **chosen: str) -> str:
    """Pods whose values are current over those that are expected to speak; absent without any."""
    return f"{reporting_pods(level, **chosen)} / ({known_pods(level, **chosen)} > 0)"


def weighted(name: str, level: Level, **chosen: str) -> str:
    """A ratio that is a mean over pods past their warm-up; absent where no exporter tells it."""
    pods, ratio = selector("pods", level, **chosen, state=_SETTLED), selector(name, level, **chosen)
    by = f"sum by ({', '.join(LEVEL_LABELS[level])})"
    return f"{by} ({pods} * ignoring (state) group_left () {ratio})\n/\n({by} ({pods} and ignoring (state) {ratio}) > 0)"
