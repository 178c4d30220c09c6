"""The queueing model: conservation, exactness, determinism, limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporter.demo.config import A100, H100, L40S, EngineConfig
from exporter.demo.engine import Engine
from exporter.demo.ladders import SGLANG_E2E, VLLM_TTFT
from exporter.demo.ledger import count_into
from exporter.demo.load import Mix, Wave, arrivals
from exporter.demo.pages import page_of
from exporter.demo.process import Process
from exporter.demo.request import Request

TIGHT = {
    "vllm": EngineConfig("vllm", "m", A100, num_blocks=530, max_queue=60),
    "speculating": EngineConfig("vllm", "m", A100, num_blocks=530, max_queue=60, draft_tokens=3, acceptance=0.6),
    "sglang": EngineConfig("sglang", "m", A100, block_size=1, num_blocks=8400),
    "tgi": EngineConfig("tgi", "m", A100, block_size=1, num_blocks=8400),
}
ROUGH = Mix(error_share=0.03, abort_share=0.03, cut_share=0.1, oversized_share=0.02, patience_seconds=25.0)
KINDS = pytest.mark.parametrize("config", list(TIGHT.values()), ids=list(TIGHT))


def request(number: int, at: float = 0.0, **changes: object) -> Request:
    """A request of 100 prompt and 10 output tokens."""
    fields: dict[str, object] = {"prompt_tokens": 100, "output_tokens": 10, "max_tokens": 50}
    return Request(number=number, at=at, **(fields | changes))  # type: ignore[arg-type]


def feed(engine: Engine, *, rate: float, seconds: float, seed: int = 5, mix: Mix = ROUGH) -> Iterator[float]:
    """Give the engine traffic and yield the time of each arrival."""
    for arrival in arrivals(Wave(rate), mix, seed=seed):
        if arrival.at > seconds:
            break
        engine.advance(arrival.at)
        engine.submit(arrival)
        yield arrival.at
    engine.advance(seconds)


def run(config: EngineConfig, *, rate: float = 4.0, seconds: float = 60.0, seed: int = 5, mix: Mix = ROUGH) -> Engine:
    """An engine that has worked under rough load and keeps records."""
    engine = Engine(config, seed=seed, keep_records=True)
    for _ in feed(engine, rate=rate, seconds=seconds, seed=seed, mix=mix):
        pass
    return engine


class TestConservation:
    @KINDS
    def test_arrivals_are_finished_turned_away_or_in_hand(self, config: EngineConfig) -> None:
        engine = Engine(config)
        for _ in feed(engine, rate=4.0, seconds=60.0):
            ledger = engine.ledger
            assert ledger.arrived == ledger.ended + engine.running + engine.waiting
            answered = sum(engine.http.answered.values())
            assert sum(engine.http.begun.values()) == answered + engine.running + engine.waiting
        assert engine.ledger.outcomes["cut"] > 0
        assert engine.ledger.refused > 0
        assert engine.waiting > 0

    @KINDS
    def test_everything_is_given_back_at_the_end(self, config: EngineConfig) -> None:
        engine = run(config)
        engine.advance(5000.0)
        assert engine.running == engine.waiting == 0
        assert engine.ledger.arrived == engine.ledger.ended > 0
        assert engine.scheduler.pool.used == 0
        assert engine.gauges.running == engine.gauges.waiting == engine.gauges.used_blocks == 0

    @KINDS
    def test_tokens_add_up(self, config: EngineConfig) -> None:
        engine = run(config)
        engine.advance(5000.0)
        ledger, records = engine.ledger, engine.ledger.records
        begun = [trace for trace in records if trace.first_token is not None]
        assert ledger.generation_tokens == sum(trace.generated for trace in records)
        assert ledger.prompt_tokens == sum(trace.request.prompt_tokens for trace in begun)
        outputs = ledger.decode_tokens - sum(ledger.accepted_at.values())  # accepted tokens come with another, without a gap
        if config.kind != "tgi":
            assert outputs == ledger.tally("itl").count
        assert ledger.generation_tokens == ledger.decode_tokens + len(begun)
        assert sum(len(trace.gaps or ()) for trace in records) == outputs

    @KINDS
    def test_time_is_busy_or_idle(self, config: EngineConfig) -> None:
        engine = run(config, rate=1.0)
        last = request(10_000_000, at=4000.0)
        engine.advance(4000.0)
        engine.submit(last)
        engine.advance(5000.0)
        last_step_ended = max(trace.ended or 0 for trace in engine.ledger.records)
        assert engine.ledger.busy + engine.ledger.idle == last_step_ended

    @given(rate=st.floats(0.2, 12.0), seed=st.integers(0, 1000), blocks=st.integers(512, 1500))
    @settings(max_examples=12, deadline=None)
    def test_any_load_and_any_size(self, rate: float, seed: int, blocks: int) -> None:
        config = EngineConfig("vllm", "m", L40S, num_blocks=blocks, adapters=("a", "b", "c"), max_loras=2)
        mix = Mix(adapters=("a", "b", "c"), cut_share=0.1)
        engine = Engine(config, seed=seed)
        for _ in feed(engine, rate=rate, seconds=20.0, seed=seed, mix=mix):
            pool = engine.scheduler.pool
            assert 0 <= pool.used <= pool.capacity
            assert pool.free >= 0
            assert engine.ledger.arrived == engine.ledger.ended + engine.running + engine.waiting
            assert len({slot.request.adapter for slot in engine.scheduler.running} - {None}) <= 2
        engine.advance(3000.0)
        assert engine.ledger.arrived == engine.ledger.ended


class TestLedger:
    @KINDS
    def test_histograms_equal_the_records(self, config: EngineConfig) -> None:
        ledger = run(config).ledger
        names = {
            "vllm": (
                "ttft",
                "itl",
                "e2e",
                "queue",
                "prefill",
                "decode",
                "tpot",
                "prompt",
                "generated",
                "computed",
            )
        }
        names |= {"sglang": ("itl", "prompt", "generated", "queue_admitted", "prefilled")}
        names |= {"tgi": ("e2e", "queue", "inference", "mean_token", "generated")}
        for name in names[config.kind]:
            tally = ledger.tally(name)
            assert tally.counts == count_into(tally.bounds, ledger.values(name)), name
            assert tally.count == sum(tally.counts) > 0
            assert tally.sum == pytest.approx(sum(ledger.values(name)), rel=1e-9)

    def test_split_histograms_equal_the_records(self) -> None:
        ledger = run(TIGHT["sglang"]).ledger
        parts = [ledger.tally("e2e", streaming=flag) for flag in (False, True)]
        assert all(part.count for part in parts)
        whole = [sum(pair) for pair in zip(parts[0].counts, parts[1].counts, strict=True)]
        assert whole == count_into(SGLANG_E2E, ledger.values("e2e"))

    def test_records_count_into_any_ladder(self) -> None:
        ledger = run(TIGHT["vllm"]).ledger
        values = list(ledger.values("ttft"))
        assert sum(count_into((0.5, 3.0), values)) == len(values)
        assert count_into(VLLM_TTFT, [0.001, 0.0010001, 1e9]) == [1, 1, *[0] * (len(VLLM_TTFT) - 2), 1]

    def test_no_records_unless_asked(self) -> None:
        engine = Engine(TIGHT["vllm"])
        for _ in feed(engine, rate=2.0, seconds=20.0):
            pass
        assert engine.ledger.records == []
        with pytest.raises(ValueError, match="no records"):
            list(engine.ledger.values("ttft"))

    def test_one_request_in_full(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", H100), keep_records=True)
        engine.submit(request(1, at=2.0))
        engine.advance(2.0)
        assert (engine.running, engine.gauges.running) == (1, 0)
        engine.advance(30.0)
        (trace,) = engine.ledger.records
        assert trace.arrived == trace.scheduled == 2_000_000
        assert trace.outcome == "stop"
        assert trace.generated == 10
        assert trace.first_token is not None
        assert trace.ended is not None
        assert trace.gaps is not None
        assert trace.ended - trace.first_token == sum(trace.gaps)
        assert engine.ledger.tally("e2e").total == trace.ended - trace.arrived
        assert engine.ledger.tally("iteration").total == 100 + 10
        assert engine.ledger.prefix_queries == 100


class TestDeterminism:
    @KINDS
    def test_same_seed_same_history(self, config: EngineConfig) -> None:
        pages = [page_of(Process((engine,), engine.http)).render() for engine in (run(config), run(config))]
        assert pages[0] == pages[1]
        other = run(config, seed=6)
        assert page_of(Process((other,), other.http)).render() != pages[0]

    @KINDS
    def test_it_does_not_matter_how_often_the_clock_is_moved(self, config: EngineConfig) -> None:
        once, often = Engine(config, seed=1), Engine(config, seed=1)
        work = [arrival for arrival, _ in zip(arrivals(Wave(2.0), ROUGH, seed=2), range(60), strict=False)]
        late = Request(999_999, work[-1].at + 300.0, 100, 20, 50)
        for engine in (once, often):
            for arrival in [*work, late]:
                engine.submit(arrival)
        once.advance(work[-1].at + 310.0)
        step = 0.0
        while step < work[-1].at + 309.0:
            step += 0.37
            often.advance(step)
        often.advance(work[-1].at + 310.0)
        assert [page_of(Process((engine,), engine.http)).render() for engine in (once,)] == [
            page_of(Process((engine,), engine.http)).render() for engine in (often,)
        ]


def counters(page: str) -> dict[str, float]:
    """Every sample that may only grow."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        grows = family.type in ("counter", "histogram")
        for sample in family.samples:
            if grows and not sample.name.endswith("_created"):
                found[f"{sample.name}{sorted(sample.labels.items())}"] = sample.value
    return found


@KINDS
def test_counters_on_the_page_never_fall(config: EngineConfig) -> None:
    engine = Engine(config)
    page = page_of(Process((engine,), engine.http))
    before: dict[str, float] = {}
    for _ in feed(engine, rate=4.0, seconds=15.0):
        now = counters(page.render())
        assert not {key for key, value in before.items() if now.get(key, -1.0) < value}
        before = now
    assert len(before) > 100


class TestBehaviour:
    def test_steps_grow_with_the_batch(self) -> None:
        assert A100.seconds(prefill_tokens=0, decoding=64) > A100.seconds(prefill_tokens=0, decoding=1)
        assert A100.seconds(prefill_tokens=2000, decoding=1) > H100.seconds(prefill_tokens=2000, decoding=1)

    def test_batch_and_queue(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", max_num_seqs=2))
        for number in range(5):
            engine.submit(request(number, output_tokens=500, max_tokens=500))
        engine.advance(3.0)
        assert (engine.running, engine.waiting) == (2, 3)
        assert (engine.gauges.running, engine.gauges.waiting) == (2, 3)

    def test_prefix_cache_hits_whole_blocks(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", block_size=16))
        for number in range(2):
            engine.advance(number * 10.0)
            engine.submit(request(number, at=number * 10.0, prefix="shared", prefix_tokens=70))
        engine.advance(30.0)
        assert engine.ledger.prefix_queries == 200
        assert engine.ledger.prefix_hits == 64
        assert engine.ledger.tally("computed").total == 200 - 64
        assert engine.scheduler.pool.evictable == 4

    def test_an_adapter_has_prefixes_of_its_own(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", adapters=("a", "b"), max_loras=2))
        for number, adapter in enumerate(("a", "b", "a")):
            engine.advance(number * 10.0)
            engine.submit(request(number, at=number * 10.0, prefix="p", prefix_tokens=64, adapter=adapter))
        engine.advance(60.0)
        assert engine.ledger.prefix_hits == 64

    def test_preemption_when_blocks_run_out(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", num_blocks=20, block_size=16, max_model_len=320), keep_records=True)
        for number in range(3):
            engine.submit(request(number, output_tokens=120, max_tokens=150))
        shown = 0
        for hundredth in range(20_000):
            engine.advance(hundredth / 100)
            shown = max(shown, engine.gauges.retracted)
        assert shown > 0
        ledger = engine.ledger
        assert ledger.preemptions > 0
        assert ledger.outcomes["stop"] == 3
        assert ledger.generation_tokens == 360
        assert ledger.prompt_tokens == ledger.prefix_queries == 300
        assert ledger.computed_tokens > 300
        assert ledger.tally("preemptions").total == ledger.preemptions

    def test_accepted_tokens_come_in_the_same_step(self) -> None:
        """Sure acceptance: a round gives its own token and all three proposed ones, but never more than were asked for."""
        engine = Engine(EngineConfig("vllm", "m", A100, draft_tokens=3, acceptance=1.0), keep_records=True)
        engine.submit(request(1, output_tokens=10))
        engine.advance(60.0)
        ledger = engine.ledger
        assert ledger.outcomes["stop"] == 1
        assert ledger.generation_tokens == 10
        assert ledger.drafts == 3  # 1 by prefill, then 4, 4 and the last one
        assert ledger.accepted_at == {0: 2, 1: 2, 2: 2}
        assert ledger.tally("itl").count == 3
        assert engine.scheduler.pool.used == 0

    def test_speculation_saves_rounds(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", A100, draft_tokens=3, acceptance=0.6))
        engine.submit(request(1, output_tokens=400, max_tokens=400))
        engine.advance(60.0)
        assert engine.ledger.generation_tokens == 400
        assert 399 / 4 < engine.ledger.drafts < 399 / 1.8  # 2.18 tokens a round on average

    def test_only_vllm_speculates(self) -> None:
        with pytest.raises(ValueError, match="only vLLM"):
            EngineConfig("tgi", "m", A100, draft_tokens=3)

    def test_tgi_reserves_instead_of_preempting(self) -> None:
        engine = Engine(EngineConfig("tgi", "m", num_blocks=500, block_size=1, max_model_len=320))
        for number in range(3):
            engine.submit(request(number, output_tokens=120, max_tokens=150))
        engine.advance(1.0)
        assert (engine.running, engine.waiting) == (2, 1)
        assert engine.gauges.reserved_tokens == 2 * 250
        engine.advance(200.0)
        assert engine.ledger.preemptions == 0
        assert engine.ledger.outcomes["stop"] == 3

    def test_adapters_beyond_the_limit_are_deferred_and_others_pass(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", adapters=("a", "b"), max_loras=1))
        for number, adapter in enumerate(("a", "b", "a", None)):
            engine.submit(request(number, adapter=adapter, output_tokens=200, max_tokens=300))
        engine.advance(1.0)
        assert engine.gauges.running == 3
        assert engine.gauges.waiting == engine.gauges.deferred == 1
        assert engine.gauges.adapters == ("a",)
        assert engine.adapters_running == {"a"}
        assert engine.adapters_waiting == {"b"}
        engine.advance(100.0)
        assert engine.ledger.outcomes["stop"] == 4

    def test_outcomes(self) -> None:
        engine = Engine(EngineConfig("vllm", "m"))
        engine.submit(request(1))
        engine.submit(request(2, output_tokens=60))
        engine.submit(request(3, fault="error"))
        engine.submit(request(4, fault="abort"))
        engine.submit(request(5, output_tokens=50, patience_seconds=0.3))
        assert not engine.submit(request(6, prompt_tokens=9000))
        assert not engine.submit(request(7, adapter="unknown"))
        engine.advance(60.0)
        assert engine.ledger.outcomes == {"stop": 1, "length": 1, "error": 1, "abort": 1, "cut": 1}
        assert engine.ledger.refused == 2
        assert engine.ledger.tally("e2e").count == engine.ledger.finished == 4
        assert engine.ledger.tally("ttft").count == 5

    def test_queue_limit(self) -> None:
        engine = Engine(EngineConfig("vllm", "m", max_num_seqs=1, max_queue=2))
        taken = [engine.submit(request(number)) for number in range(4)]
        assert taken == [True, True, False, False]
        assert engine.ledger.rejected == 2
        assert engine.http.answered["/v1/chat/completions", "POST", 503] == 2

    def test_a_client_can_be_cut_by_hand(self) -> None:
        engine = Engine(EngineConfig("sglang", "m", block_size=1, num_blocks=9000))
        engine.submit(request(1, output_tokens=500, max_tokens=500))
        engine.advance(1.0)
        engine.cut(1)
        engine.cut(77)
        engine.advance(2.0)
        assert engine.ledger.outcomes["cut"] == 1
        assert engine.running == 0
        assert engine.ledger.closed[True].requests == 1

    def test_sglang_gauges_lag_until_a_log_interval(self) -> None:
        engine = Engine(EngineConfig("sglang", "m", block_size=1, num_blocks=9000))
        engine.submit(request(1, output_tokens=11, max_tokens=500))
        engine.advance(10.0)
        assert engine.ledger.outcomes["stop"] == 1
        assert engine.gauges.running == 1
        assert engine.ledger.generation_tokens > engine.gauges.decode_tokens == 0
        engine.advance(45.0)
        assert engine.gauges.running == 0
        assert engine.gauges.decode_tokens == 10

    def test_frozen_engine_holds_still_and_goes_on(self) -> None:
        engine = Engine(EngineConfig("vllm", "m"), keep_records=True)
        engine.submit(request(1, output_tokens=400, max_tokens=400))
        engine.advance(2.0)
        engine.freeze()
        engine.submit(request(2, at=3.0))
        before = engine.ledger.generation_tokens
        engine.advance(22.0)
        assert engine.ledger.generation_tokens == before
        assert engine.waiting == 1
        engine.thaw()
        engine.advance(60.0)
        assert engine.ledger.outcomes["length"] + engine.ledger.outcomes["stop"] == 2
        gaps = engine.ledger.records[0].gaps
        assert gaps is not None
        assert 20_000_000 <= max(gaps) < 20_100_000

    def test_slowdown(self) -> None:
        spent = []
        for factor in (1.0, 4.0):
            engine = Engine(EngineConfig("vllm", "m"))
            engine.slowdown = factor
            engine.submit(request(1))
            engine.advance(60.0)
            spent.append(engine.ledger.busy)
        assert spent[1] == pytest.approx(4 * spent[0], rel=0.001)

    def test_the_clock_does_not_go_back(self) -> None:
        engine = Engine(EngineConfig("vllm", "m"))
        engine.advance(5.0)
        with pytest.raises(ValueError, match="go back"):
            engine.advance(4.0)
        with pytest.raises(ValueError, match="before the clock"):
            engine.submit(request(1, at=4.0))

    def test_a_configuration_must_hold_one_request(self) -> None:
        with pytest.raises(ValueError, match="at least one request"):
            EngineConfig("vllm", "m", num_blocks=10)
        with pytest.raises(ValueError, match="belong together"):
            EngineConfig("vllm", "m", adapters=("a",))
