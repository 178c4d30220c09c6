"""Two lanes to one target: the whole page now and then, in between only what the picker needs, where the engine can filter.

An engine pays for every page it renders, far more than we pay for reading it. vLLM answers `/metrics/?name[]=family`, with that
slash, with these families alone; SGLang has its load as JSON. What such a source leaves out is not known from it, never zero.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from urllib.parse import quote, urlsplit

from collector.clock import Clock, Instant
from collector.engines import ENGINES
from collector.engines.sglang import SGLANG
from collector.engines.spec import Engine, Lookup
from collector.engines.vllm import VLLM
from collector.extract import extract
from collector.model import Failure, Reading, Target, Values
from collector.page import Page, Sample
from collector.read import Body, Fetch, attempt, make_reading, parse, recognise
from collector.reasons import FailureReason, ReadError
from collector.seldom import Seldom
from collector.signals import FAST_SIGNALS, Lane

LOADS_PATH = "/v1/loads"
_LOADS = {"num_running_reqs": ("num_running_reqs", ("requests_running",)),
          "num_waiting_reqs": ("num_queue_reqs", ("requests_waiting",)),
          "token_usage": ("token_usage", ("kv_cache_usage_ratio", "kv_cache_usage_max_ratio")),
          "max_total_num_tokens": ("max_total_num_tokens", ())}  # fmt: skip
"""Field of a rank in SGLang's answer: the family of the same meaning, and the signals that it feeds."""
_UNREACHED = frozenset({FailureReason.TIMEOUT, FailureReason.REFUSED, FailureReason.DNS, FailureReason.TLS,
                        FailureReason.CONNECTION_LOST})  # fmt: skip
"""Failures that say nothing about what the engine can do."""
_DOUBTS_AT_MOST = 3
_TRIED_AGAIN_AFTER_SECONDS = 60.0
"""A short answer that failed is asked for once more after this long: it may have been a moment's trouble."""

_LARGEST = 2.0**63
_NEVER = Instant(0.0, 0.0)


class Way(StrEnum):
    """How the fast lane asks a target."""

    UNTRIED = "not tried yet"
    SHORT = "short answers"
    WHOLE = "whole pages"


@dataclass(slots=True)
class Plan:
    """What the last whole page of a target showed, and so what a short answer has to hold."""

    engine: Engine
    path: str
    names: tuple[str, ...]
    needed: frozenset[str]
    types: Mapping[str, str]
    values: Values
    way: Way = Way.UNTRIED
    doubts: int = 0
    gave_up_at: float = 0.0

    def restarted(self, values: Values) -> bool:
        """Whether these values are of another process than the last whole page."""
        before, now = self.values.progress, values.progress
        fell = before is not None and now is not None and now < before
        return fell or (values.started_at is not None and values.started_at != self.values.started_at)


class Reader:
    """Reads targets in either lane, and remembers of each what its engine can leave out."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._plans: dict[str, Plan] = {}
        self._seldom = Seldom()

    async def __call__(self, target: Target, lane: Lane) -> Reading | Failure:
        """One attempt; never raises for what a target does."""

        async def work() -> Reading:
            plan = self._plans.get(target.key)
            if lane is Lane.FAST and plan is not None and plan.path and self._worth_a_try(plan):
                reading = await self._short(target, plan)
                if reading is not None:
                    return reading
            return await self._whole(target, lane)

        return await attempt(target, lane, work, clock=self._clock, seldom=self._seldom)

    def keep(self, targets: Iterable[Target]) -> None:
        """Forget all other targets."""
        for key in self._plans.keys() - {target.key for target in targets}:
            del self._plans[key]

    def way(self, target: Target) -> Way:
        """How the fast lane asks a target at present."""
        plan = self._plans.get(target.key)
        return Way.UNTRIED if plan is None else plan.way if plan.path else Way.WHOLE

    async def _whole(self, target: Target, lane: Lane) -> Reading:
        body = await self._fetch(target)
        at = self._clock.now()
        page = parse(body)
        engine, lookup = recognise(page, declared=target.engine)
        reading = make_reading(target, lane, page, engine, lookup, at=at)
        plan = make_plan(target, page, engine, reading.rows[target])
        before = self._plans.get(target.key)
        if before is not None and before.engine is engine and not before.restarted(plan.values):
            plan.way, plan.doubts, plan.gave_up_at = before.way, before.doubts, before.gave_up_at
        self._plans[target.key] = plan
        return reading

    def _worth_a_try(self, plan: Plan) -> bool:
        """Whether a short answer is to be asked for; an engine that gave none is asked for one now and then."""
        now = self._clock.now().mono
        if plan.way is Way.WHOLE:
            if now - plan.gave_up_at < _TRIED_AGAIN_AFTER_SECONDS:
                return False
            plan.gave_up_at = now
        return True

    async def _short(self, target: Target, plan: Plan) -> Reading | None:
        """A short answer, or None when the engine does not give a complete one; then its whole page is to be read."""
        try:
            body = await self._fetch(target, plan.path)
            at = self._clock.now()
            reading = (from_loads if plan.engine is SGLANG else from_filtered)(target, plan, body)
        except ReadError as error:
            if error.reason in _UNREACHED:
                raise
            plan.doubts += 1
            if plan.way is Way.UNTRIED or plan.doubts >= _DOUBTS_AT_MOST:
                plan.way, plan.gave_up_at = Way.WHOLE, self._clock.now().mono
            return None
        plan.way, plan.doubts = Way.SHORT, 0
        return replace(reading, at=at)


@cache
def _wire(engine_name: str) -> frozenset[str]:
    engine = ENGINES[engine_name]
    return frozenset(prefix + name for prefix in engine.prefixes for name in fast_names(engine)) | engine.bare


def fast_names(engine: Engine) -> frozenset[str]:
    """Names without prefix of all that the fast lane reads from an engine's page."""
    names = {*engine.progress, *engine.extra}
    wanted = FAST_SIGNALS | {"kv_cache_capacity_tokens"}  # which weighs the ranks
    for signal in wanted:
        names.update(engine.special.get(signal, ()))
    for rule in engine.rules:
        if rule.signal in wanted:
            names.update((*rule.aliases, rule.unless, rule.zero_beside))
    return frozenset(names - {""})


def make_plan(target: Target, page: Page, engine: Engine, values: Values) -> Plan:
    """What to ask for next time, from what a whole page holds."""
    wire = _wire(engine.name)
    names = tuple(sorted(wire & (page.samples.keys() | page.types.keys())))
    types = {family: kind for family, kind in page.types.items() if family in wire}
    return Plan(engine, _path(target, engine, names), names, frozenset(wire & page.samples.keys()), types, values)


def _path(target: Target, engine: Engine, names: Iterable[str]) -> str:
    """Where the engine gives short answers; empty where none are known of, or the page is not the engine's own."""
    parts = urlsplit(target.url)
    if parts.query or parts.path not in ("/metrics", "/metrics/"):
        return ""
    if engine is VLLM:
        return "/metrics/?" + "&".join(f"name[]={quote(name, safe=':')}" for name in names)
    return LOADS_PATH if engine is SGLANG else ""


def from_filtered(target: Target, plan: Plan, body: Body) -> Reading:
    """The reading of a page that was filtered by name. ReadError when it lacks anything that the whole page had."""
    page = parse(body)
    if len(page.types) > len(plan.names):
        raise ReadError(FailureReason.OTHER, "the engine does not filter by name")
    if missing := plan.needed - page.samples.keys() - page.damaged:
        raise ReadError(
            FailureReason.OTHER, f"{len(missing)} families are missing from the filtered page, such as {min(missing)}"
        )
    # A family without series is on the whole page as a declaration alone, and on no filtered one.
    page = Page(page.samples, {**plan.types, **page.types}, page.oddities, page.damaged)
    lookup = plan.engine.look(page)
    if lookup is None:
        raise ReadError(FailureReason.NO_KNOWN_FAMILIES, "nothing of the engine is on the filtered page")
    return make_reading(target, Lane.FAST, page, plan.engine, lookup, at=_NEVER)


def from_loads(target: Target, plan: Plan, body: Body) -> Reading:
    """The reading of SGLang's `/v1/loads`: requests and KV-cache use by data-parallel rank, at this very moment."""
    try:
        ranks = json.loads(body.content)["loads"]
        samples = {family: [Sample({"dp_rank": str(rank["dp_rank"])}, float(rank[field])) for rank in ranks]
                   for field, (family, _) in _LOADS.items() if all(field in rank for rank in ranks)}  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReadError(FailureReason.MALFORMED, f"loads cannot be read: {type(error).__name__}") from error
    if not ranks or not {"num_running_reqs", "num_queue_reqs"} <= samples.keys():
        raise ReadError(FailureReason.MALFORMED, "loads without running and waiting requests")
    if not all(abs(row.value) < _LARGEST for rows in samples.values() for row in rows):
        raise ReadError(FailureReason.MALFORMED, "loads with a number beyond measure")
    page = Page(samples, {})
    only = frozenset(signal for family, signals in _LOADS.values() if family in samples for signal in signals)
    values = extract(plan.engine, Lookup(samples, frozenset(), page.oddities), only)
    values = replace(values, model=plan.values.model)
    return Reading(target=target, lane=Lane.FAST, at=_NEVER, engine=plan.engine.name, rows={target: values},
                   oddities=dict(page.oddities), only=only)  # fmt: skip
