"""The board of a pool in CloudWatch: how is this model served?"""

from alerts.slo import Settings
from collector.signals import Level
from dashboards.cloudwatch.lines import choices
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.parts import latencies, load, numbers, pods, room, traffic
from dashboards.limits import Limits
from dashboards.model import Board

_LEVEL = Level.POOL


def pool(settings: Settings) -> Page:
    """The board with the limits and objectives of these settings."""
    limits = Limits(settings)
    return Page(
        name="llm-fleet-pool",
        board=Board(
            uid="llm-cloudwatch-pool",
            title="LLM pool (CloudWatch)",
            question="How is this model served?",
            variables=(),
            rows=(
                numbers(_LEVEL, limits),
                latencies(_LEVEL, limits),
                load(_LEVEL, limits),
                traffic(_LEVEL),
                pods(_LEVEL),
                room(_LEVEL),
            ),
        ),
        choices=choices(_LEVEL, "reporting_ratio"),
        chosen=("pool",),
        intro="One pool: a model behind one InferencePool. A line for each cluster and namespace that has a pool of that name.",
    )
