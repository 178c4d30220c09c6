"""Pages that once made a wrong number, or cost more than themselves."""

import gzip
from pathlib import Path

import pytest

from collector.clock import Instant
from collector.engines import ENGINES
from collector.model import Target
from collector.page import MOST_LINES, read_page
from collector.read import Body, understand
from collector.reasons import FailureReason, Oddity, ReadError
from collector.signals import Lane
from collector.snapshot import Row
from collector.state import State
from collector.track import MOST_SERIES

PAGES = Path(__file__).parents[1] / "pages"
TARGET = Target(url="http://h:1/metrics", namespace="n", pool="p", pod="pod")
ALIVE = 'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_waiting{engine="0"} 0\n'


def watching() -> State:
    state = State(cluster="c")
    state.watch([TARGET], Instant(0.0, 1e9))
    return state


def feed(state: State, page: str | bytes, at: float, *, framed: bool = True) -> None:
    body = Body(page if isinstance(page, bytes) else page.encode(), "", framed)
    state.absorb(understand(TARGET, Lane.FULL, body, at=Instant(at, 1e9 + at)))


def pool(state: State, at: float) -> Row:
    return state.snapshot(Instant(at, 1e9 + at)).pools[0]


def test_a_bucket_below_everything_costs_its_family_and_not_the_page() -> None:
    state = watching()
    for look in range(3):
        feed(state, ALIVE + f"""vllm:time_to_first_token_seconds_bucket{{le="-Inf"}} 0
vllm:time_to_first_token_seconds_bucket{{le="1.0"}} {look}
vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {look}
vllm:time_to_first_token_seconds_sum {look}
vllm:time_to_first_token_seconds_count {look}
""", look)  # fmt: skip
    assert pool(state, 3.0).histograms["time_to_first_token_seconds"].cumulative[-1] == 0
    assert state.tally.oddities[Oddity.BROKEN_HISTOGRAM] == 3


@pytest.mark.parametrize("line", [b"!\n", b"\n", b"# TYPE a gauge\n", ALIVE.split("\n")[0].encode() + b"\n"])
def test_a_page_of_endless_lines_is_refused_unread(line: bytes) -> None:
    page = gzip.decompress(gzip.compress(line * (MOST_LINES + 1)))
    with pytest.raises(ReadError) as refused:
        read_page(page)
    assert refused.value.reason is FailureReason.BODY_TOO_LARGE


def test_rubbish_is_given_up_early() -> None:
    with pytest.raises(ReadError) as refused:
        read_page(b"!\n" * 2000)
    assert refused.value.reason is FailureReason.MALFORMED


@pytest.mark.parametrize("first", ["NaN", "10garbage"])
def test_a_counter_lost_on_the_first_page_is_a_first_sample_on_the_second(first: str) -> None:
    state = watching()
    feed(state, ALIVE + f'vllm:prompt_tokens_total{{engine="0"}} {first}\n', 0.0)
    feed(state, ALIVE + 'vllm:prompt_tokens_total{engine="0"} 1000000\n', 5.0)
    assert pool(state, 5.0).counters["prompt_tokens", ""] == 0
    feed(state, ALIVE + 'vllm:prompt_tokens_total{engine="0"} 1000007\n', 10.0)
    assert pool(state, 10.0).counters["prompt_tokens", ""] == 7


def test_a_page_of_untold_length_is_no_proof_of_what_it_lacks() -> None:
    whole = (PAGES / "vllm-0.32.0-after-load-errors-aborts.prom").read_bytes()
    cut = whole[: whole.index(b"# HELP vllm:request_success_total")]
    state = watching()
    feed(state, cut, 0.0, framed=False)
    feed(state, whole, 5.0, framed=False)
    row = pool(state, 5.0)
    assert sum(total for (signal, _), total in row.counters.items() if signal == "requests") == 0
    assert row.histograms["end_to_end_latency_seconds"].cumulative[-1] == 0


def test_servers_that_take_turns_behind_one_address_are_not_added_up() -> None:
    def page(tokens: int, start: float) -> str:
        return ALIVE + f'vllm:generation_tokens_total{{engine="0"}} {tokens}\nprocess_start_time_seconds {start}\n'

    state = watching()
    for look in range(60):
        tokens, start = (1_000_000 + look, 6e8) if look % 2 else (5_000_000 + look, 7e8)
        feed(state, page(tokens, start), look)
    assert pool(state, 60.0).counters["generation_tokens", ""] == 0


def test_of_two_ranks_one_is_not_taken_for_the_pod() -> None:
    state = watching()
    feed(state, 'vllm:num_requests_running{engine="0"} 7\nvllm:num_requests_running{engine="1"} garbage\n'
                'vllm:num_requests_waiting{engine="0"} 0\n', 0.0)  # fmt: skip
    (endpoint,) = state.endpoints(Instant(0.0, 1e9))
    assert dict(endpoint.gauges) == {"requests_waiting": 0.0}


def test_damage_does_not_hide_that_an_engine_stands_still() -> None:
    state = watching()
    for second in range(0, 60, 5):
        progress = "NaN" if second % 20 == 10 else "500"
        feed(state, ALIVE + f'vllm:iteration_tokens_total_count{{engine="0"}} {progress}\n', second)
    (endpoint,) = state.endpoints(Instant(56.0, 1e9 + 56.0))
    assert endpoint.state == "no_progress"


def test_an_outcome_that_no_engine_tells_has_no_ratio() -> None:
    state = watching()
    for at, count in ((0.0, 10), (5.0, 20)):
        feed(state, f"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:num_requests_total {count}\n", at)
    row = pool(state, 5.0)
    assert row.counters["requests", "other"] == 10
    assert ("requests", "error") not in row.counters
    assert ("error_ratio", "") not in row.gauges
    assert row.gauges["abort_ratio", ""] == 0.0


def test_labels_that_change_at_each_look_are_neither_counted_nor_kept() -> None:
    state = watching()
    rows = MOST_SERIES // 4
    for look in range(12):
        lines = (f'vllm:prompt_tokens_total{{model_name="m{look}-{row}"}} 5' for row in range(rows))
        feed(state, ALIVE + "\n".join(lines) + "\n", look)
    (track,) = state.tracks.values()
    assert len(track.counters) <= MOST_SERIES + rows


def test_a_name_without_end_is_not_carried_on() -> None:
    state = watching()
    feed(state, ALIVE + f'vllm:prompt_tokens_total{{model_name="{"x" * 100_000}"}} 5\n', 0.0)
    assert state.tally.oddities[Oddity.BAD_LINE] == 1


def test_another_engine_at_the_address_leaves_nothing_of_the_first() -> None:
    state = watching()
    feed(state, (PAGES / "vllm-0.32.0-load-queued.prom").read_bytes(), 0.0)
    page = Body((PAGES / "tgi-3.3.7-from-source-idle.prom").read_bytes(), "")
    state.absorb(understand(TARGET, Lane.FAST, page, at=Instant(1.0, 1e9 + 1)))
    (endpoint,) = state.endpoints(Instant(1.0, 1e9 + 1))
    assert endpoint.engine == "tgi"
    assert "kv_cache_capacity_tokens" not in endpoint.gauges


@pytest.mark.parametrize("capacity", ["0", "-5"])
def test_a_cache_without_room_is_no_capacity(capacity: str) -> None:
    page = f"tgi_batch_current_size 1\ntgi_queue_size 0\ntgi_batch_max_total_tokens {capacity}\n"
    (values,) = understand(TARGET, Lane.FULL, Body(page.encode(), ""), at=Instant(0, 0)).rows.values()
    assert "kv_cache_capacity_tokens" not in values.gauges


def test_every_engine_tells_some_outcome() -> None:
    assert {name: engine.told("requests") for name, engine in ENGINES.items()} == {
        "vllm": ("stop", "length", "abort", "error", "other"), "sglang": ("abort", "other"), "tgi": ("abort", "error", "other"),
    }  # fmt: skip
