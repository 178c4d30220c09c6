"""Seeded traffic: a slow wave with bursts on it, and requests drawn from a mix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from exporter.demo.request import Request


@dataclass(frozen=True, slots=True)
class Burst:
    """For `length_seconds` out of every `every_seconds`, first after `first_seconds`, traffic is `factor`
    times the usual.
    """

    every_seconds: float
    first_seconds: float
    length_seconds: float
    factor: float

    def active(self, at: float) -> bool:
        """Whether the burst is on."""
        return at >= self.first_seconds and (at - self.first_seconds) % self.every_seconds < self.length_seconds


@dataclass(frozen=True, slots=True)
class Wave:
    """Requests per second over time: a mean, swinging by the share `swing` once each period, with an optional
    burst.
    """

    mean_rate: float
    swing: float = 0.0
    period_seconds: float = 300.0
    phase: float = 0.0
    burst: Burst | None = None

    def rate(self, at: float) -> float:
        """Requests per second at a moment."""
        turn = math.sin(2 * math.pi * (at / self.period_seconds + self.phase))
        factor = self.burst.factor if self.burst is not None and self.burst.active(at) else 1.0
        return self.mean_rate * (1 + self.swing * turn) * factor

    @property
    def peak_rate(self) -> float:
        """A rate that is never exceeded."""
        return self.mean_rate * (1 + self.swing) * max(1.0, self.burst.factor if self.burst else 1.0)


@dataclass(frozen=True, slots=True)
class Mix:
    """What requests look like: sizes in tokens (medians), shared prefixes, adapters, and the shares of what
    goes wrong.
    """

    prompt_tokens: int = 500
    output_tokens: int = 160
    max_tokens: int = 512
    prefixes: int = 4
    prefix_tokens: int = 256
    prefix_share: float = 0.6
    adapters: tuple[str, ...] = ()
    adapter_share: float = 0.7
    streaming_share: float = 0.8
    completions_share: float = 0.2
    patience_seconds: float | None = 60.0
    cut_share: float = 0.01
    abort_share: float = 0.004
    error_share: float = 0.004
    oversized_share: float = 0.003
    context_tokens: int = 8192


def arrivals(wave: Wave, mix: Mix, *, seed: int) -> Iterator[Request]:
    """Requests for ever, in order of time, the same ones for the same seed."""
    random = Random(seed)
    at, number = 0.0, 0
    while True:
        at += random.expovariate(wave.peak_rate)
        if random.random() * wave.peak_rate < wave.rate(at):
            number += 1
            yield draw(mix, random, at=at, number=number)


def draw(mix: Mix, random: Random, *, at: float, number: int) -> Request:
    """One request of the mix."""
    shares_prefix = random.random() < mix.prefix_share
    fresh_tokens = _around(random, mix.prompt_tokens, limit=mix.context_tokens // 3)
    prompt_tokens = fresh_tokens + (mix.prefix_tokens if shares_prefix else 0)
    if random.random() < mix.oversized_share:
        prompt_tokens = mix.context_tokens
    return Request(
        number=number,
        at=at,
        prompt_tokens=prompt_tokens,
        output_tokens=_around(random, mix.output_tokens, limit=4 * mix.max_tokens),
        max_tokens=mix.max_tokens,
        prefix=f"prefix-{random.randrange(mix.prefixes)}" if shares_prefix else None,
        prefix_tokens=mix.prefix_tokens if shares_prefix else 0,
        adapter=random.choice(mix.adapters) if mix.adapters and random.random() < mix.adapter_share else None,
        patience_seconds=random.uniform(0.2, 4.0) if random.random() < mix.cut_share else mix.patience_seconds,
        fault=_fault(mix, random),
        streaming=random.random() < mix.streaming_share,
        path="/v1/completions" if random.random() < mix.completions_share else "/v1/chat/completions",
    )


def _fault(mix: Mix, random: Random) -> Literal["abort", "error"] | None:
    lot = random.random()
    if lot < mix.error_share:
        return "error"
    return "abort" if lot < mix.error_share + mix.abort_share else None


def _around(random: Random, median: int, *, limit: int) -> int:
    return max(1, min(limit, round(median * random.lognormvariate(0.0, 0.6))))
