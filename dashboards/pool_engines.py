"""The folded rows of a pool's board: what goes on inside its engines."""

from collector.signals import Level
from dashboards.kinds import TOKENS, TOKENS_PER_SECOND
from dashboards.model import Draw, Panel, Query, Row
from dashboards.queries import Scope

_HERE = Scope(Level.POOL)
_SPLIT = "no data: prefill and decode are not apart, or the engine does not tell"
_SPECULATION = "no data: nothing is speculated here, or the engine does not tell"
_OUTSIDE = "no data: no cache outside the device, or the engine does not tell"


def _time(title: str, name: str, text: str) -> Panel:
    return Panel(title, text, "internals", queries=(_HERE.quantile("$quantile", name),), unit="s")


def _stages() -> Row:
    reasons = _HERE.gauge(
        "sum", "requests_waiting_by_reason", "{{pool}} {{reason}}", by=("cluster", "namespace", "pool", "reason")
    )
    odd = (
        _HERE.gauge("sum", "requests_swapped", "swapped out"),
        _HERE.gauge("sum", "engines_asleep", "engines asleep"),
        _HERE.gauge("sum", "aborted_requests_estimate", "given up, estimate"),
    )
    return Row(
        title="Inside the engines: where the time goes",
        collapsed=True,
        panels=(
            _time("Queue time", "queue_time_seconds", "Time requests waited in the engine."),
            _time("Prefill time", "prefill_time_seconds", "Per finished request: scheduled to first token."),
            _time("Decode time", "decode_time_seconds", "Per finished request: first to last token."),
            _time("Running time", "inference_time_seconds", "Per finished request: time in the running phase."),
            _time("Time per output token", "time_per_output_token_seconds", "Per finished request: mean after the first token."),
            Panel("Waiting by reason", "capacity: no room. deferred: held back, for an adapter's slot or a transfer. grammar: "
                  "waiting for a grammar to be compiled.", "internals", queries=(reasons,)),
            Panel("Swapped, asleep, given up", "Requests moved to host memory (old vLLM), engines put to sleep, and the "
                  "estimate of "
                  "requests that clients gave up and that the engine counts nowhere.", "internals", queries=odd, width=24),
        ),
    )  # fmt: skip


def _caches() -> Row:
    tokens = (
        _HERE.gauge("sum", "kv_cache_used_tokens", "used"),
        _HERE.gauge("sum", "kv_cache_capacity_tokens", "fit in"),
    )
    looked_up = (
        _HERE.rate("prompt_tokens", "taken in"),
        _HERE.rate("cached_prompt_tokens", "supplied by a cache"),
    )
    blocks = (
        _HERE.gauge("sum", "kv_cache_blocks", "blocks"),
        _HERE.gauge("max", "kv_cache_block_size_tokens", "tokens in a block"),
    )
    offloaded = (_HERE.rate("kv_offload_load_bytes", "brought back"), _HERE.rate("kv_offload_store_bytes", "moved out"))
    return Row(
        title="Caches",
        collapsed=True,
        panels=(
            Panel("Prefix-cache hits", "Share of looked-up prompt tokens found in the engines' own prefix caches; no line "
                  "without "
                  "look-ups.", "prefix-cache", queries=(_HERE.share("prefix_cache_hit_ratio"),), unit="percentunit", top=1.0),
            Panel("Hits outside the device", "Share of prompt tokens looked up in caches outside the device that were there.",
                  "prefix-cache", queries=(_HERE.share("external_prefix_cache_hit_ratio"),), unit="percentunit", top=1.0,
                  silent=_OUTSIDE),
            Panel("Prompt tokens from caches", "Prompt tokens taken in, and those of them that a cache supplied, per second.",
                  "prefix-cache", queries=looked_up, unit=TOKENS_PER_SECOND),
            Panel("Tokens in the KV cache", "Tokens that live requests hold, and that fit in, of the pods that report.",
                  "kv-cache",
                  queries=tokens, unit=TOKENS, width=6),
            Panel("Reserved", "Share of the token budget that the batch has reserved: an upper bound of use, where use is not "
                  "told.",
                  "kv-cache", queries=(_HERE.mean("kv_cache_reserved_ratio"),), unit="percentunit", width=6),
            Panel("Blocks", "Blocks (pages) of the KV cache, and tokens in one.", "kv-cache", queries=blocks, width=6),
            Panel("Moved to and from host memory", "Bytes of KV cache per second.", "prefix-cache", queries=offloaded, unit="Bps",
                  silent="no data: nothing is moved to host memory, or the engine does not tell", width=6),
        ),
    )  # fmt: skip


def _speculation() -> Row:
    accepted = _HERE.rate("speculative_accepted_tokens", "accepted")
    tokens = (_HERE.rate("speculative_draft_tokens", "proposed"), accepted)
    length = _HERE.gauge("avg", "speculative_accept_length_tokens", "stated")
    rounds = _HERE.rate("speculative_drafts")
    counted = Query(f"{accepted.expression} / ({rounds.expression} > 0)", f"{rounds.legend} counted")
    return Row(
        title="Speculative decoding",
        collapsed=True,
        panels=(
            Panel("Acceptance", "Share of proposed tokens that were accepted: below a half, speculation costs more than it "
                  "gives.",
                  "speculation", queries=(_HERE.share("speculative_acceptance_ratio"),), unit="percentunit", top=1.0,
                  silent=_SPECULATION, width=6),
            Panel("Tokens", "Tokens proposed and accepted, per second.", "speculation", queries=tokens, unit=TOKENS_PER_SECOND,
                  silent=_SPECULATION, width=6),
            Panel("Accepted per round", "Tokens accepted in a round: as the engine states it, or from its counters.",
                  "speculation",
                  queries=(length, counted), unit=TOKENS, silent=_SPECULATION, width=6),
            Panel("Rounds", "Rounds of speculative decoding, per second.", "speculation", queries=(rounds,), unit="ops",
                  silent=_SPECULATION, width=6),
        ),
    )  # fmt: skip


def _split() -> Row:
    by = ("cluster", "namespace", "pool", "queue")
    queues = _HERE.gauge("sum", "disaggregation_queue_requests", "{{queue}}", by=by)
    return Row(
        title="Prefill and decode apart",
        collapsed=True,
        panels=(
            Panel("Between prefill and decode", "Requests on the way, by the queue they are in.", "split", draw=Draw.STACK,
                  queries=(queues,), silent=_SPLIT, width=6),
            Panel("Time of a transfer", "Time of one transfer of KV cache.", "split",
                  queries=(_HERE.quantile("$quantile", "kv_transfer_seconds"),),
                  unit="s", silent=_SPLIT, width=6),
            Panel("Transferred", "Bytes of KV cache sent between engines, per second.", "split",
                  queries=(_HERE.rate("kv_transfer_bytes"),), unit="Bps", silent=_SPLIT, width=6),
            Panel("Failed transfers", "Transfers of KV cache that failed, per second.", "split",
                  queries=(_HERE.rate("kv_transfer_failures"),), unit="ops", silent=_SPLIT, width=6),
        ),
    )  # fmt: skip


INSIDE: tuple[Row, ...] = (_stages(), _caches(), _speculation(), _split())
