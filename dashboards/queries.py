"""What boards ask about one level: the choices above them, their matchers, legends and commonest queries."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from alerts.parts import reporting_share, weighted
from alerts.promql import RATE_INTERVAL, buckets_of, fold_of, quantile_of, rate_of, selector, share_of, slope_of
from collector.naming import LEVEL_LABELS
from collector.signals import Level
from dashboards.model import Query, Variable

By = Iterable[str] | None

FIRST_TOKEN, BETWEEN_TOKENS, WHOLE = "time_to_first_token_seconds", "inter_token_latency_seconds", "end_to_end_latency_seconds"
"""The latencies that users feel."""


def chosen(level: Level) -> dict[str, str]:
    """Matchers of what is chosen above a board. Exporters are told apart by the label that Prometheus gives."""
    labels = ("instance",) if level is Level.EXPORTER else LEVEL_LABELS[level]
    return {label: f"=~${label}" for label in labels}


def who(level: Level) -> str:
    """Legend that tells any two series of a level apart; a pod's name is its own within the namespace."""
    labels = ("instance",) if level is Level.EXPORTER else LEVEL_LABELS[level]
    shown = [label for label in labels if level is not Level.POD or label != "pool"]
    return "/".join(f"{{{{{label}}}}}" for label in shown)


QUANTILE = Variable("quantile", fixed="0.5,0.9,0.95,0.99", label="Quantile")
"""The quantile that a board compares pools by."""


def choices(level: Level) -> tuple[Variable, ...]:
    """A variable per label of the level, each narrowed by those before it; pools also by model and engine."""
    info = {"cluster": (Level.CLUSTER, "cluster"), "pod": (Level.POD, "pod")}
    names = {
        Level.CLUSTER: ("cluster",),
        Level.POOL: ("cluster", "namespace", "model", "engine", "pool"),
        Level.POD: ("cluster", "namespace", "model", "engine", "pool", "pod"),
    }[level]
    made: list[Variable] = []
    for at, name in enumerate(names):
        source, label = info.get(name, (Level.POOL, name))
        before = [one for one in names[:at] if name != "pod" or one not in ("model", "engine")]
        series = selector("info", source, **{one: f"=~${one}" for one in before})
        # Spelled out: only so does All hold the pools of the chosen model, not all there are.
        made.append(Variable(name, f"label_values({series}, {label})", spelled_out=name == "pool"))
    return tuple(made)


def worst(how: str, query: Query) -> Query:
    """Of a line for each subject one number: the `max` or the `min` of them."""
    return replace(query, expression=f"{how}({query.expression})", legend="")


@dataclass(frozen=True, slots=True)
class Scope:
    """Queries about what is chosen at a level, a series for each subject of it unless `by` says otherwise."""

    level: Level

    @property
    def chosen(self) -> dict[str, str]:
        return chosen(self.level)

    def gauge(self, how: str, name: str, legend: str = "", by: By = None, **matchers: str) -> Query:
        """A gauge. `how` folds what several exporters say: of a pod the same for a moment, of pools and clusters their parts."""
        expression = fold_of(how, name, self.level, by=self._kept(by), **self.chosen, **matchers)
        return Query(expression, self._legend(legend, by))

    def mean(self, name: str, legend: str = "") -> Query:
        """A ratio that is a mean over the pods of a pool or cluster: of several exporters weighted by them."""
        return Query(weighted(name, self.level, **self.chosen), self._legend(legend, None))

    def reporting(self, legend: str = "") -> Query:
        """Share of a pool's or cluster's pods whose values are current, over all exporters."""
        return Query(reporting_share(self.level, **self.chosen), self._legend(legend, None))

    def rate(self, name: str, legend: str = "", by: By = None, **matchers: str) -> Query:
        """Events, or observations, per second."""
        expression = rate_of(name, self.level, window=RATE_INTERVAL, by=self._kept(by), **self.chosen, **matchers)
        return Query(expression, self._legend(legend, by))

    def quantile(self, point: float | str, name: str, legend: str = "", by: By = None) -> Query:
        """A quantile of a histogram."""
        expression = quantile_of(point, name, self.level, window=RATE_INTERVAL, by=self._kept(by), **self.chosen)
        return Query(expression, self._legend(legend, by))

    def quantiles(self, name: str, *points: float, by: By = None) -> tuple[Query, ...]:
        """The median, 95 % and 99 %, unless others are asked for."""
        return tuple(self.quantile(point, name, f"p{point * 100:g}", by) for point in points or (0.5, 0.95, 0.99))

    def share(self, name: str, legend: str = "", by: By = None) -> Query:
        """A ratio of the table from its counters; no series without events."""
        expression = share_of(name, self.level, window=RATE_INTERVAL, by=self._kept(by), **self.chosen)
        return Query(expression, self._legend(legend, by))

    def slope(self, name: str, legend: str = "", by: By = None) -> Query:
        """How fast a gauge grows, per second."""
        expression = slope_of(name, self.level, window=RATE_INTERVAL, by=self._kept(by), **self.chosen)
        return Query(expression, self._legend(legend, by))

    def buckets(self, name: str) -> Query:
        """Observations in each bucket, for a heatmap."""
        return Query(buckets_of(name, self.level, window=RATE_INTERVAL, by=(), **self.chosen), "{{le}}")

    def _kept(self, by: By) -> tuple[str, ...]:
        if by is not None:
            return tuple(by)
        return ("instance",) if self.level is Level.EXPORTER else LEVEL_LABELS[self.level]

    def _legend(self, legend: str, by: By) -> str:
        return f"{who(self.level)} {legend}".strip() if by is None else legend
