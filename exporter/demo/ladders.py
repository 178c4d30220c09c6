"""The histogram ladders of each engine and its rules on what counts when (upper bounds without +Inf; seconds
or tokens).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.demo.request import Kind, Outcome

Ladder = tuple[float, ...]

MICROS = 1_000_000

VLLM_TTFT: Ladder = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
VLLM_ITL: Ladder = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0,
)  # fmt: skip
VLLM_LATENCY: Ladder = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
VLLM_ITERATION: Ladder = (
    1.0,
    8.0,
    16.0,
    32.0,
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
)
VLLM_N: Ladder = (1.0, 2.0, 5.0, 10.0, 20.0)
VLLM_PREEMPTIONS: Ladder = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
HTTP_FINE: Ladder = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0,
    30.0, 60.0,
)  # fmt: skip
HTTP_COARSE: Ladder = (0.1, 0.5, 1.0)

SGLANG_TTFT: Ladder = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0,
)  # fmt: skip
SGLANG_ITL: Ladder = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6,
    0.8, 1.0, 2.0, 4.0, 6.0, 8.0,
)  # fmt: skip
SGLANG_E2E: Ladder = (*SGLANG_TTFT, 600.0, 1200.0, 1800.0, 2400.0)
SGLANG_TOKENS: Ladder = (
    100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0,
    9000.0, 10000.0, 12500.0, 15000.0, 17500.0, 20000.0, 22500.0, 25000.0, 27500.0, 30000.0, 35000.0,
    40000.0, 60000.0, 80000.0, 100000.0, 200000.0, 300000.0, 400000.0, 600000.0, 800000.0, 1000000.0,
    1100000.0,
)  # fmt: skip
SGLANG_QUEUE: Ladder = (
    0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0,
    50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0,
    1200.0, 1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0,
)  # fmt: skip
SGLANG_STAGE: Ladder = tuple(0.001 * 1.62**power for power in range(30))
SGLANG_DP_IMBALANCE: Ladder = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
SGLANG_DP_WAIT: Ladder = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
)

TGI_NEXT_SIZE: Ladder = tuple(float(size) for size in range(1, 1025))


def _repeated(start: float, *, factor: float, steps: int) -> Ladder:
    # TGI multiplies step by step: the rounding of its bounds differs from that of a power.
    bounds, bound = [], start
    for _ in range(steps):
        bound *= factor
        bounds.append(bound)
    return tuple(bounds)


TGI_DURATION: Ladder = _repeated(0.0001, factor=1.5, steps=35)


def token_ladder(limit: int) -> Ladder:
    """1-2-5 decades up to `limit` tokens, as vLLM cuts them at its context length."""
    return tuple(float(head * 10**power) for power in range(10) for head in (1, 2, 5) if head * 10**power <= limit)


def even_ladder(limit: int) -> Ladder:
    """100 equal steps up to `limit` tokens, as TGI lays them."""
    return tuple(limit / 100 * step for step in range(1, 101))


@dataclass(frozen=True, slots=True)
class Books:
    """What one engine keeps: ladders in seconds and in tokens, which of them it splits by streaming, which
    outcomes it closes.

    A closed request enters the per-request histograms; vLLM and TGI leave a request cut by its client out of
    them, SGLang does not.
    """

    seconds: Mapping[str, Ladder]
    tokens: Mapping[str, Ladder]
    split: frozenset[str]
    closes: frozenset[Outcome]
    times_tokens_of: frozenset[Outcome]


def _vllm(limit: int) -> Books:
    tokens = token_ladder(limit)
    latency = dict.fromkeys(("e2e", "queue", "inference", "prefill", "decode"), VLLM_LATENCY)
    closes: frozenset[Outcome] = frozenset(("stop", "length", "abort", "error"))
    return Books(
        seconds={"ttft": VLLM_TTFT, "itl": VLLM_ITL, "tpot": VLLM_ITL, **latency},
        tokens={
            **dict.fromkeys(("prompt", "generated", "computed", "max_tokens"), tokens),
            "iteration": VLLM_ITERATION,
            "n": VLLM_N,
            "preemptions": VLLM_PREEMPTIONS,
        },
        split=frozenset(),
        closes=closes,
        times_tokens_of=closes,
    )


def _sglang() -> Books:
    return Books(
        seconds={
            "ttft": SGLANG_TTFT,
            "itl": SGLANG_ITL,
            "tpot": SGLANG_ITL,
            "e2e": SGLANG_E2E,
            "queue_admitted": SGLANG_QUEUE,
            "taken_in": SGLANG_STAGE,
            "prefilled": SGLANG_STAGE,
        },
        tokens=dict.fromkeys(("prompt", "generated", "computed"), SGLANG_TOKENS),
        split=frozenset(("ttft", "tpot", "e2e")),
        closes=frozenset(("stop", "length", "abort", "error", "cut")),
        times_tokens_of=frozenset(("stop", "length")),
    )


def _tgi(limit: int, *, input_limit: int) -> Books:
    names = ("e2e", "queue", "inference", "mean_token", "validation", "concat")
    batches = tuple(f"{part}_{method}" for part in ("batch", "forward", "select", "filter") for method in ("prefill", "decode"))
    return Books(
        seconds=dict.fromkeys((*names, *batches), TGI_DURATION),
        tokens={
            "input_length": even_ladder(input_limit),
            **dict.fromkeys(("max_new_tokens", "generated"), even_ladder(limit)),
            "next_size": TGI_NEXT_SIZE,
        },
        split=frozenset(),
        closes=frozenset(("stop", "length")),
        times_tokens_of=frozenset(("stop", "length")),
    )


def books_for(kind: Kind, *, max_model_len: int) -> Books:
    """The books of one engine whose context is `max_model_len` tokens."""
    if kind == "vllm":
        return _vllm(max_model_len)
    if kind == "sglang":
        return _sglang()
    return _tgi(max_model_len, input_limit=max_model_len - 1)
