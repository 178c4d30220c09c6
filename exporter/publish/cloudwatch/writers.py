"""Are there two writers? Each writes 1 in every period; their sum, read back now and then, is their number."""

import logging
import math
import statistics
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from collector.clock import Clock
from exporter.log import say
from exporter.publish.cloudwatch.data import heartbeat
from exporter.publish.cloudwatch.send import denied
from exporter.publish.cloudwatch.settings import Settings

_log = logging.getLogger(__name__)
LOOK_EVERY_SECONDS = 300.0
_PERIODS = 5
_LATE_SECONDS = 120.0


class Writers:
    """Reads the heartbeats of the periods before; `seen` is the usual number in them, None while it is not known.

    `cluster` tells the name of the moment, which a reload changes.
    """

    def __init__(self, settings: Settings, cluster: Callable[[], str], clock: Clock) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._due = clock.now().mono + LOOK_EVERY_SECONDS
        self.seen: int | None = None

    def look(self, client: Any) -> None:
        """Read back if it is time to; call from the thread that sends. What cannot be read is not known."""
        now = self._clock.now()
        if client is None or now.mono < self._due:
            return
        self._due = now.mono + LOOK_EVERY_SECONDS
        try:
            answer = client.get_metric_data(**self._question(now.wall))
            sums = answer["MetricDataResults"][0]["Values"]
        except ClientError as error:
            self.seen = None
            if denied(error):
                say(_log, logging.INFO, "how many exporters write may not be read back; not tried again", error=str(error))
                self._due = math.inf
        except (BotoCoreError, LookupError):
            self.seen = None
        else:
            self._judge(sums)

    def _question(self, wall: float) -> Mapping[str, Any]:
        period = self._settings.period
        end = (wall - _LATE_SECONDS) // period * period
        beat = heartbeat(self._cluster())
        metric = {"Namespace": self._settings.namespace, "MetricName": beat.name,
                  "Dimensions": [{"Name": name, "Value": value} for name, value in beat.dimensions]}  # fmt: skip
        query = {"Id": "writers", "MetricStat": {"Metric": metric, "Period": int(period), "Stat": "Sum"}}
        return {"MetricDataQueries": [query], "StartTime": datetime.fromtimestamp(end - _PERIODS * period, UTC),
                "EndTime": datetime.fromtimestamp(end, UTC)}  # fmt: skip

    def _judge(self, sums: list[float]) -> None:
        """A single period with two is a restart or a request sent again; the usual number is the middle one."""
        if not sums:
            return
        before, self.seen = self.seen, round(statistics.median_low(sums))
        if self.seen > 1 and self.seen != before:
            say(_log, logging.WARNING, "several exporters write to CloudWatch for this cluster, everything counts as many times; "
                "run one, or give them one lease_file", writers=self.seen)  # fmt: skip
