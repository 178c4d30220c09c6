"""Continuous batching with chunked prefill: which request computes how many tokens in the next step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from exporter.demo.blocks import BlockPool
from exporter.demo.config import EngineConfig
from exporter.demo.ledger import Ledger
from exporter.demo.slot import Slot


@dataclass(slots=True)
class Step:
    """One planned forward pass."""

    tokens: list[tuple[Slot, int]] = field(default_factory=list)
    prefill_tokens: int = 0
    decoding: int = 0
    admitted: int = 0
    cached: int = 0
    joined: bool = False


class Scheduler:
    """Waiting queue, running batch and KV blocks of one engine: first come, first served; the youngest is
    preempted first.
    """

    def __init__(self, config: EngineConfig, ledger: Ledger) -> None:
        self.config = config
        self.ledger = ledger
        self.pool = BlockPool(config.num_blocks)
        self.waiting: deque[Slot] = deque()
        self.running: list[Slot] = []
        self.deferred = 0
        self.preempted = 0

    def plan(self, now: int) -> Step:
        """Choose the work of the step that starts at `now`; an empty step means nothing to do."""
        step = Step()
        self.preempted = 0
        budget = self.config.max_batched_tokens
        for slot in tuple(self.running):
            if slot.running and budget:
                budget -= self._continue(slot, step, budget)
        step.joined = bool(step.tokens)
        self.deferred = 0
        if not self.preempted and self.waiting:
            self._admit(now, step, budget)
        step.joined = step.joined and step.admitted > 0
        return step

    def release(self, slot: Slot) -> None:
        """Give back everything that a request holds."""
        self.pool.give(slot.blocks - slot.shared)
        if slot.shared:
            self.pool.detach(slot.prefix)
        slot.blocks = slot.shared = slot.computed = 0
        slot.running = False

    def remove(self, slot: Slot) -> None:
        """Take a request out, wherever it is."""
        if slot.running:
            self.running.remove(slot)
            self.release(slot)
        else:
            self.waiting.remove(slot)

    def prefilled(self, slot: Slot) -> None:
        """Offer the prefix of a request whose prompt is computed to later requests."""
        if slot.request.prefix is not None and not slot.shared:
            blocks = self._prefix_blocks(slot)
            if self.pool.publish(slot.prefix, blocks):
                slot.shared = blocks

    def _continue(self, slot: Slot, step: Step, budget: int) -> int:
        missing = slot.target - slot.computed
        tokens = min(missing, budget)
        decodes = missing == 1 and bool(slot.trace.generated)
        if not self._grow(slot, slot.computed + tokens + (self.config.draft_tokens if decodes else 0)):
            return 0
        step.tokens.append((slot, tokens))
        if decodes:
            step.decoding += 1
        else:
            step.prefill_tokens += tokens
        return tokens

    def _grow(self, slot: Slot, tokens: int) -> bool:
        need = -(-tokens // self.config.block_size) - slot.blocks
        if need <= 0:
            return True
        while not self.pool.take(need):
            victim = self.running.pop()
            self._preempt(victim)
            if victim is slot:
                return False
        slot.blocks += need
        return True

    def _preempt(self, slot: Slot) -> None:
        self.release(slot)
        self.preempted += 1
        slot.trace.preemptions += 1
        self.ledger.preemptions += 1
        self.ledger.preempted_input_tokens += slot.request.prompt_tokens
        self.ledger.preempted_output_tokens += slot.trace.generated
        self.waiting.appendleft(slot)

    def _admit(self, now: int, step: Step, budget: int) -> None:
        adapters = {slot.request.adapter for slot in self.running} - {None}
        passed_over: list[Slot] = []
        while self.waiting and budget and len(self.running) < self.config.max_num_seqs:
            slot = self.waiting[0]
            adapter = slot.request.adapter
            if adapter is not None and adapter not in adapters and len(adapters) >= self.config.max_loras:
                passed_over.append(self.waiting.popleft())
                continue
            tokens = self._enter(slot, now, step, budget)
            if not tokens:
                break
            budget -= tokens
            if adapter is not None:
                adapters.add(adapter)
        self.deferred = len(passed_over)
        self.waiting.extendleft(reversed(passed_over))

    def _enter(self, slot: Slot, now: int, step: Step, budget: int) -> int:
        hit = self._cached_blocks(slot)
        cached = hit * self.config.block_size
        tokens = min(slot.target - cached, budget)
        room = cached + tokens
        if self.config.reserves_output:
            room = slot.request.prompt_tokens + slot.request.max_tokens
        blocks = -(-room // self.config.block_size)
        if not self.pool.take(blocks - hit):
            if hit:
                self.pool.detach(slot.prefix)
            return 0
        slot.blocks, slot.shared, slot.computed, slot.running = blocks, hit, cached, True
        self.running.append(self.waiting.popleft())
        self._book_entry(slot, now, cached)
        step.tokens.append((slot, tokens))
        step.prefill_tokens += tokens
        step.cached += cached
        step.admitted += 1
        return tokens

    def _cached_blocks(self, slot: Slot) -> int:
        if slot.request.prefix is None:
            return 0
        hit = self.pool.attach(slot.prefix)
        if hit * self.config.block_size > slot.request.prefix_tokens:
            # The cached text of this name is longer than what this prompt shares.
            self.pool.detach(slot.prefix)
            return 0
        return hit

    def _book_entry(self, slot: Slot, now: int, cached: int) -> None:
        self.ledger.cache_tokens_loaded += cached
        if slot.trace.scheduled is None:
            slot.trace.scheduled = now
            slot.trace.cached_tokens = cached
            self.ledger.prefix_queries += slot.request.prompt_tokens
            self.ledger.prefix_hits += cached
            self.ledger.observe("queue_admitted", now - slot.trace.arrived)

    def _prefix_blocks(self, slot: Slot) -> int:
        return slot.request.prefix_tokens // self.config.block_size
