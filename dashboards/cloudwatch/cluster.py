"""The board of a cluster in CloudWatch: is this cluster healthy, and which of its pools is not?"""

from alerts.slo import Settings
from collector.signals import Level
from dashboards.cloudwatch.lines import choices, line
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.parts import FIRST_TOKEN, latencies, load, numbers, pods, room, traffic
from dashboards.limits import Limits
from dashboards.model import Board, Panel, Row

_LEVEL = Level.CLUSTER


def cluster(settings: Settings) -> Page:
    """The board with the limits and objectives of these settings."""
    limits = Limits(settings)
    return Page(
        name="llm-fleet-cluster",
        board=Board(
            uid="llm-cloudwatch-cluster",
            title="LLM cluster (CloudWatch)",
            question="Is this cluster healthy, and which of its pools is not?",
            variables=(),
            rows=(
                numbers(_LEVEL, limits),
                _pools(limits),
                latencies(_LEVEL, limits),
                load(_LEVEL, limits),
                traffic(_LEVEL),
                pods(_LEVEL),
                room(_LEVEL),
            ),
        ),
        choices=choices(_LEVEL, "reporting_ratio"),
        chosen=("cluster",),
        intro="One cluster, then its pools side by side; new pools appear by themselves.",
    )


def _pools(limits: Limits) -> Row:
    """The pools side by side; a new one appears by itself."""
    level = Level.POOL
    return Row(
        title="Pools of this cluster",
        panels=(
            Panel("TTFT p99 by pool", "A pool above the line misses its objective.", "pools",
                  queries=(line(FIRST_TOKEN, level, "p99"),), unit="s", limits=limits.bound(FIRST_TOKEN), width=6),
            Panel("Saturation by pool", "A pool at the line has no room.", "pools",
                  queries=(line("saturation_ratio", level, "Average"),), unit="percentunit", limits=(limits.full,), width=6),
            Panel("Errors by pool", "Share of finished requests that ended in an error.", "pools",
                  queries=(line("error_ratio", level, "Average"),), unit="percentunit", limits=limits.errors[-1:], width=6),
            Panel("Reporting by pool", "Share of the pool's pods whose numbers are current.", "pools",
                  queries=(line("reporting_ratio", level, "Minimum"),), unit="percentunit", width=6),
        ),
    )  # fmt: skip
