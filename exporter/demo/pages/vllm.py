"""Pages of vLLM 0.32: one rank as a single-process page with `_created` families, several as the multiprocess
one without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from exporter.demo.engine import Engine
from exporter.demo.http import HttpBook
from exporter.demo.ladders import MICROS
from exporter.demo.ledger import Tally
from exporter.demo.pages import text, vllm_data
from exporter.demo.pages.text import Block, Labels, Page, Read, by_name, labelled
from exporter.demo.pages.vllm_data import Family, ReadEngine
from exporter.demo.process import Process

PREFIX = "vllm:"
PYTHON = {
    "implementation": "CPython",
    "major": "3",
    "minor": "12",
    "patchlevel": "11",
    "version": "3.12.11",
}


def page(process: Process) -> Page:
    """The page of a process with one engine, or with several data-parallel ones."""
    parts = _Parts(process)
    if len(process.engines) == 1:
        order: tuple[Iterator[Block], ...] = (
            parts.runtime(),
            parts.counters(vllm_data.speculation(process.lead.config.draft_tokens)),
            parts.counters(vllm_data.ESTIMATES),
            parts.gauges(),
            parts.counters(vllm_data.COUNTERS),
            parts.rejections(),
            parts.histograms(),
            parts.adapters(),
            parts.cache_config(),
            parts.http_requests(),
            parts.http_sizes(),
            parts.http_durations(),
        )
    else:
        order = (
            parts.histograms(),
            parts.http_durations(),
            parts.http_sizes(),
            parts.gauges(),
            parts.cache_config(),
            parts.counters(vllm_data.speculation(process.lead.config.draft_tokens)),
            parts.counters(vllm_data.ESTIMATES),
            parts.counters(vllm_data.COUNTERS),
            parts.rejections(),
            parts.http_requests(),
        )
    return Page(tuple(block for blocks in order for block in blocks))


class _Parts:
    """The groups of blocks that both kinds of page put in their own order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.http = process.http
        self.single = len(process.engines) == 1
        self.style = text.SINGLE_PROCESS if self.single else text.MULTIPROCESS
        self.model = process.lead.config.model
        self.created = text.python_number(process.wall_at(process.lead.started))

    def runtime(self) -> Iterator[Block]:
        """Families of the Python process."""
        ledger, process = self.process.lead.ledger, self.process
        yield from _collections(lambda: ledger.steps)
        yield text.fixed(
            "python_info",
            "gauge",
            "Facts about the Python runtime.",
            [(labelled("python_info", PYTHON), "1.0")],
        )
        for name, help_text, value in (
            ("process_virtual_memory_bytes", "Virtual memory of the process in bytes.", 2.215460864e10),
            ("process_resident_memory_bytes", "Resident memory of the process in bytes.", 3.33466624e9),
            ("process_start_time_seconds", "Unix time at which the process started.", process.started_wall),
        ):
            yield text.fixed(name, "gauge", help_text, [(name, text.python_number(value))])
        name = "process_cpu_seconds_total"
        yield text.moving(
            name,
            "counter",
            "CPU seconds used by the process.",
            [(name, lambda: round(6.1 + ledger.busy / MICROS * 0.04, 2))],
        )
        name, engine = "process_open_fds", process.lead
        yield text.moving(
            name,
            "gauge",
            "Open file descriptors.",
            [(name, lambda: 38 + engine.gauges.running + engine.gauges.waiting)],
        )
        yield text.fixed("process_max_fds", "gauge", "Limit of open file descriptors.", [("process_max_fds", "65535.0")])

    def gauges(self) -> Iterator[Block]:
        """Gauges of each engine."""
        for family in vllm_data.GAUGES:
            yield text.moving(PREFIX + family.name, "gauge", family.help, self._samples(family))

    def counters(self, families: tuple[Family, ...]) -> Iterator[Block]:
        """Counters of each engine."""
        for family in families:
            samples = self._samples(family)
            yield text.moving(PREFIX + family.name, "counter", family.help, samples)
            yield from self._created(PREFIX + family.name, family.help, [key for key, _ in samples])

    def rejections(self) -> Iterator[Block]:
        """Requests that the queue limit turned away; the real family has no engine label."""
        name, help_text = (
            f"{PREFIX}admission_rejections_total",
            "Requests turned away by a limit of the queue, by reason.",
        )
        engines = self.process.engines
        reads: tuple[tuple[str, Read], ...] = (
            ("max_num_queued_reqs", lambda: sum(engine.ledger.rejected for engine in engines)),
            ("max_num_queued_tokens", lambda: 0.0),
        )
        samples = [(labelled(name, {"model_name": self.model, "reason": reason}), read) for reason, read in reads]
        yield text.moving(name, "counter", help_text, samples)
        yield from self._created(name, help_text, [key for key, _ in samples])

    def histograms(self) -> Iterator[Block]:
        """Histograms of each engine."""
        for short, ladder, help_text in vllm_data.HISTOGRAMS:
            name = PREFIX + short
            children = [
                text.HistogramText(name, self._labels(rank), [engine.ledger.tally(ladder)], self.style)
                for rank, engine in enumerate(self.process.engines)
            ]
            yield text.histogram(name, help_text, children)
            yield from self._created(name, help_text, [labelled(name, self._labels(0))])

    def adapters(self) -> Iterator[Block]:
        """Every mix of adapters ever run; the value is when, and both labels hold the running ones, as in the
        real engine.
        """
        engine = self.process.lead
        if not engine.config.adapters:
            return
        name = f"{PREFIX}lora_requests_info"

        def rows() -> Iterator[tuple[str, float]]:
            for mix, at in engine.adapter_mixes.items():
                listed = ",".join(mix)
                labels = {
                    "max_lora": str(engine.config.max_loras),
                    "running_lora_adapters": listed,
                    "waiting_lora_adapters": listed,
                }
                yield labelled(name, labels), self.process.wall_at(at)

        yield text.growing(name, "gauge", "Adapters that have work.", rows, always=True)

    def cache_config(self) -> Iterator[Block]:
        """Facts about the KV cache, all of them in labels."""
        name, ranks = f"{PREFIX}cache_config_info", len(self.process.engines)
        samples = [
            (labelled(name, by_name(vllm_data.cache_config(engine, rank=rank, ranks=ranks))), "1.0")
            for rank, engine in enumerate(self.process.engines)
        ]
        yield text.fixed(name, "gauge", "Configuration of the KV cache.", samples)

    def http_requests(self) -> Iterator[Block]:
        """Answered requests by class of status."""
        name, help_text = "http_requests_total", "HTTP requests by handler, method and class of status."
        yield text.growing(name, "counter", help_text, partial(_http_rows, self.http, name), always=True)

        def created() -> Iterator[tuple[str, float]]:
            for key, at in _first_answers(self.http).items():
                yield labelled("http_requests_created", dict(key)), self.process.wall_at(at)

        if self.single:
            yield text.growing("http_requests_created", "gauge", help_text, created)

    def http_sizes(self) -> Iterator[Block]:
        """Bytes in and out by handler."""
        for name, sizes in (
            ("http_request_size_bytes", self.http.request_bytes),
            ("http_response_size_bytes", self.http.response_bytes),
        ):
            help_text = "Bytes of bodies by handler, where the length was declared."

            def rows(name: str = name, sizes: dict[str, int] = sizes) -> Iterator[tuple[str, float]]:
                for path, size in sizes.items():
                    yield labelled(f"{name}_count", {"handler": path}), self.http.seconds_by_path[path].count
                    yield labelled(f"{name}_sum", {"handler": path}), size

            yield text.growing(name, "summary", help_text, rows, always=True)
            yield from self._created_by_path(name, help_text)

    def http_durations(self) -> Iterator[Block]:
        """Durations: one fine ladder over all handlers, one coarse ladder for each."""
        name, help_text = (
            "http_request_duration_highr_seconds",
            "Duration of HTTP requests, all handlers together.",
        )
        yield text.histogram(name, help_text, [text.HistogramText(name, {}, [self.http.seconds], self.style)])
        yield from self._created(name, help_text, [name])
        name, help_text = "http_request_duration_seconds", "Duration of HTTP requests by handler."
        yield _histogram_by_path(name, help_text, self.http.seconds_by_path, self.style)
        yield from self._created_by_path(name, help_text, method="POST")

    def _labels(self, rank: int) -> dict[str, str]:
        return {"engine": str(rank), "model_name": self.model}

    def _samples(self, family: Family) -> list[tuple[str, Read]]:
        samples: list[tuple[str, Read]] = []
        for label, value, read in family.children:
            for rank, engine in enumerate(self.process.engines):
                labels = self._labels(rank) | ({label: value} if label else {})
                samples.append((labelled(PREFIX + family.name, by_name(labels)), _bind(read, engine)))
        return samples

    def _created(self, name: str, help_text: str, keys: list[str]) -> Iterator[Block]:
        if self.single:
            # The one histogram whose name ends in _total keeps it.
            base = name if name == f"{PREFIX}iteration_tokens_total" else name.removesuffix("_total")
            created = f"{base}_created"
            samples = [(created + key.removeprefix(name), self.created) for key in keys]
            yield text.fixed(created, "gauge", help_text, samples)

    def _created_by_path(self, name: str, help_text: str, **extra: str) -> Iterator[Block]:
        def rows() -> Iterator[tuple[str, float]]:
            for path in self.http.seconds_by_path:
                at = min(at for key, at in self.http.first_answer.items() if key[0] == path)
                yield labelled(f"{name}_created", {"handler": path, **extra}), self.process.wall_at(at)

        if self.single:
            yield text.growing(f"{name}_created", "gauge", help_text, rows)


def _bind(read: ReadEngine, engine: Engine) -> Read:
    return lambda: read(engine)


def _collections(steps: Callable[[], int]) -> Iterator[Block]:
    for name, help_text, divisors in (
        ("python_gc_objects_collected_total", "Objects that garbage collection freed.", (2, 9, 50)),
        (
            "python_gc_objects_uncollectable_total",
            "Objects that garbage collection could not free.",
            (0, 0, 0),
        ),
        ("python_gc_collections_total", "Runs of garbage collection.", (7, 80, 900)),
    ):
        reads = [partial(_share, steps, divisor) for divisor in divisors]
        samples = [(labelled(name, {"generation": str(age)}), read) for age, read in enumerate(reads)]
        yield text.moving(name, "counter", help_text, samples)


def _share(steps: Callable[[], int], divisor: int) -> float:
    return steps() // divisor if divisor else 0.0


def _status_labels(path: str, method: str, status: int) -> tuple[tuple[str, str], ...]:
    return (("handler", path), ("method", method), ("status", f"{status // 100}xx"))


def _first_answers(http: HttpBook) -> dict[tuple[tuple[str, str], ...], int]:
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for (path, method, status), at in http.first_answer.items():
        found.setdefault(_status_labels(path, method, status), at)
    return found


def _http_rows(http: HttpBook, name: str) -> Iterator[tuple[str, float]]:
    # Pages such as /metrics and /health are not counted by this server.
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    for key in http.first_answer:
        labels = _status_labels(*key)
        counts[labels] = counts.get(labels, 0) + http.answered[key]
    for labels, count in counts.items():
        yield labelled(name, dict(labels)), count


def _histogram_by_path(name: str, help_text: str, tallies: dict[str, Tally], style: text.HistogramStyle) -> Block:
    children: dict[str, text.HistogramText] = {}
    top = text.head(name, "histogram", help_text)

    def render() -> str:
        for path, tally in tallies.items():
            if path not in children:
                labels: Labels = {"handler": path, "method": "POST"}
                children[path] = text.HistogramText(name, labels, [tally], style)
        return top + "".join(child.render() for child in children.values())

    return Block(name, render)
