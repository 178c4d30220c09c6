"""The fast lane: short answers where the engine gives complete ones, whole pages else, tried anew after a restart."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from collector.clock import SystemClock
from collector.http import open_fetch
from collector.lanes import Reader, Way
from collector.model import Failure, Reading, Target, Values
from collector.reasons import FailureReason
from collector.signals import FAST_SIGNALS, Lane
from tests.net.engines import filtered
from tests.net.scripted import Server, answer, serving
from tests.net.test_fetch import target

PAGES = Path(__file__).parents[1] / "pages"
VLLM = (PAGES / "vllm-0.32.0-load-queued.prom").read_bytes()
LORA = (PAGES / "vllm-0.32.0-lora-running-waiting.prom").read_bytes()
SGLANG = (PAGES / "sglang-0.5.23-load-queued.prom").read_bytes()
MIB = 1 << 20


@dataclass
class Engine:
    """A scripted engine: what its whole page is, what it answers to a filter and to /v1/loads."""

    page: bytes = VLLM
    short: Callable[[bytes, set[str]], bytes] = filtered
    loads: bytes = answer(b'{"detail":"Not Found"}', "404 Not Found")
    asked: list[str] = field(default_factory=list)

    async def __call__(self, server: Server, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(server.paths[-1])
        names = parse_qs(parts.query).get("name[]", [])
        self.asked.append("loads" if parts.path == "/v1/loads" else "short" if names and parts.path == "/metrics/" else "whole")
        raw = answer(self.page)
        if self.asked[-1] == "loads":
            raw = self.loads
        elif self.asked[-1] == "short":
            found = self.short(self.page, set(names))
            raw = found if found.startswith(b"HTTP/") else answer(found)
        writer.write(raw)
        await writer.drain()


@dataclass
class Looks:
    """A reader on a scripted engine."""

    reader: Reader
    target: Target

    async def __call__(self, *lanes: Lane) -> list[Reading]:
        outcomes = [await self.reader(self.target, lane) for lane in lanes]
        assert all(isinstance(one, Reading) for one in outcomes), outcomes
        return [one for one in outcomes if isinstance(one, Reading)]

    @property
    def way(self) -> Way:
        return self.reader.way(self.target)


class looking:
    """`async with looking(engine) as look`: a server, a client and a reader."""

    def __init__(self, engine: Engine, path: str = "/metrics") -> None:
        self.engine, self.path = engine, path

    async def __aenter__(self) -> Looks:
        self._serving = serving(self.engine)
        server = await self._serving.__aenter__()
        self._client = open_fetch(deadline_seconds=5.0, max_body=MIB)
        one = target(server.url.replace("/metrics", self.path))
        return Looks(Reader(await self._client.__aenter__(), SystemClock()), one)

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(None, None, None)
        await self._serving.__aexit__(None, None, None)


def values(reading: Reading) -> Values:
    (found,) = reading.rows.values()
    return found


FULL, FAST = Lane.FULL, Lane.FAST


WHOLE_PAGES = {path.stem: path.read_bytes() for path in sorted(PAGES.glob("vllm-*.prom"))}
FILTERABLE = sorted(name for name, page in WHOLE_PAGES.items()
                    if b"\nvllm:num_requests_running{" in page and b"# EOF" not in page and "filter" not in name)  # fmt: skip


@pytest.mark.parametrize("name", FILTERABLE)
async def test_a_short_answer_says_what_the_whole_page_says_of_the_fast_signals(name: str) -> None:
    engine = Engine(WHOLE_PAGES[name])
    async with looking(engine) as look:
        whole, short = await look(FULL, FAST)
        assert look.way is Way.SHORT
    assert engine.asked == ["whole", "short"]
    assert short.covers == FAST_SIGNALS
    assert dict(values(short).gauges) == {name: value for name, value in values(whole).gauges.items() if name in FAST_SIGNALS}
    fast_counters = {key: value for key, value in values(whole).counters.items() if key[0] in FAST_SIGNALS}
    assert dict(values(short).counters) == fast_counters
    for what in ("adapters", "progress", "started_at", "model"):
        assert getattr(values(short), what) == getattr(values(whole), what), what


async def test_a_short_answer_is_short() -> None:
    sent: list[int] = []

    def measured(page: bytes, names: set[str]) -> bytes:
        sent.append(len(filtered(page, names)))
        return filtered(page, names)

    async with looking(Engine(short=measured)) as look:
        await look(FULL, FAST)
    assert sent[0] < len(VLLM) / 15


async def test_the_first_look_is_at_the_whole_page_in_either_lane() -> None:
    engine = Engine()
    async with looking(engine) as look:
        await look(FAST, FAST, FULL, FAST)
    assert engine.asked == ["whole", "short", "whole", "short"]


@pytest.mark.parametrize(
    "short",
    [
        lambda page, names: b"",
        lambda page, names: filtered(page, names - {"vllm:num_requests_waiting"}),
        lambda page, names: answer(b"", "404 Not Found"),
        lambda page, names: answer(b"<html>"),
        lambda page, names: answer(b"", "307 Moved", {"Location": "http://elsewhere.invalid/"}),
        lambda page, names: page,
    ],
    ids=["empty, as in multiprocess mode", "one family short", "not found", "html", "moved away", "the whole page"],
)
async def test_an_engine_that_does_not_filter_is_asked_once_and_never_again(short: Callable[[bytes, set[str]], bytes]) -> None:
    engine = Engine(short=short)
    async with looking(engine) as look:
        _, first, *_ = await look(FULL, FAST, FAST, FULL, FAST)
        assert look.way is Way.WHOLE
    assert engine.asked == ["whole", "short", "whole", "whole", "whole", "whole"]
    assert (first.lane, first.covers) == (FAST, FAST_SIGNALS)
    assert values(first).gauges["requests_waiting"] > 0


async def test_it_is_asked_again_after_a_restart() -> None:
    engine = Engine(short=lambda page, names: b"")
    async with looking(engine) as look:
        await look(FULL, FAST, FAST)
        engine.page = VLLM.replace(b"process_start_time_seconds 1", b"process_start_time_seconds 2")
        assert engine.page != VLLM
        engine.short = filtered
        await look(FULL, FAST)
        assert look.way is Way.SHORT
    assert engine.asked == ["whole", "short", "whole", "whole", "whole", "short"]


async def test_a_fall_of_the_progress_counters_is_a_restart_too() -> None:
    bare = b"\n".join(line for line in VLLM.split(b"\n") if b"process_start_time" not in line)
    engine = Engine(bare, short=lambda page, names: b"")
    async with looking(engine) as look:
        await look(FULL, FAST)
        engine.page = b"\n".join(line.rpartition(b" ")[0] + b" 0.0" if b"tokens_total" in line and line[:1] != b"#" else line
                                 for line in bare.split(b"\n"))  # fmt: skip
        engine.short = filtered
        await look(FULL, FAST)
        assert look.way is Way.SHORT


async def test_one_bad_short_answer_is_no_end_of_them() -> None:
    engine = Engine()
    async with looking(engine) as look:
        await look(FULL, FAST)
        engine.short = lambda page, names: answer(b"", "500 Oh")
        await look(FAST)
        engine.short = filtered
        await look(FAST)
        assert look.way is Way.SHORT
        engine.short = lambda page, names: answer(b"", "500 Oh")
        await look(FAST, FAST, FAST)
        assert look.way is Way.WHOLE
        await look(FAST)
    assert engine.asked[-2:] == ["whole", "whole"]


async def test_a_family_that_lost_its_first_series_is_no_gap_in_the_short_answer() -> None:
    """Adapters: without one in use the whole page only declares the family, and the short one does not show it at all."""
    idle = b"\n".join(line for line in LORA.split(b"\n") if not line.startswith(b"vllm:lora_requests_info{"))
    engine = Engine(idle)
    async with looking(engine) as look:
        whole, short = await look(FULL, FAST)
        assert values(short).adapters == values(whole).adapters
        assert values(short).adapters is not None
        engine.page = LORA
        (short,) = await look(FAST)
        adapters = values(short).adapters
        assert adapters is not None
        assert adapters.running


async def test_a_target_that_does_not_answer_is_a_failure_and_no_doubt() -> None:
    engine = Engine()
    async with looking(engine) as look:
        await look(FULL, FAST)
        gone = replace(look.target, url="http://127.0.0.1:1/metrics", uid="u")
        look.reader._plans[gone.key] = look.reader._plans[look.target.key]
        outcome = await look.reader(gone, FAST)
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.lane) == (FailureReason.REFUSED, FAST)
        assert look.reader.way(gone) is Way.SHORT


@pytest.mark.parametrize("path", ["/metrics?who=me", "/engines/1/metrics"])
async def test_a_page_behind_something_else_is_read_whole(path: str) -> None:
    engine = Engine()
    async with looking(engine, path) as look:
        await look(FULL, FAST)
        assert look.way is Way.WHOLE
    assert engine.asked == ["whole", "whole"]


async def test_targets_that_went_are_forgotten() -> None:
    async with looking(Engine()) as look:
        await look(FULL)
        look.reader.keep([])
        assert look.reader._plans == {}


# --- SGLang -------------------------------------------------------------------------------------------------------------------


def loads(*ranks: dict[str, object]) -> bytes:
    body = {"version": "0.5.23", "loads": [{"dp_rank": number, **rank} for number, rank in enumerate(ranks)]}
    return answer(json.dumps(body).encode(), headers={"Content-Type": "application/json"})


RANK = {"num_running_reqs": 2, "num_waiting_reqs": 1, "token_usage": 0.5, "max_total_num_tokens": 100, "gen_throughput": 0.0}
REST = {"num_running_reqs": 4, "num_waiting_reqs": 3, "token_usage": 0.2, "max_total_num_tokens": 300}


async def test_sglang_loads_are_read_by_rank_and_cover_what_they_tell() -> None:
    engine = Engine(SGLANG, loads=loads(RANK, REST))
    async with looking(engine) as look:
        whole, short = await look(FULL, FAST)
        assert look.way is Way.SHORT
    assert engine.asked == ["whole", "loads"]
    gauges = dict(values(short).gauges)
    assert gauges.pop("kv_cache_usage_ratio") == pytest.approx(0.275)
    assert gauges == {"requests_running": 6.0, "requests_waiting": 4.0, "kv_cache_usage_max_ratio": 0.5}
    assert short.covers == {"requests_running", "requests_waiting", "kv_cache_usage_ratio", "kv_cache_usage_max_ratio"}
    assert not values(short).counters
    assert values(short).model == values(whole).model != ""


async def test_a_field_that_is_missing_is_not_covered() -> None:
    bare = {name: value for name, value in RANK.items() if name.startswith("num")}
    async with looking(Engine(SGLANG, loads=loads(bare))) as look:
        _, short = await look(FULL, FAST)
    assert short.covers == {"requests_running", "requests_waiting"}


@pytest.mark.parametrize(
    "raw",
    [
        answer(b"", "404 Not Found"), answer(b"", "401 Unauthorized"), answer(b"[]"), answer(b"{"), answer(b'{"loads": []}'),
        answer(b"[" * 100_000),
        answer(b'{"loads": [{"dp_rank": 0}]}'),
        answer(b'{"loads": [{"dp_rank": 0, "num_running_reqs": "x", "num_waiting_reqs": 1}]}'),
        answer(b'{"loads": [{"dp_rank": 0, "num_running_reqs": NaN, "num_waiting_reqs": 1}]}'),
        answer(b'{"loads": [{"dp_rank": 0, "num_running_reqs": 1e99, "num_waiting_reqs": 1}]}'),
    ],
)  # fmt: skip
async def test_an_sglang_without_usable_loads_is_read_whole(raw: bytes) -> None:
    engine = Engine(SGLANG, loads=raw)
    async with looking(engine) as look:
        await look(FULL, FAST, FAST)
        assert look.way is Way.WHOLE
    assert engine.asked == ["whole", "loads", "whole", "whole"]


# --- the library that vLLM prints its page with ---------------------------------------------------------------------------------


async def test_the_filter_of_the_library_itself_gives_complete_short_answers() -> None:
    """A registry with vLLM's families behind prometheus_client's own server, which knows `name[]` as vLLM's mount of it does."""
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

    registry = CollectorRegistry(auto_describe=True)
    labels = {"engine": "0", "model_name": "m"}
    for name, number in (("num_requests_running", 3), ("num_requests_waiting", 4), ("kv_cache_usage_perc", 0.25)):
        Gauge(f"vllm:{name}", name, labels, registry=registry).labels(**labels).set(number)
    for name in ("prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "request_success",
                 "external_prefix_cache_queries"):  # fmt: skip
        Counter(f"vllm:{name}", name, labels, registry=registry).labels(**labels).inc(100)
    Histogram("vllm:iteration_tokens_total", "per step", labels, registry=registry).labels(**labels).observe(5)
    Histogram("vllm:time_to_first_token_seconds", "ttft", labels, registry=registry).labels(**labels).observe(0.1)
    Gauge(
        "vllm:lora_requests_info", "adapters", ["max_lora", "running_lora_adapters", "waiting_lora_adapters"], registry=registry
    )
    ProcessCollector(registry=registry)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        one = target(f"http://127.0.0.1:{server.server_port}/metrics")
        async with open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
            look = Looks(Reader(client, SystemClock()), one)
            whole, short = await look(FULL, FAST)
            assert look.way is Way.SHORT
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert values(short).gauges == {name: value for name, value in values(whole).gauges.items() if name in FAST_SIGNALS}
    assert values(short).progress == values(whole).progress == 201.0
    assert values(short).started_at == values(whole).started_at is not None
    assert values(short).adapters == values(whole).adapters is not None
    assert {key[0] for key in values(short).counters} == {"prefix_cache_query_tokens", "prefix_cache_hit_tokens"}
