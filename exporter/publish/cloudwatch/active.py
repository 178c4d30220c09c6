"""Which metrics CloudWatch bills now: every name with its dimensions that was written within the hour; capped."""

from collector.signals import Level
from exporter.publish.cloudwatch.data import Datum, Dimensions
from exporter.publish.cloudwatch.limits import Reason
from exporter.publish.cloudwatch.window import Place

BILLED_SECONDS = 3600.0
Identity = tuple[str, Dimensions]


class Active:
    """Metrics and pods written of late; what would exceed a cap is not admitted, what is there already stays."""

    def __init__(self, *, most_metrics: int, most_pods: int) -> None:
        self._most_metrics, self._most_pods = most_metrics, most_pods
        self._metrics: dict[Identity, float] = {}
        self._pods: dict[Place, float] = {}

    def __len__(self) -> int:
        return len(self._metrics)

    def expire(self, now: float) -> None:
        """Forget what was not written for an hour, before or after: the clock can have been ahead."""
        self._metrics = {one: at for one, at in self._metrics.items() if abs(now - at) < BILLED_SECONDS}
        self._pods = {one: at for one, at in self._pods.items() if abs(now - at) < BILLED_SECONDS}

    def refusal(self, place: Place, datum: Datum, now: float) -> Reason | None:
        """None when the datum may be written, and counts as written from now on."""
        if place[0] is Level.POD and place not in self._pods and len(self._pods) >= self._most_pods:
            return Reason.POD_CAP
        identity = datum.identity
        if identity not in self._metrics and len(self._metrics) >= self._most_metrics:
            return Reason.METRIC_CAP
        self._metrics[identity] = now
        if place[0] is Level.POD:
            self._pods[place] = now
        return None
