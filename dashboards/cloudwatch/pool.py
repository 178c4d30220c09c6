"""The board of a pool in CloudWatch: how is this model served?"""

from collector.signals import Level
from dashboards.cloudwatch.lines import choices
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.parts import latencies, latency, load, numbers, pods, traffic
from dashboards.model import Board, Row

_LEVEL = Level.POOL


def _internals() -> Row:
    silent = "No line where the engine does not say."
    parts = (
        ("Queue time", "queue_time_seconds", "Time requests waited in the engine."),
        ("Prefill time", "prefill_time_seconds", "Per finished request: scheduled to first token."),
        ("Decode time", "decode_time_seconds", "Per finished request: first to last token."),
    )
    panels = tuple(latency(_LEVEL, title, name, f"{text} {silent}") for title, name, text in parts)
    return Row(title="Inside the engines", panels=panels)


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
