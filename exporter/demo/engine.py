"""A queueing model of one LLM inference engine, moved by an explicit clock and exact about what it did.

Arrivals come from outside. Between two calls of `advance` nothing moves. Inside, time is a whole number of
microseconds, so that every total of the ledger is exact and does not depend on how often `advance` is called.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from random import Random

from exporter.demo.config import EngineConfig
from exporter.demo.http import HttpBook
from exporter.demo.ladders import MICROS, books_for
from exporter.demo.ledger import Ledger, Trace
from exporter.demo.request import Outcome, Request
from exporter.demo.schedule import Scheduler, Step
from exporter.demo.slot import Gauges, Slot

IDLE_LOG_MICROS = 30 * MICROS
STATUS: dict[Outcome, int] = {"stop": 200, "length": 200, "abort": 200, "cut": 200, "error": 500}


class Engine:
    """One engine: `submit` requests, `advance` its clock, read `ledger` (truth) and `gauges` (what it shows).

    `seed` fixes the small jitter of step times. `keep_records` keeps a trace of every request in the ledger,
    which grows without end.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        seed: int = 0,
        started_at: float = 0.0,
        http: HttpBook | None = None,
        keep_records: bool = False,
    ) -> None:
        self.config = config
        self.ledger = Ledger(books_for(config.kind, max_model_len=config.max_model_len), keep_records)
        self.http = http or HttpBook()
        self.started = round(started_at * MICROS)
        self.scheduler = Scheduler(config, self.ledger)
        self.gauges = Gauges(at=self.started)
        self.adapter_mixes: dict[tuple[str, ...], int] = {}
        self.slowdown = 1.0
        self._random = Random(seed)
        self._now = self.started
        self._free_at = self.started
        self._frozen_at: int | None = None
        self._inbox: deque[Slot] = deque()
        self._slots: dict[int, Slot] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._step = Step()
        self._step_took = 0
        self._step_ends: int | None = None
        self._logged_decode = 0

    @property
    def now(self) -> float:
        """Seconds that the clock shows."""
        return self._now / MICROS

    @property
    def running(self) -> int:
        """Requests in the batch, in truth."""
        return len(self.scheduler.running)

    @property
    def waiting(self) -> int:
        """Requests in the queue, in truth, those included that the engine has not yet looked at."""
        return len(self.scheduler.waiting) + len(self._inbox)

    @property
    def adapters_running(self) -> frozenset[str]:
        """Adapters of the batch, in truth."""
        return _adapters(self.scheduler.running)

    @property
    def adapters_waiting(self) -> frozenset[str]:
        """Adapters of waiting requests, in truth; one of them may run as well."""
        return _adapters((*self.scheduler.waiting, *self._inbox))

    @property
    def frozen(self) -> bool:
        """Whether the engine stands still."""
        return self._frozen_at is not None

    @property
    def load(self) -> int:
        """How busy the engine looks to a router that weighs waiting requests four times."""
        return self.running + 4 * self.waiting

    def submit(self, request: Request) -> bool:
        """Hand in a request that arrives at `request.at`, which is not before the clock; False when it is
        turned away at once.
        """
        at = round(request.at * MICROS)
        if at < self._now:
            raise ValueError(f"request {request.number} arrives at {request.at}, before the clock {self.now}")
        if request.number in self._slots:
            raise ValueError(f"request {request.number} is already here")
        self.ledger.arrived += 1
        self.http.begin(request.path)
        if self._turned_away(request, at):
            return False
        slot = Slot(Trace(request, at, gaps=[] if self.ledger.keep_records else None), request.prompt_tokens)
        if self.ledger.keep_records:
            self.ledger.records.append(slot.trace)
        self._slots[request.number] = slot
        self._inbox.append(slot)
        if request.patience_seconds is not None:
            heapq.heappush(self._deadlines, (at + round(request.patience_seconds * MICROS), request.number))
        return True

    def cut(self, number: int) -> None:
        """The client of a request closes its connection now; the engine notices at its next step. Unknown
        numbers are ignored.
        """
        heapq.heappush(self._deadlines, (self._now, number))

    def advance(self, to_seconds: float) -> None:
        """Move the clock to `to_seconds` (never back) and do all the work until then; a step under way stays
        under way.
        """
        to = round(to_seconds * MICROS)
        if to < self._now:
            raise ValueError(f"the clock cannot go back from {self.now} to {to_seconds}")
        if self._frozen_at is None:
            while (at := self._next_event()) is not None and at <= to:
                if self._step_ends is not None:
                    self._finish_step(at)
                self._begin_step(at)
            if self._step_ends is None:
                self._log_idle(to)
        self._now = to

    def freeze(self) -> None:
        """Stand still from now on: requests come in, nothing is computed, nothing that is shown moves."""
        if self._frozen_at is None:
            self._frozen_at = self._now

    def thaw(self) -> None:
        """Go on from where the engine stood still."""
        if self._frozen_at is None:
            return
        if self._step_ends is not None:
            self._step_ends += self._now - self._frozen_at
        self._free_at = self._now
        self._frozen_at = None

    def lose_all(self) -> None:
        """The process dies: whatever is in hand is lost."""
        self.ledger.lost += len(self._slots)
        self._slots.clear()
        self._inbox.clear()
        self.scheduler.waiting.clear()
        self.scheduler.running.clear()
        self._step_ends = None

    def _turned_away(self, request: Request, at: int) -> bool:
        if request.prompt_tokens + request.max_tokens > self.config.max_model_len:
            self.ledger.refused += 1
            status = 422 if self.config.kind == "tgi" else 400
        elif request.adapter is not None and request.adapter not in self.config.adapters:
            self.ledger.refused += 1
            status = 404
        elif self.config.max_queue is not None and self.waiting >= self.config.max_queue:
            self.ledger.rejected += 1
            status = 429 if self.config.kind == "tgi" else 503
        else:
            return False
        self.http.answer(request.path, status, at=at, took=2000, sent=request.prompt_tokens, got=0)
        return True

    def _next_event(self) -> int | None:
        if self._step_ends is not None:
            return self._step_ends
        return max(self._inbox[0].trace.arrived, self._free_at) if self._inbox else None

    def _begin_step(self, at: int) -> None:
        if at > self._free_at:
            self._log_idle(at)
            self.ledger.idle += at - self._free_at
        self._take_in(at)
        self._drop_cut(at)
        step = self.scheduler.plan(at)
        if not step.tokens:
            self._step_ends, self._free_at = None, at
            return
        seconds = self.config.accelerator.seconds(prefill_tokens=step.prefill_tokens, decoding=step.decoding)
        took = max(1, round(seconds * self.slowdown * self._random.uniform(0.95, 1.05) * MICROS))
        self._step, self._step_took, self._step_ends = step, took, at + took

    def _book_step(self, step: Step, took: int) -> None:
        ledger = self.ledger
        ledger.busy += took
        ledger.computed_tokens += step.prefill_tokens
        ledger.steps += 1
        ledger.prefill_steps += step.prefill_tokens > 0
        ledger.decode_steps += step.decoding > 0
        if self.config.kind != "tgi":
            return
        method = "prefill" if step.prefill_tokens else "decode"
        for part, share in (
            ("batch", took),
            ("forward", took * 97 // 100),
            ("select", took // 50),
            ("filter", took // 100),
        ):
            ledger.observe(f"{part}_{method}", share)
        if step.admitted:
            ledger.observe("next_size", step.admitted)
        if step.joined:
            ledger.joins += 1
            ledger.observe("concat", 1400)

    def _log_idle(self, to: int) -> None:
        # Whole intervals since the last time, so that the result does not depend on when anybody looks.
        if intervals := (to - self.gauges.at) // IDLE_LOG_MICROS:
            self._set_gauges(self.gauges.at + intervals * IDLE_LOG_MICROS)

    def _take_in(self, at: int) -> None:
        while self._inbox and self._inbox[0].trace.arrived <= at:
            slot = self._inbox.popleft()
            self.scheduler.waiting.append(slot)
            self.ledger.observe("taken_in", 22)
            self.ledger.observe("validation", 190)
            self.ledger.observe("input_length", slot.request.prompt_tokens)
            self.ledger.observe("max_new_tokens", slot.request.max_tokens)

    def _drop_cut(self, at: int) -> None:
        while self._deadlines and self._deadlines[0][0] <= at:
            slot = self._slots.get(heapq.heappop(self._deadlines)[1])
            if slot is not None:
                self.scheduler.remove(slot)
                self._end(slot, "cut", at)

    def _finish_step(self, at: int) -> None:
        self._book_step(self._step, self._step_took)
        gaps: dict[int, int] = {}
        iteration = 0
        ended: list[Slot] = []
        for slot, tokens in self._step.tokens:
            slot.computed += tokens
            if slot.computed < slot.target:
                continue
            iteration += self._emit(slot, at, gaps)
            if slot.trace.generated >= slot.request.total_output_tokens:
                ended.append(slot)
        for gap, times in gaps.items():
            self.ledger.observe("itl", gap, times=times)
        self.ledger.observe("iteration", iteration)
        for slot in ended:
            self.scheduler.remove(slot)
            self._end(slot, slot.request.natural_outcome, at)
        self._step_ends, self._free_at = None, at
        if self._step.prefill_tokens or self.ledger.steps % self.config.log_every_steps == 0:
            self._set_gauges(at)

    def _emit(self, slot: Slot, at: int, gaps: dict[int, int]) -> int:
        trace = slot.trace
        accepted = self._accepted(slot)
        tokens = 1 + accepted
        trace.generated += tokens
        slot.target += tokens
        slot.computed += accepted
        self.ledger.generation_tokens += tokens
        if trace.last_token is None:
            trace.first_token = at
            self.ledger.first_token(trace)
            self.scheduler.prefilled(slot)
            tokens += trace.computed_tokens
        else:
            gap = at - trace.last_token
            gaps[gap] = gaps.get(gap, 0) + 1
            self.ledger.decode_tokens += tokens
            if trace.gaps is not None:
                trace.gaps.append(gap)
        trace.last_token = at
        return tokens

    def _accepted(self, slot: Slot) -> int:
        """Tokens of the draft that this step of a request adds beside its own one."""
        if not self.config.draft_tokens or slot.trace.last_token is None:
            return 0
        self.ledger.drafts += 1
        room = min(self.config.draft_tokens, slot.request.total_output_tokens - slot.trace.generated - 1)
        accepted = 0
        while accepted < room and self._random.random() < self.config.acceptance:
            self.ledger.accepted_at[accepted] = self.ledger.accepted_at.get(accepted, 0) + 1
            accepted += 1
        return accepted

    def _end(self, slot: Slot, outcome: Outcome, at: int) -> None:
        trace = slot.trace
        trace.outcome, trace.ended = outcome, at
        del self._slots[slot.request.number]
        self.ledger.end(trace)
        self.http.answer(
            slot.request.path,
            STATUS[outcome],
            at=at,
            took=at - trace.arrived,
            sent=slot.request.prompt_tokens,
            got=trace.generated,
        )

    def _set_gauges(self, at: int) -> None:
        shown, scheduler, ledger, step = self.gauges, self.scheduler, self.ledger, self._step
        if self.config.kind == "sglang":
            elapsed = (at - shown.at) / MICROS
            shown.throughput = (ledger.decode_tokens - self._logged_decode) / elapsed if elapsed else 0.0
            shown.sequence_tokens = sum(slot.computed for slot in scheduler.running)
            if step.admitted:
                shown.hit_rate = step.cached / (step.cached + step.prefill_tokens)
        elif self.config.kind == "tgi":
            shown.reserved_tokens = sum(slot.request.prompt_tokens + slot.request.max_tokens for slot in scheduler.running)
        self._logged_decode = shown.decode_tokens = ledger.decode_tokens
        shown.at = at
        shown.running, shown.waiting = len(scheduler.running), len(scheduler.waiting)
        shown.deferred = min(scheduler.deferred, shown.waiting)
        shown.used_blocks, shown.evictable_blocks = scheduler.pool.used, scheduler.pool.evictable
        shown.retracted = scheduler.preempted
        if self.config.adapters:
            names = (slot.request.adapter for slot in scheduler.running)
            shown.adapters = tuple(dict.fromkeys(name for name in names if name is not None))
            self.adapter_mixes[shown.adapters] = at


def _adapters(slots: Iterable[Slot]) -> frozenset[str]:
    return frozenset(slot.request.adapter for slot in slots if slot.request.adapter is not None)
