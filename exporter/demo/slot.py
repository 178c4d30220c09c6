"""A request inside an engine, and the gauges that the engine last set."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.demo.ledger import Trace
from exporter.demo.request import Request


@dataclass(slots=True, eq=False)
class Slot:
    """Work on one request: `target` tokens are known (prompt and output), `computed` of them have KV entries
    in `blocks` blocks.
    """

    trace: Trace
    target: int
    computed: int = 0
    blocks: int = 0
    shared: int = 0
    running: bool = False

    @property
    def request(self) -> Request:
        """The request worked on."""
        return self.trace.request

    @property
    def prefix(self) -> str:
        """Key of the shared prefix in the cache: an adapter changes the KV entries, so it is part of it."""
        return f"{self.trace.request.adapter}/{self.trace.request.prefix}"


@dataclass(slots=True)
class Gauges:
    """What the engine shows; it lags behind the truth as the real one does."""

    at: int = 0
    running: int = 0
    waiting: int = 0
    deferred: int = 0
    used_blocks: int = 0
    evictable_blocks: int = 0
    sequence_tokens: int = 0
    reserved_tokens: int = 0
    throughput: float = 0.0
    hit_rate: float = 0.0
    decode_tokens: int = 0
    retracted: int = 0
    adapters: tuple[str, ...] = ()
