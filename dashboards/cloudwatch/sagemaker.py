"""SageMaker's managed endpoints beside our pools: do the two ways to serve a model serve it alike?

Names, dimensions, units and statistics of SageMaker's metrics are those of AWS's documentation ("Monitor Amazon SageMaker with
Amazon CloudWatch"). No account was asked whether they arrive like that.
"""

from alerts.slo import Settings
from collector.signals import Level
from dashboards.cloudwatch.lines import Choice, Line, choices, line
from dashboards.cloudwatch.model import Page
from dashboards.cloudwatch.parts import FIRST_TOKEN
from dashboards.model import Board, Draw, Panel, Row

UNVERIFIED = "SageMaker's names are those of AWS's documentation; they were not verified against an account."

_CALLS = "AWS/SageMaker"
_INSTANCES = "/aws/sagemaker/Endpoints"
_VARIANT = ("EndpointName", "VariantName")
_MICROSECONDS = 1e-6


def _sagemaker(metric: str, statistic: str, legend: str = "", *, namespace: str = _CALLS, per_second: bool = False,
               scale: float = 1) -> Line:  # fmt: skip
    return Line(namespace=namespace, metric=metric, dimensions=_VARIANT, statistic=statistic, legend=legend,
                per_second=per_second, scale=scale)  # fmt: skip


def _half(title: str, text: str, *lines: Line, unit: str, draw: Draw = Draw.LINES) -> Panel:
    return Panel(title, text, "sagemaker", queries=lines, unit=unit, draw=draw, width=12)


def _requests() -> Row:
    errors = tuple(_sagemaker(f"Invocation{code}Errors", "Sum", code, per_second=True) for code in ("4XX", "5XX"))
    return Row(
        title="Requests",
        panels=(
            _half("SageMaker: invocations", "InvokeEndpoint requests per second.",
                  _sagemaker("Invocations", "Sum", per_second=True), unit="reqps"),
            _half("Pools: requests", "Requests finished per second.",
                  line("requests", Level.POOL, "Sum", per_second=True), unit="reqps"),
            _half("SageMaker: errors", "Requests that the model answered with 4xx or 5xx, per second.", *errors, unit="reqps"),
            _half("Pools: errors and aborts", "Requests that ended so, per second.",
                  *(line("requests", Level.POOL, "Sum", child, child=child, per_second=True) for child in ("error", "abort")),
                  unit="reqps"),
        ),
    )  # fmt: skip


def _latency() -> Row:
    model = "Time in the model's container as SageMaker sees it, mean and longest; of the whole answer, not of the first token."
    added = "Time that SageMaker adds to the model's, mean and longest."
    ways = (("Average", "mean"), ("Maximum", "max"))
    theirs = {
        name: [_sagemaker(name, statistic, word, scale=_MICROSECONDS) for statistic, word in ways]
        for name in ("ModelLatency", "OverheadLatency")
    }
    return Row(
        title="Latency",
        panels=(
            _half("SageMaker: model latency", model, *theirs["ModelLatency"], unit="s"),
            _half("Pools: end-to-end latency", "Arrival to last token: what compares with model latency.",
                  *(line("end_to_end_latency_seconds", Level.POOL, point, point) for point in ("p50", "p99")), unit="s"),
            _half("SageMaker: overhead", added, *theirs["OverheadLatency"], unit="s"),
            _half("Pools: time to first token", "SageMaker's basic metrics have no counterpart.",
                  *(line(FIRST_TOKEN, Level.POOL, point, point) for point in ("p50", "p99")), unit="s"),
        ),
    )  # fmt: skip


def _fullness() -> Row:
    gpus = tuple(_sagemaker(name, "Average", word, namespace=_INSTANCES)
                 for name, word in (("GPUUtilization", "GPU"), ("GPUMemoryUtilization", "GPU memory")))  # fmt: skip
    hosts = tuple(_sagemaker(name, "Average", word, namespace=_INSTANCES)
                  for name, word in (("CPUUtilization", "CPU"), ("MemoryUtilization", "memory")))  # fmt: skip
    return Row(
        title="How full",
        panels=(
            _half("SageMaker: GPU", "Added over the GPUs of an instance: four GPUs reach 400.", *gpus, unit="percent"),
            _half("Pools: KV cache", "Share of the KV cache that live requests hold.",
                  line("kv_cache_usage_ratio", Level.POOL, "Average"), unit="percentunit"),
            _half("SageMaker: host", "CPU is added over cores: four cores reach 400.", *hosts, unit="percent"),
            _half("Pools: saturation", "1 is full; SageMaker tells nothing like it.",
                  line("saturation_ratio", Level.POOL, "Average"), unit="percentunit"),
        ),
    )  # fmt: skip


_ENDPOINT = Choice(dimension="EndpointName", metric="Invocations", dimensions=_VARIANT, namespace=_CALLS)


def sagemaker(settings: Settings) -> Page:
    """The board; it draws no limits, since what is asked of pools is not asked of endpoints."""
    return Page(
        name="llm-fleet-sagemaker",
        board=Board(
            uid="llm-cloudwatch-sagemaker",
            title="SageMaker endpoints beside pools (CloudWatch)",
            question="Do managed endpoints and our pools serve alike?",
            variables=(),
            rows=(_requests(), _latency(), _fullness()),
        ),
        choices=(_ENDPOINT, *choices(Level.POOL, "reporting_ratio")),
        chosen=("EndpointName", "pool"),
        intro=f"Left a managed endpoint, right a pool. **Not verified against an account.** {UNVERIFIED}",
    )
