"""Pages of SGLang 0.5.23: scheduler families for each data-parallel rank, tokenizer families for the whole
server.

Quirks kept: token counters grow when a request finishes, realtime counters and gauges move at log intervals,
there are no `_created` and no process families, sum stands before the buckets, and a child exists once
something was counted in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.demo.engine import Engine
from exporter.demo.ladders import SGLANG_DP_IMBALANCE, SGLANG_DP_WAIT
from exporter.demo.ledger import Closed, Tally
from exporter.demo.pages import sglang_data, text
from exporter.demo.pages.sglang_data import Family, ReadEngine
from exporter.demo.pages.text import Block, HistogramText, Page, Read, by_name, labelled
from exporter.demo.process import Process

PREFIX = "sglang:"
STARTUP = {"load_weight": 9.75, "kv_cache_allocation": 0.77, "scheduler_e2e": 21.43, "tokenizer_e2e": 27.96}
RANKS = {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}


def page(process: Process) -> Page:
    """The page of a server with one data-parallel rank or several (then with `dp_rank`)."""
    parts = _Parts(process)
    order = (
        parts.request_histograms(),
        parts.tokenizer_counters(),
        parts.scheduler("gauge", sglang_data.CONSTANTS + sglang_data.LOAD),
        parts.scheduler("gauge", sglang_data.ADAPTERS if process.lead.config.adapters else ()),
        parts.scheduler("gauge", sglang_data.ROUTING),
        parts.scheduler_histograms(),
        parts.active(),
        parts.startup(),
        parts.scheduler("counter", sglang_data.COUNTERS),
        parts.events(),
        parts.process_gauges(),
    )
    return Page(tuple(block for blocks in order for block in blocks))


class _Parts:
    """The groups of blocks of one page."""

    def __init__(self, process: Process) -> None:
        self.engines = process.engines
        self.http = process.http
        self.pid = process.number
        self.tokenizer = {"engine_type": "unified", "model_name": process.lead.config.model}

    def scheduler(self, kind: str, families: tuple[Family, ...]) -> Iterator[Block]:
        """Families of each rank with all their children."""
        for family in families:
            yield text.moving(PREFIX + family.name, kind, family.help, self._samples(family))

    def events(self) -> Iterator[Block]:
        """Counters whose children appear with the first count."""
        for family in sglang_data.EVENTS:
            samples = self._samples(family)
            yield text.growing(PREFIX + family.name, "counter", family.help, _above_zero(samples))

    def process_gauges(self) -> Iterator[Block]:
        """Gauges that carry the number of their process."""
        for family in sglang_data.PROCESS_GAUGES:
            yield text.moving(PREFIX + family.name, "gauge", family.help, self._samples(family, with_pid=True))

    def request_histograms(self) -> Iterator[Block]:
        """Histograms of the tokenizer side: some split by streaming, all ranks together."""
        for name, ladder, help_text in (
            ("time_to_first_token_seconds", "ttft", "Time from arrival to the first token."),
            ("e2e_request_latency_seconds", "e2e", "Time from arrival to the end of a request."),
            (
                "request_time_per_output_token_seconds",
                "tpot",
                "Mean time of an output token after the first.",
            ),
            ("prompt_tokens_histogram", "prompt", "Prompt length in tokens."),
            ("uncached_prompt_tokens_histogram", "computed", "Computed part of the prompt in tokens."),
            ("generation_tokens_histogram", "generated", "Output length in tokens."),
            ("inter_token_latency_seconds", "itl", "Time between two tokens."),
        ):
            yield self._over_ranks(PREFIX + name, ladder, help_text)

    def tokenizer_counters(self) -> Iterator[Block]:
        """Counters of the tokenizer side and of its HTTP front end."""
        yield self._cpu()
        yield from self._http()
        for name, help_text, read in _CLOSED:
            yield text.growing(PREFIX + name, "counter", help_text, self._closed_rows(PREFIX + name, read))
        name = f"{PREFIX}cached_tokens_total"
        key = labelled(name, by_name({**self.tokenizer, "cache_source": "device"}))
        yield text.growing(name, "counter", "Prompt tokens from a cache.", _above_zero([(key, self._cached)]))
        name = f"{PREFIX}num_aborted_requests_total"
        key = labelled(name, self.tokenizer)
        yield text.growing(name, "counter", "Abort calls.", _above_zero([(key, self._aborted)]))

    def scheduler_histograms(self) -> Iterator[Block]:
        """Histograms of each rank."""
        for name, bounds in (
            ("token_imbalance_ratio", SGLANG_DP_IMBALANCE),
            ("sync_wait_seconds", SGLANG_DP_WAIT),
        ):
            full = f"{PREFIX}dp_attention_{name}"
            unused = [self._child(full, rank, Tally(bounds)) for rank in range(len(self.engines))]
            yield text.histogram(full, "Balance of the ranks in synchronized steps.", unused)
        full = f"{PREFIX}per_stage_req_latency_seconds"
        stages = [
            self._child(full, rank, engine.ledger.tally(ladder), stage=stage)
            for stage, ladder in (("request_process", "taken_in"), ("prefill_forward", "prefilled"))
            for rank, engine in enumerate(self.engines)
        ]
        yield text.histogram(full, "Time in each stage of a request.", stages, empty=False)
        full = f"{PREFIX}queue_time_seconds"
        queued = [self._child(full, rank, engine.ledger.tally("queue_admitted")) for rank, engine in enumerate(self.engines)]
        yield text.histogram(full, "Time in the waiting queue.", queued, empty=False)

    def active(self) -> Iterator[Block]:
        """Requests in flight at the front end."""
        name = f"{PREFIX}routing_keys_active"
        yield text.fixed(name, "gauge", "Routing keys in flight.", [(name, "0.0")])
        name = f"{PREFIX}http_requests_active"

        def rows() -> Iterator[tuple[str, float]]:
            for (path, method), begun in self.http.begun.items():
                answered = sum(count for key, count in self.http.answered.items() if key[:2] == (path, method))
                yield labelled(name, {"endpoint": path, "method": method}), begun - answered

        yield text.growing(name, "gauge", "HTTP requests in flight.", rows)

    def startup(self) -> Iterator[Block]:
        """Durations of the start."""
        for name, help_text, phases in (
            ("startup_time_seconds", "Duration of the start by phase.", STARTUP),
            (
                "startup_cuda_graph_time_seconds",
                "Duration of graph capture.",
                dict.fromkeys(sglang_data.GRAPH_PHASES, 0.0),
            ),
        ):
            samples = [
                (labelled(PREFIX + name, {**self.tokenizer, "phase": phase}), text.python_number(seconds))
                for phase, seconds in phases.items()
            ]
            yield text.fixed(PREFIX + name, "gauge", help_text, samples)

    def _cached(self) -> float:
        return sum(part.cached_tokens for engine in self.engines for part in engine.ledger.closed.values())

    def _aborted(self) -> float:
        return sum(engine.ledger.outcomes["cut"] + engine.ledger.outcomes["abort"] for engine in self.engines)

    def _generated(self) -> float:
        return sum(engine.ledger.generation_tokens for engine in self.engines)

    def _cpu(self) -> Block:
        name = f"{PREFIX}process_cpu_seconds_total"
        samples: list[tuple[str, Read]] = [
            (labelled(name, {"component": "tokenizer"}), lambda: 3.1 + self._generated() * 0.0001),
            (labelled(name, {"component": "detokenizer"}), lambda: 2.2 + self._generated() * 0.00005),
        ]
        return text.moving(name, "counter", "CPU seconds of a process of the server.", samples)

    def _http(self) -> Iterator[Block]:
        requests, responses = f"{PREFIX}http_requests_total", f"{PREFIX}http_responses_total"

        def begun() -> Iterator[tuple[str, float]]:
            for (path, method), count in self.http.begun.items():
                yield labelled(requests, {"endpoint": path, "method": method}), count

        def answered() -> Iterator[tuple[str, float]]:
            for (path, method, status), count in self.http.answered.items():
                labels = {"endpoint": path, "method": method, "status_code": str(status)}
                yield labelled(responses, labels), count

        yield text.growing(requests, "counter", "HTTP requests by endpoint.", begun)
        yield text.growing(responses, "counter", "HTTP responses by endpoint and status.", answered)

    def _closed_rows(self, name: str, read: Callable[[Closed], int]) -> text.Rows:
        engines = self.engines
        keys = [(labelled(name, by_name({**self.tokenizer, **_streaming(flag)})), flag) for flag in (False, True)]

        def rows() -> Iterator[tuple[str, float]]:
            for key, flag in keys:
                if any(engine.ledger.closed[flag].requests for engine in engines):
                    yield key, sum(read(engine.ledger.closed[flag]) for engine in engines)

        return rows

    def _over_ranks(self, name: str, ladder: str, help_text: str) -> Block:
        split = ladder in self.engines[0].ledger.books.split
        children = []
        for flag in (False, True) if split else (None,):
            tallies = [engine.ledger.tally(ladder, streaming=flag) for engine in self.engines]
            labels = self.tokenizer if flag is None else by_name({**self.tokenizer, **_streaming(flag)})
            children.append(HistogramText(name, labels, tallies, text.MULTIPROCESS))
        return text.histogram(name, help_text, children, empty=False)

    def _child(self, name: str, rank: int, tally: Tally, **extra: str) -> HistogramText:
        return HistogramText(name, by_name(self._labels(rank) | extra), [tally], text.MULTIPROCESS)

    def _labels(self, rank: int) -> dict[str, str]:
        ranks = {"dp_rank": str(rank)} if len(self.engines) > 1 else {}
        return {**self.tokenizer, **RANKS, **ranks}

    def _samples(self, family: Family, *, with_pid: bool = False) -> list[tuple[str, Read]]:
        samples: list[tuple[str, Read]] = []
        for extra, read in family.children:
            for rank, engine in enumerate(self.engines):
                pid = {"pid": str(200 + self.pid * 10 + rank)} if with_pid else {}
                labels = by_name(self._labels(rank) | extra | pid)
                samples.append((labelled(PREFIX + family.name, labels), _bind(read, engine)))
        return samples


_CLOSED: tuple[tuple[str, str, Callable[[Closed], int]], ...] = (
    ("prompt_tokens_total", "Prompt tokens of finished requests.", lambda part: part.prompt_tokens),
    ("generation_tokens_total", "Output tokens of finished requests.", lambda part: part.generation_tokens),
    ("num_requests_total", "Requests finished.", lambda part: part.requests),
)


def loads(process: Process, *, now: float) -> dict[str, object]:
    """The answer of `/v1/loads`: made at the moment of asking, not at a log interval."""
    rows = []
    for rank, engine in enumerate(process.engines):
        used = engine.scheduler.pool.used * engine.config.block_size
        rows.append(
            {
                "timestamp": process.wall(now),
                "dp_rank": rank,
                "num_running_reqs": engine.running,
                "num_waiting_reqs": engine.waiting,
                "num_used_tokens": used,
                "num_total_tokens": used + sum(slot.target for slot in engine.scheduler.waiting),
                "max_total_num_tokens": engine.config.capacity_tokens,
                "max_running_requests": engine.config.max_num_seqs,
                "token_usage": round(used / engine.config.capacity_tokens, 4),
                "gen_throughput": round(engine.gauges.throughput, 2),
                "cache_hit_rate": round(engine.gauges.hit_rate, 4),
                "utilization": 0.0,
            }
        )
    return {
        "version": process.lead.config.version,
        "accelerator": None,
        "num_accelerators": len(process.engines),
        "loads": rows,
    }


def _streaming(flag: bool) -> dict[str, str]:
    return {"is_streaming": "true" if flag else "false"}


def _bind(read: ReadEngine, engine: Engine) -> Read:
    return lambda: read(engine)


def _above_zero(samples: list[tuple[str, Read]]) -> text.Rows:
    def rows() -> Iterator[tuple[str, float]]:
        for key, read in samples:
            if value := read():
                yield key, value

    return rows
