"""The truth about one engine: exact integers (microseconds, tokens, requests), never floats that drift."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from exporter.demo.ladders import MICROS, Books, Ladder
from exporter.demo.request import OUTCOMES, Outcome, Request


class Tally:
    """Exact histogram: counts per bucket (the last one is +Inf), integer total in raw units, `scale` raw
    units to one of the ladder.
    """

    __slots__ = ("bounds", "count", "counts", "scale", "total")

    def __init__(self, bounds: Ladder, *, scale: int = 1) -> None:
        self.bounds = bounds
        self.scale = scale
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0
        self.count = 0

    def observe(self, raw: int, times: int = 1) -> None:
        """Count a raw value `times` times."""
        self.counts[bisect_left(self.bounds, raw / self.scale)] += times
        self.total += raw * times
        self.count += times

    @property
    def sum(self) -> float:
        """Sum in the unit of the ladder."""
        return self.total / self.scale


@dataclass(slots=True, eq=False)
class Trace:
    """What happened to one request, in microseconds of simulated time; `gaps` holds inter-token gaps only
    when records are kept.
    """

    request: Request
    arrived: int
    scheduled: int | None = None
    first_token: int | None = None
    last_token: int | None = None
    ended: int | None = None
    generated: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    outcome: Outcome | None = None
    gaps: list[int] | None = None

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that the prefix cache did not supply."""
        return self.request.prompt_tokens - self.cached_tokens

    def spans(self) -> dict[str, int]:
        """Durations known by now under the names of the ladders, in microseconds; a phase not reached is
        absent.
        """
        found: dict[str, int] = {}
        if self.scheduled is not None:
            found["queue"] = found["queue_admitted"] = self.scheduled - self.arrived
            if self.first_token is not None:
                found["prefill"] = found["prefilled"] = self.first_token - self.scheduled
                found["ttft"] = self.first_token - self.arrived
        if self.ended is not None:
            found["e2e"] = self.ended - self.arrived
            found |= self._token_spans()
        return found

    def _token_spans(self) -> dict[str, int]:
        if self.scheduled is None or self.first_token is None or self.last_token is None:
            return {}
        decode = self.last_token - self.first_token
        inference = self.last_token - self.scheduled
        return {
            "decode": decode,
            "inference": inference,
            "tpot": decode // (self.generated - 1) if self.generated > 1 else 0,
            "mean_token": inference // self.generated,
        }

    def sizes(self) -> dict[str, int]:
        """Sizes of a request that has ended, in tokens or pieces, under the names of the ladders."""
        return {
            "prompt": self.request.prompt_tokens,
            "generated": self.generated,
            "computed": self.computed_tokens,
            "max_tokens": self.request.max_tokens,
            "n": 1,
            "preemptions": self.preemptions,
        }


@dataclass(slots=True)
class Closed:
    """Totals over requests that the engine itself closed."""

    requests: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class Ledger:
    """Running totals of one engine process, its histograms on its own ladders, and on request a trace of
    every request.
    """

    books: Books
    keep_records: bool = False
    arrived: int = 0
    refused: int = 0
    rejected: int = 0
    lost: int = 0
    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    steps: int = 0
    prefill_steps: int = 0
    decode_steps: int = 0
    joins: int = 0
    busy: int = 0
    idle: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    decode_tokens: int = 0
    computed_tokens: int = 0
    cache_tokens_loaded: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    drafts: int = 0
    accepted_at: dict[int, int] = field(default_factory=dict)
    """Accepted tokens by their position in the draft."""

    preemptions: int = 0
    preempted_input_tokens: int = 0
    preempted_output_tokens: int = 0
    closed: dict[bool, Closed] = field(default_factory=lambda: {False: Closed(), True: Closed()})
    records: list[Trace] = field(default_factory=list)
    _tallies: dict[str, Tally] = field(init=False)

    def __post_init__(self) -> None:
        ladders = [(name, Tally(ladder, scale=MICROS)) for name, ladder in self.books.seconds.items()]
        ladders += [(name, Tally(ladder)) for name, ladder in self.books.tokens.items()]
        self._tallies = {}
        for name, tally in ladders:
            if name in self.books.split:
                for streaming in (False, True):
                    self._tallies[_key(name, streaming)] = Tally(tally.bounds, scale=tally.scale)
            else:
                self._tallies[name] = tally

    @property
    def ended(self) -> int:
        """Requests that are over, for whatever reason."""
        return sum(self.outcomes.values()) + self.refused + self.rejected + self.lost

    @property
    def finished(self) -> int:
        """Requests that the engine ended itself."""
        return sum(self.outcomes.values()) - self.outcomes["cut"]

    def tally(self, name: str, *, streaming: bool | None = None) -> Tally:
        """The histogram of a ladder's name; a split one needs `streaming`. KeyError when the engine keeps
        none.
        """
        return self._tallies[name if streaming is None else _key(name, streaming)]

    def observe(self, name: str, raw: int, *, streaming: bool = True, times: int = 1) -> None:
        """Count a value where this engine has a histogram for it, else do nothing."""
        tally = self._tallies.get(name) or self._tallies.get(_key(name, streaming))
        if tally is not None:
            tally.observe(raw, times)

    def first_token(self, trace: Trace) -> None:
        """Book the end of a request's first prefill."""
        self.prompt_tokens += trace.request.prompt_tokens
        self.cached_tokens += trace.cached_tokens
        spans = trace.spans()
        self.observe("ttft", spans["ttft"], streaming=trace.request.streaming)
        self.observe("prefilled", spans["prefilled"])

    def end(self, trace: Trace) -> None:
        """Book the end of a request; `outcome` and `ended` of the trace are set."""
        assert trace.outcome is not None
        self.outcomes[trace.outcome] += 1
        if trace.outcome not in self.books.closes:
            return
        streaming = trace.request.streaming
        total = self.closed[streaming]
        total.requests += 1
        total.prompt_tokens += trace.request.prompt_tokens
        total.generation_tokens += trace.generated
        total.cached_tokens += trace.cached_tokens
        spans = trace.spans()
        for name in CLOSING_SPANS & spans.keys():
            if name != "tpot" or trace.outcome in self.books.times_tokens_of:
                self.observe(name, spans[name], streaming=streaming)
        for name, size in trace.sizes().items():
            self.observe(name, size)

    def values(self, name: str) -> Iterator[float]:
        """Every value that belongs into the histogram `name`, recomputed from the records, in the unit of its
        ladder.

        Covers the per-request ladders and `itl`; ValueError without records.
        """
        if not self.keep_records:
            raise ValueError("this ledger keeps no records")
        for trace in self.records:
            if name == "itl":
                yield from (gap / MICROS for gap in trace.gaps or ())
            elif name in ("ttft", "queue_admitted", "prefilled"):
                yield from _one(trace.spans(), name, scale=MICROS)
            elif trace.outcome in (self.books.times_tokens_of if name == "tpot" else self.books.closes):
                yield from _one(trace.spans(), name, scale=MICROS)
                yield from _one(trace.sizes(), name, scale=1)


CLOSING_SPANS = frozenset(("queue", "prefill", "decode", "inference", "tpot", "mean_token", "e2e"))


def _one(values: dict[str, int], name: str, *, scale: int) -> Iterator[float]:
    if name in values:
        yield values[name] / scale


def _key(name: str, streaming: bool) -> str:
    return f"{name}/{'true' if streaming else 'false'}"


def count_into(bounds: Ladder, values: Iterable[float]) -> list[int]:
    """Counts per bucket (the last one is +Inf, not cumulative) of values on any ladder."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return counts
