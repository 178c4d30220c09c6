"""Pages of TGI 3.3.7: bare integers, raw float bounds, no `_total`, a blank line after each family, families
only after their first event.

There is no model label and no process family; three families have no HELP line, as in the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.demo.engine import Engine
from exporter.demo.pages import text
from exporter.demo.pages.text import RUST, Block, HistogramText, Page, labelled
from exporter.demo.process import Process

Rows = tuple[tuple[dict[str, str], Callable[[Engine], float]], ...]

METHODS = ("prefill", "decode")

COUNTERS: tuple[tuple[str, str, Rows], ...] = (
    (
        "tgi_request_success",
        "Requests that succeeded.",
        (({}, lambda engine: engine.ledger.outcomes["stop"] + engine.ledger.outcomes["length"]),),
    ),
    ("tgi_batch_concat", "", (({"reason": "chunking"}, lambda engine: engine.ledger.joins),)),
    ("tgi_request_count", "Requests received.", (({}, lambda engine: engine.ledger.arrived),)),
    (
        "tgi_request_failure",
        "",
        (
            ({"err": "validation"}, lambda engine: engine.ledger.refused),
            ({"err": "overloaded"}, lambda engine: engine.ledger.rejected),
            ({"err": "generation"}, lambda engine: engine.ledger.outcomes["error"]),
            ({"err": "incomplete"}, lambda engine: engine.ledger.outcomes["abort"]),
        ),
    ),
    (
        "tgi_batch_inference_success",
        "Calls of the model that succeeded, by method.",
        (
            ({"method": "prefill"}, lambda engine: engine.ledger.prefill_steps),
            ({"method": "decode"}, lambda engine: engine.ledger.steps - engine.ledger.prefill_steps),
        ),
    ),
    (
        "tgi_batch_inference_count",
        "Calls of the model, by method.",
        (
            ({"method": "decode"}, lambda engine: engine.ledger.steps - engine.ledger.prefill_steps),
            ({"method": "prefill"}, lambda engine: engine.ledger.prefill_steps),
        ),
    ),
)

GAUGES: tuple[tuple[str, str, Callable[[Engine], float]], ...] = (
    ("tgi_queue_size", "Requests in the queue.", lambda engine: engine.gauges.waiting),
    (
        "tgi_batch_current_max_tokens",
        "Tokens reserved by the current batch.",
        lambda engine: engine.gauges.reserved_tokens,
    ),
    ("tgi_batch_current_size", "Requests in the current batch.", lambda engine: engine.gauges.running),
)

REQUEST_HISTOGRAMS = (
    ("tgi_request_input_length", "input_length", "Input tokens of requests."),
    ("tgi_request_max_new_tokens", "max_new_tokens", "Largest output asked for, in tokens."),
    ("tgi_request_inference_duration", "inference", "Time of inference."),
    ("tgi_request_duration", "e2e", "Time of a whole request."),
    ("tgi_request_validation_duration", "validation", "Time of validation."),
    ("tgi_request_queue_duration", "queue", "Time in the queue."),
    ("tgi_request_mean_time_per_token_duration", "mean_token", "Mean time of a token of a request."),
    ("tgi_request_generated_tokens", "generated", "Output tokens of requests."),
    ("tgi_batch_next_size", "next_size", "Requests in the next batch."),
)

BATCH_HISTOGRAMS = (
    ("tgi_batch_inference_duration", "batch", "Time of a call of the model."),
    ("tgi_batch_forward_duration", "forward", "Time of the forward pass, by method."),
    ("tgi_batch_decode_duration", "select", "Time of choosing tokens, by method."),
    ("tgi_batch_filter_duration", "filter", "Time of filtering batches and sending tokens, by method."),
)


def page(process: Process) -> Page:
    """The page of one TGI server."""
    engine = process.lead
    blocks = [*_counters(engine), *_gauges(engine), *_histograms(engine), _skipped_tokens(engine)]
    return Page(tuple(blocks))


def _counters(engine: Engine) -> Iterator[Block]:
    for name, help_text, children in COUNTERS:

        def rows(name: str = name, children: Rows = children) -> Iterator[tuple[str, float]]:
            for labels, read in children:
                if value := read(engine):
                    yield labelled(name, labels), value

        yield _family(name, "counter", help_text, rows)


def _gauges(engine: Engine) -> Iterator[Block]:
    name, tokens = "tgi_batch_max_total_tokens", engine.config.capacity_tokens
    yield _family(
        name,
        "gauge",
        "Tokens that all batches may reserve.",
        lambda: [("tgi_batch_max_total_tokens", tokens)],
    )
    for name, help_text, read in GAUGES:

        def rows(name: str = name, read: Callable[[Engine], float] = read) -> Iterator[tuple[str, float]]:
            if engine.ledger.steps:
                yield name, read(engine)

        yield _family(name, "gauge", help_text, rows)


def _histograms(engine: Engine) -> Iterator[Block]:
    ledger = engine.ledger
    for name, ladder, help_text in REQUEST_HISTOGRAMS:
        child = HistogramText(name, {}, [ledger.tally(ladder)], RUST)
        yield text.histogram(name, help_text, [child], end="\n", empty=False)
    for name, part, help_text in BATCH_HISTOGRAMS:
        children = [HistogramText(name, {"method": method}, [ledger.tally(f"{part}_{method}")], RUST) for method in METHODS]
        yield text.histogram(name, help_text, children, end="\n", empty=False)
    # Joining batches is always told as decode.
    joins = HistogramText("tgi_batch_concat_duration", {"method": "decode"}, [ledger.tally("concat")], RUST)
    yield text.histogram("tgi_batch_concat_duration", "", [joins], end="\n", empty=False)


def _skipped_tokens(engine: Engine) -> Block:
    name = "tgi_request_skipped_tokens"

    def rows() -> Iterator[tuple[str, float]]:
        if engine.ledger.generation_tokens:
            for quantile in ("0", "0.5", "0.9", "0.95", "0.99", "0.999", "1"):
                yield labelled(name, {"quantile": quantile}), 0
            yield f"{name}_sum", 0
            yield f"{name}_count", engine.ledger.generation_tokens

    return _family(name, "summary", "Speculated tokens of a request.", rows)


def _family(name: str, kind: str, help_text: str, rows: text.Rows) -> Block:
    return text.growing(name, kind, help_text, rows, number=text.rust_number, end="\n")
