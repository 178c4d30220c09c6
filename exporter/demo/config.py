"""The fixed facts of one simulated engine: what it runs on, how it batches, how much it can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from exporter.demo.request import Kind

VERSIONS: dict[Kind, str] = {"vllm": "0.32.0", "sglang": "0.5.23", "tgi": "3.3.7"}


@dataclass(frozen=True, slots=True)
class Accelerator:
    """How fast one replica computes: prefill in tokens per second, a decode step as a base plus a part for
    each request in the batch.
    """

    name: str
    prefill_tokens_per_second: float
    step_seconds: float
    step_seconds_per_request: float

    def seconds(self, *, prefill_tokens: int, decoding: int) -> float:
        """Duration of one step."""
        return self.step_seconds + self.step_seconds_per_request * decoding + prefill_tokens / self.prefill_tokens_per_second


H100 = Accelerator("H100", prefill_tokens_per_second=22_000.0, step_seconds=0.019, step_seconds_per_request=0.00035)
A100 = Accelerator("A100", prefill_tokens_per_second=10_500.0, step_seconds=0.031, step_seconds_per_request=0.00055)
L40S = Accelerator("L40S", prefill_tokens_per_second=5_200.0, step_seconds=0.045, step_seconds_per_request=0.0011)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine (one data-parallel rank of a pod).

    With `draft_tokens`, each decode step of a request proposes that many; each is accepted with the probability `acceptance`
    if all before it were.
    `num_blocks` counts blocks that requests can use. `max_queue` limits waiting requests; beyond it the front
    end turns requests away.
    """

    kind: Kind
    model: str
    accelerator: Accelerator = H100
    max_num_seqs: int = 64
    max_batched_tokens: int = 2048
    block_size: int = 16
    num_blocks: int = 6000
    max_model_len: int = 8192
    max_queue: int | None = None
    adapters: tuple[str, ...] = ()
    max_loras: int = 0
    draft_tokens: int = 0
    acceptance: float = 0.0

    def __post_init__(self) -> None:
        if self.num_blocks * self.block_size < self.max_model_len:
            raise ValueError("the KV cache must hold at least one request of max_model_len tokens")
        if bool(self.adapters) != bool(self.max_loras):
            raise ValueError("adapters and max_loras belong together")
        if self.draft_tokens and (self.kind != "vllm" or not 0 <= self.acceptance <= 1):
            raise ValueError("only vLLM speculates here, and acceptance is a probability")
        if min(self.max_num_seqs, self.max_batched_tokens, self.block_size) < 1:
            raise ValueError("max_num_seqs, max_batched_tokens and block_size are at least 1")

    @property
    def version(self) -> str:
        """The release whose pages are rendered."""
        return VERSIONS[self.kind]

    @property
    def log_every_steps(self) -> int:
        """Decode steps between two refreshes of the gauges: SGLang sets them at its log interval only."""
        return 40 if self.kind == "sglang" else 1

    @property
    def reserves_output(self) -> bool:
        """Whether room for the whole output is taken on admission (TGI): nothing is ever preempted."""
        return self.kind == "tgi"

    @property
    def capacity_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.num_blocks * self.block_size

    def on(self, accelerator: Accelerator) -> Self:
        """The same engine on another accelerator."""
        return replace(self, accelerator=accelerator)
