"""The board of a pool in CloudWatch: how is this model served?"""

from dataclasses import replace

from collector.signals import Level
from dashboards.cloudwatch.lines import choices, line
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.parts import latencies, latency, load, numbers, pods, traffic
from dashboards.model import Board, Panel, Row

_LEVEL = Level.POOL


def _internals() -> Row:
    waited = "Time requests waited in the engine. No line where the engine does not say."
    pushed = (
        line("preemptions", _LEVEL, "Sum", "preempted", per_second=True),
        line("rejected_requests", _LEVEL, "Sum", "refused", per_second=True),
    )
    return Row(
        title="Want of room",
        panels=(
            replace(latency(_LEVEL, "Queue time", "queue_time_seconds", waited), width=12),
            Panel("Preempted and refused", "Requests pushed back for want of KV cache, and refused because the engine was full.",
                  "load", queries=pushed, unit="reqps", width=12),
        ),
    )  # fmt: skip


POOL = Page(
    name="llm-fleet-pool",
    board=Board(
        uid="llm-cloudwatch-pool",
        title="LLM pool (CloudWatch)",
        question="How is this model served?",
        variables=(),
        rows=(numbers(_LEVEL), latencies(_LEVEL), load(_LEVEL), traffic(_LEVEL), pods(_LEVEL), _internals()),
    ),
    choices=choices(_LEVEL, "reporting_ratio"),
    chosen=("pool",),
    intro="One pool: a model behind one InferencePool. A line for each cluster and namespace that has a pool of that name.",
)
