"""One inference request, as its client sends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["vllm", "sglang", "tgi"]
Outcome = Literal["stop", "length", "abort", "error", "cut"]

OUTCOMES: tuple[Outcome, ...] = ("stop", "length", "abort", "error", "cut")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a client asks for, and how the model will behave towards it.

    `output_tokens` is where the model would stop by itself, `max_tokens` where the engine ends it. `fault`
    makes the engine abort or fail it at that same token. With `patience_seconds` the client closes its
    connection once that long has passed since `at` (outcome `cut`). The first `prefix_tokens` of the prompt
    are the shared text named by `prefix`.
    """

    number: int
    at: float
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    prefix: str | None = None
    prefix_tokens: int = 0
    adapter: str | None = None
    patience_seconds: float | None = None
    fault: Literal["abort", "error"] | None = None
    streaming: bool = True
    path: str = "/v1/chat/completions"

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1 or self.max_tokens < 1:
            raise ValueError("a request has at least one prompt token and one output token")
        if not 0 <= self.prefix_tokens < self.prompt_tokens:
            raise ValueError("the prompt goes on after the shared prefix")

    @property
    def total_output_tokens(self) -> int:
        """Tokens that will be generated unless the client goes away first."""
        return min(self.output_tokens, self.max_tokens)

    @property
    def natural_outcome(self) -> Outcome:
        """How the request ends unless the client goes away first."""
        if self.fault is not None:
            return self.fault
        return "length" if self.output_tokens >= self.max_tokens else "stop"
