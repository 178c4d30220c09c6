"""The simulator's pages against recorded ones, against a standard parser, and against the ledger."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.demo.config import A100, EngineConfig
from exporter.demo.engine import Engine
from exporter.demo.http import HttpBook
from exporter.demo.ladders import MICROS
from exporter.demo.load import Mix, Wave, arrivals
from exporter.demo.pages import page_of
from exporter.demo.pages.text import python_number, rust_number
from exporter.demo.process import Process

PAGES = Path(__file__).parents[1] / "pages"
CAPTURES = Path(__file__).parents[2].parent / "shared" / "captures"
SAMPLE = re.compile(r"^([^{ ]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([^=,]+)="((?:[^"\\]|\\.)*)"')

VLLM = EngineConfig(
    "vllm",
    "tiny-llama",
    A100,
    block_size=128,
    num_blocks=4095,
    max_model_len=512,
    max_num_seqs=4,
    adapters=("adapter-a", "adapter-b"),
    max_loras=2,
)
SGLANG = replace(VLLM, kind="sglang", block_size=1, num_blocks=532057, max_loras=3)
TGI = EngineConfig("tgi", "tiny-llama", A100, block_size=1, num_blocks=4000, max_model_len=512, max_num_seqs=8)
PLAIN = Mix(
    prompt_tokens=60,
    output_tokens=70,
    max_tokens=120,
    prefix_tokens=128,
    context_tokens=512,
    error_share=0.0,
    abort_share=0.0,
    cut_share=0.0,
    oversized_share=0.0,
    patience_seconds=None,
)
ROUGH = replace(PLAIN, error_share=0.05, abort_share=0.05, cut_share=0.1, oversized_share=0.05, patience_seconds=8.0)


def after_load(config: EngineConfig, *, ranks: int = 1, mix: Mix = PLAIN, seconds: float = 40.0) -> Process:
    """A process that has worked for a while, with requests still running and waiting."""
    if config.adapters:
        mix = replace(mix, adapters=config.adapters)
    http = HttpBook()
    engines = tuple(Engine(config, seed=rank, http=http, keep_records=True) for rank in range(ranks))
    for request in arrivals(Wave(3.0 * ranks), mix, seed=7):
        if request.at > seconds:
            break
        engine = engines[request.number % ranks]
        engine.advance(request.at)
        engine.submit(request)
    for engine in engines:
        engine.advance(seconds)
    return Process(engines, http, lambda at: 1.7e9 + at)


@dataclass
class Shape:
    """What a family looks like on a page, values left out."""

    kind: str
    has_help: bool
    labels: dict[str, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))
    bounds: dict[tuple[tuple[str, str], ...], list[str]] = field(default_factory=lambda: defaultdict(list))
    order: list[str] = field(default_factory=list)


def shapes(page: str) -> dict[str, Shape]:
    """Families of a page in their order."""
    found: dict[str, Shape] = {}
    described: set[str] = set()
    shape: Shape | None = None
    for line in page.splitlines():
        if line.startswith("# HELP "):
            described.add(line.split(" ", 3)[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            shape = found[name] = Shape(kind, name in described)
        elif line:
            match = SAMPLE.match(line)
            assert match is not None, line
            assert shape is not None, line
            pairs = LABEL.findall(match[2] or "")
            shape.labels[match[1]].add(tuple(key for key, _ in pairs))
            if shape.kind == "histogram" and match[1].endswith("_bucket"):
                child = tuple((key, value) for key, value in pairs if key != "le")
                shape.bounds[child].append(dict(pairs)["le"])
            if match[1] not in shape.order:
                shape.order.append(match[1])
    return found


def assert_like(ours: str, recorded: str, *, beyond: frozenset[str] = frozenset(), ordered: bool = True) -> None:
    """Every family of `ours` is on the recorded page in the same form, but those in `beyond`."""
    mine, real = shapes(ours), shapes(recorded)
    assert set(mine) - set(real) <= beyond
    for name in mine.keys() & real.keys():
        assert mine[name].kind == real[name].kind, name
        assert mine[name].has_help == real[name].has_help, name
        assert mine[name].order == real[name].order or not real[name].order or not mine[name].order, name
        for sample, labels in mine[name].labels.items():
            if real[name].order:
                assert labels <= real[name].labels[sample], sample
        ladders = {tuple(bounds) for bounds in real[name].bounds.values()}
        if ladders:
            assert {tuple(bounds) for bounds in mine[name].bounds.values()} <= ladders, name
    if ordered:
        common = [name for name in mine if name in real]
        assert common == [name for name in real if name in mine]


def recorded_elsewhere(name: str) -> str:
    """A page that is read in place; the test is skipped where it is not."""
    path = CAPTURES / name
    if not path.exists():
        pytest.skip(f"no recorded page at {path}")
    return path.read_text()


class TestAgainstRecordedPages:
    def test_idle_vllm(self) -> None:
        page = page_of(Process((Engine(VLLM),), HttpBook())).render()
        recorded = (PAGES / "vllm-0.32.0-idle.prom").read_text()
        assert_like(page, recorded)
        assert list(shapes(page)) == list(shapes(recorded))

    def test_loaded_vllm(self) -> None:
        page = page_of(after_load(VLLM)).render()
        recorded = (PAGES / "vllm-0.32.0-load-queued.prom").read_text()
        assert_like(page, recorded)
        assert list(shapes(page)) == list(shapes(recorded))

    def test_speculating_vllm(self) -> None:
        page = page_of(after_load(replace(VLLM, adapters=(), max_loras=0, draft_tokens=3, acceptance=0.5))).render()
        recorded = (PAGES / "vllm-0.32.0-queue-limit-specdecode-load.prom").read_text()
        assert_like(page, recorded)
        assert list(shapes(page)) == list(shapes(recorded))

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('le="0.25"', 'le="0.26"'),
            ('engine="0",model_name', "model_name"),
            ("# TYPE vllm:num_requests_running gauge", "# TYPE vllm:num_requests_running counter"),
            ("vllm:num_preemptions_total", "vllm:preemptions_total"),
        ],
    )
    def test_the_comparison_sees_a_difference(self, before: str, after: str) -> None:
        page = page_of(after_load(VLLM)).render()
        assert before in page
        with pytest.raises(AssertionError):
            assert_like(page.replace(before, after), (PAGES / "vllm-0.32.0-load-queued.prom").read_text())

    def test_loaded_sglang(self) -> None:
        page = page_of(after_load(SGLANG)).render()
        recorded = (PAGES / "sglang-0.5.23-load-queued.prom").read_text()
        assert_like(page, recorded)
        assert set(shapes(recorded)) == set(shapes(page))

    def test_rough_traffic_adds_only_what_errors_and_aborts_add(self) -> None:
        page = page_of(after_load(SGLANG, mix=ROUGH)).render()
        assert_like(
            page,
            recorded_elsewhere("sglang-0.5.23-after-load-errors-aborts.prom"),
            ordered=False,
        )
        assert "sglang:num_aborted_requests_total" in page
        assert_like(
            page_of(after_load(VLLM, mix=ROUGH)).render(),
            recorded_elsewhere("vllm-0.32.0-after-load-errors-aborts.prom"),
        )

    @pytest.mark.parametrize(("config", "name"), [(VLLM, "vllm-0.32.0-dp2-load.prom"), (SGLANG, "sglang-0.5.23-dp2-load.prom")])
    def test_data_parallel_ranks(self, config: EngineConfig, name: str) -> None:
        process = after_load(EngineConfig(config.kind, "tiny-llama", A100, block_size=128, max_model_len=512), ranks=2)
        only_with_more_events = frozenset(("sglang:inter_token_latency_seconds", "sglang:cached_tokens_total"))
        assert_like(
            page_of(process).render(),
            recorded_elsewhere(name),
            beyond=only_with_more_events,
            ordered=config.kind == "vllm",
        )

    def test_tgi(self) -> None:
        page = page_of(after_load(TGI, mix=ROUGH)).render()
        recorded = recorded_elsewhere("tgi-recorded-by-others.prom")
        never_in_that_record = frozenset(("tgi_batch_max_total_tokens",))
        assert_like(page, recorded, beyond=never_in_that_record, ordered=False)
        assert set(shapes(recorded)) <= set(shapes(page))
        assert page.count("\n\n") == len(shapes(page))
        assert page.endswith("\n\n")

    def test_cache_config_of_ranks_counts_all_blocks_on_each_row(self) -> None:
        page = page_of(after_load(EngineConfig("vllm", "m", num_blocks=4095, block_size=128), ranks=2)).render()
        rows = [line for line in page.splitlines() if line.startswith("vllm:cache_config_info{")]
        assert len(rows) == 2
        assert all('num_gpu_blocks="8192"' in row and 'kv_cache_size_tokens="524288"' in row for row in rows)


def printed_values(page: str) -> list[tuple[str, str]]:
    """Samples of a page as (whole key, value as printed)."""
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    return [(key, value) for key, _, value in (line.rpartition(" ") for line in lines)]


def values(page: str) -> dict[str, float]:
    """Samples of a page by their whole key."""
    return {key: float(value) for key, value in printed_values(page)}


@pytest.mark.parametrize("mix", [PLAIN, ROUGH], ids=["plain", "rough"])
@pytest.mark.parametrize("ranks", [1, 2])
class TestLedgerEqualsPage:
    def test_vllm(self, mix: Mix, ranks: int) -> None:
        process = after_load(VLLM, ranks=ranks, mix=mix)
        shown = values(page_of(process).render())
        for rank, engine in enumerate(process.engines):
            ledger, labels = engine.ledger, f'engine="{rank}",model_name="tiny-llama"'
            for reason in ("stop", "length", "abort", "error"):
                children = f'engine="{rank}",finished_reason="{reason}",model_name="tiny-llama"'
                assert shown[f"vllm:request_success_total{{{children}}}"] == ledger.outcomes[reason]
            assert shown[f"vllm:prompt_tokens_total{{{labels}}}"] == ledger.prompt_tokens > 0
            assert shown[f"vllm:generation_tokens_total{{{labels}}}"] == ledger.generation_tokens > 0
            assert shown[f"vllm:prefix_cache_queries_total{{{labels}}}"] == ledger.prefix_queries > 0
            assert shown[f"vllm:prefix_cache_hits_total{{{labels}}}"] == ledger.prefix_hits > 0
            for family, name in (
                ("time_to_first_token", "ttft"),
                ("inter_token_latency", "itl"),
                ("e2e_request_latency", "e2e"),
            ):
                tally = ledger.tally(name)
                assert shown[f"vllm:{family}_seconds_count{{{labels}}}"] == tally.count > 0
                assert shown[f"vllm:{family}_seconds_sum{{{labels}}}"] == tally.total / MICROS
                running = 0
                for bound, count in zip([*map(python_number, tally.bounds), "+Inf"], tally.counts, strict=True):
                    running += count
                    bucket = f'engine="{rank}",le="{bound}",model_name="tiny-llama"'
                    assert shown[f"vllm:{family}_seconds_bucket{{{bucket}}}"] == running

        answered = sum(value for key, value in shown.items() if key.startswith("http_requests_total{"))
        assert answered == sum(process.http.answered.values()) == shown["http_request_duration_highr_seconds_count"]

    def test_sglang(self, mix: Mix, ranks: int) -> None:
        process = after_load(SGLANG, ranks=ranks, mix=mix)
        shown = values(page_of(process).render())
        ledgers = [engine.ledger for engine in process.engines]
        for streaming, flag in ((True, "true"), (False, "false")):
            labels = f'engine_type="unified",is_streaming="{flag}",model_name="tiny-llama"'
            closed = [ledger.closed[streaming] for ledger in ledgers]
            assert shown[f"sglang:num_requests_total{{{labels}}}"] == sum(part.requests for part in closed) > 0
            assert shown[f"sglang:prompt_tokens_total{{{labels}}}"] == sum(part.prompt_tokens for part in closed)
            assert shown[f"sglang:generation_tokens_total{{{labels}}}"] == sum(part.generation_tokens for part in closed)
            tallies = [ledger.tally("ttft", streaming=streaming) for ledger in ledgers]
            assert shown[f"sglang:time_to_first_token_seconds_count{{{labels}}}"] == sum(tally.count for tally in tallies)
        decoded = sum(
            value for key, value in shown.items() if key.startswith("sglang:realtime_tokens_total{") and '"decode"' in key
        )
        assert 0 < decoded <= sum(ledger.decode_tokens for ledger in ledgers)
        finished = sum(part.generation_tokens for ledger in ledgers for part in ledger.closed.values())
        assert finished < sum(ledger.generation_tokens for ledger in ledgers)


@pytest.mark.parametrize("mix", [PLAIN, ROUGH], ids=["plain", "rough"])
def test_tgi_ledger_equals_page(mix: Mix) -> None:
    process = after_load(TGI, mix=mix)
    shown, ledger = values(page_of(process).render()), process.lead.ledger
    assert shown["tgi_request_count"] == ledger.arrived
    assert shown["tgi_request_success"] == ledger.outcomes["stop"] + ledger.outcomes["length"]
    assert shown["tgi_request_generated_tokens_sum"] == ledger.tally("generated").total > 0
    assert shown["tgi_queue_size"] == process.lead.gauges.waiting
    assert shown.get('tgi_request_failure{err="validation"}', 0) == ledger.refused
    assert shown.get('tgi_request_failure{err="generation"}', 0) == ledger.outcomes["error"]


class TestPages:
    @pytest.mark.parametrize("config", [VLLM, SGLANG, TGI], ids=lambda config: config.kind)
    def test_a_standard_parser_reads_them(self, config: EngineConfig) -> None:
        page = page_of(after_load(config, mix=ROUGH)).render()
        families = list(text_string_to_metric_families(page))
        samples = sum(len(family.samples) for family in families)
        assert samples == sum(1 for line in page.splitlines() if line and not line.startswith("#"))

    @pytest.mark.parametrize("config", [VLLM, SGLANG, TGI], ids=lambda config: config.kind)
    def test_a_page_prepared_early_shows_what_came_later(self, config: EngineConfig) -> None:
        process = after_load(config)
        page = page_of(process)
        before = page.render()
        process.lead.advance(60.0)
        assert page.render() == page_of(process).render() != before

    def test_sglang_shows_decoding_as_of_its_last_log_interval(self) -> None:
        process = after_load(SGLANG)
        shown, engine = values(page_of(process).render()), process.lead
        decoded = [value for key, value in shown.items() if "realtime_tokens_total" in key and '"decode"' in key]
        assert decoded == [engine.gauges.decode_tokens]
        process.lead.advance(40.05)
        assert engine.gauges.decode_tokens < engine.ledger.decode_tokens

    def test_sglang_shows_retractions_once_there_are_any(self) -> None:
        config = EngineConfig("sglang", "m", A100, block_size=1, num_blocks=8300)
        process = after_load(config, mix=Mix(prompt_tokens=900, output_tokens=400), seconds=60.0)
        shown, ledger = values(page_of(process).render()), process.lead.ledger
        retracted = [value for key, value in shown.items() if "num_retracted_requests_total" in key]
        assert retracted == [ledger.preemptions]
        assert ledger.preemptions > 0
        assert "num_retracted_requests_total" not in page_of(after_load(SGLANG)).render()

    def test_tgi_prints_whole_numbers_bare(self) -> None:
        for key, printed in printed_values(page_of(after_load(TGI, mix=ROUGH)).render()):
            assert rust_number(float(printed)) == printed, key
            assert not printed.endswith(".0")

    def test_tgi_shows_nothing_before_its_first_request(self) -> None:
        page = page_of(Process((Engine(TGI),), HttpBook())).render()
        assert set(shapes(page)) == {"tgi_batch_max_total_tokens"}

    def test_label_values_are_escaped(self) -> None:
        config = EngineConfig("vllm", 'org/"odd"\\name')
        page = page_of(Process((Engine(config),), HttpBook())).render()
        family = next(f for f in text_string_to_metric_families(page) if f.name == "vllm:num_requests_running")
        assert family.samples[0].labels["model_name"] == 'org/"odd"\\name'

    def test_filter_keeps_exactly_the_samples_of_the_names(self) -> None:
        page = page_of(after_load(VLLM))
        kept = page.restrict(frozenset(("vllm:num_requests_running", "vllm:e2e_request_latency_seconds_sum")))
        assert {line.partition("{")[0] for line in kept.splitlines() if not line.startswith("#")} == {
            "vllm:num_requests_running",
            "vllm:e2e_request_latency_seconds_sum",
        }
        assert kept.count("# TYPE") == 2
        assert page.restrict(frozenset(("vllm:e2e_request_latency_seconds",))) == ""

    def test_adapter_rows_stay_and_the_newest_is_current(self) -> None:
        process = after_load(VLLM)
        rows = {
            key: value for key, value in values(page_of(process).render()).items() if key.startswith("vllm:lora_requests_info{")
        }
        assert len(rows) > 2
        newest = max(rows, key=lambda key: rows[key])
        assert f'running_lora_adapters="{",".join(process.lead.gauges.adapters)}"' in newest
