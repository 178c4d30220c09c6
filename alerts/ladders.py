"""Bounds at which an engine counts a latency itself, by default: only there a share of its requests is exact."""

from collections.abc import Mapping

from alerts.slo import E2E, ITL, TTFT
from collector import bounds
from collector.naming import find
from collector.signals import Level

ENGINES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "vllm": {TTFT.signal: bounds.VLLM_TTFT, ITL.signal: bounds.VLLM_ITL, E2E.signal: bounds.VLLM_LATENCY},
    "sglang": {TTFT.signal: bounds.SGLANG_TTFT, ITL.signal: bounds.SGLANG_ITL, E2E.signal: bounds.SGLANG_E2E},
    # Its bounds grow by 1.5 from 0.1 ms, so none is on the published ladder.
    "tgi": {E2E.signal: ()},
}


def exact_bounds(signal: str, engines: tuple[str, ...]) -> tuple[float, ...]:
    """Published bounds that every one of the engines counts at; those that do not tell the signal have no say."""
    told = [ENGINES[engine][signal] for engine in engines if signal in ENGINES[engine]]
    return tuple(bound for bound in find(signal, Level.POOL).ladder if told and all(bound in ladder for ladder in told))


def check_bound(signal: str, bound_seconds: float, engines: tuple[str, ...]) -> None:
    """ValueError for a bound that is not exact on every engine, with the nearest that are."""
    exact = exact_bounds(signal, engines)
    if bound_seconds in exact:
        return
    together = " and ".join(engines)
    if not any(signal in ENGINES[engine] for engine in engines):
        raise ValueError(f"{together} tell nothing of {signal}; switch the objective off")
    if not exact:
        raise ValueError(f"no bound of {signal} is exact on {together}; switch the objective off, or leave out the engine whose "
                         "latencies may be estimated between buckets")  # fmt: skip
    below = [bound for bound in exact if bound < bound_seconds][-1:]
    above = [bound for bound in exact if bound > bound_seconds][:1]
    nearest = " and ".join(f"{bound:g}s" for bound in (*below, *above))
    raise ValueError(f"{bound_seconds:g}s is no bucket bound of every engine in use ({together}); nearest that are: {nearest}")
