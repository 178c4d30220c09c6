"""One cut over pods, pools and the cluster: every number by hand."""

from dataclasses import replace

import pytest

from collector.model import Adapters, Target, Values
from collector.naming import bound_label
from collector.signals import SIGNALS, Lane, State
from exporter.publish.prometheus import Format, render
from tests.make import WALL, at, counts, failure, pod_row, pool_row, raw, reading, state, target, values

USAGE, TOP = "kv_cache_usage_ratio", "kv_cache_usage_max_ratio"
TTFT = "time_to_first_token_seconds"


def ready(**gauges: float) -> Values:
    return values(progress=5.0, **gauges)


def cache(hits: int, queries: int, **requests: int) -> Values:
    return values(counts(prefix_cache_hit_tokens=hits, prefix_cache_query_tokens=queries, requests=requests), progress=5.0)


# ---- gauges


def test_counts_and_usage_of_a_pool() -> None:
    """Usage: (0.9 * 1000 + 0.1 * 3000) / 4000 = 0.3."""
    small, large = target("small"), target("large")
    core = state(small, large)
    core.absorb(reading(small, ready(requests_running=3.0, requests_waiting=1.0, kv_cache_usage_ratio=0.9,
                                     kv_cache_usage_max_ratio=0.95, kv_cache_capacity_tokens=1000.0), at(0)))  # fmt: skip
    core.absorb(reading(large, ready(requests_running=2.0, requests_waiting=0.0, kv_cache_usage_ratio=0.1,
                                     kv_cache_usage_max_ratio=0.2, kv_cache_capacity_tokens=3000.0), at(0)))  # fmt: skip
    cut = core.snapshot(at(0))
    for row in (pool_row(cut), cut.cluster):
        assert row.gauges["requests_running", ""] == 5.0
        assert row.gauges["requests_waiting", ""] == 1.0
        assert row.gauges[USAGE, ""] == pytest.approx(0.3, abs=1e-15)
        assert row.gauges[TOP, ""] == 0.95
        assert row.gauges["kv_cache_capacity_tokens", ""] == 4000.0
        assert row.gauges["imbalance_ratio", ""] == pytest.approx(4.0 * 2 / 6.0)
        assert row.gauges["saturation_ratio", ""] == pytest.approx((0.9 / 0.8 + 0.1 / 0.8) / 2)
        assert row.gauges["reporting_ratio", ""] == 1.0


def test_the_page_and_the_feed_show_the_same_number() -> None:
    pod = target()
    core = state(pod)
    core.absorb(reading(pod, ready(kv_cache_usage_ratio=1e-5, kv_cache_usage_max_ratio=1e-5), at(0)))
    (endpoint,) = core.endpoints(at(0))
    assert endpoint.gauges[TOP] == pod_row(core.snapshot(at(0))).gauges[TOP, ""] == 1e-5


def test_imbalance_is_absent_when_idle() -> None:
    pods = [target("p0"), target("p1")]
    core = state(*pods)
    for pod in pods:
        core.absorb(reading(pod, ready(requests_running=0.0, requests_waiting=0.0), at(0)))
    gauges = pool_row(core.snapshot(at(0))).gauges
    assert ("imbalance_ratio", "") not in gauges
    assert gauges["saturation_ratio", ""] == 0.0


def test_a_stale_pod_is_out_of_every_gauge_above_and_lowers_reporting() -> None:
    pods = [target("p0"), target("p1"), target("p2")]
    core = state(*pods)
    core.absorb(reading(pods[0], ready(requests_running=7.0, kv_cache_usage_ratio=1.0, kv_cache_usage_max_ratio=1.0), at(0)))
    core.absorb(reading(pods[1], ready(requests_running=2.0, kv_cache_usage_ratio=0.5, kv_cache_usage_max_ratio=0.5), at(5)))
    core.absorb(failure(pods[2], at(5)))
    gauges = pool_row(core.snapshot(at(5))).gauges
    assert gauges["requests_running", ""] == 2.0
    assert gauges[USAGE, ""] == gauges[TOP, ""] == 0.5
    assert gauges["reporting_ratio", ""] == pytest.approx(1 / 3)
    assert {one: gauges["pods", one] for one in State} == {
        State.FRESH: 1, State.WARMING: 0, State.NO_PROGRESS: 0, State.STALE: 1, State.TERMINATING: 0, State.DOWN: 1,
    }  # fmt: skip


def test_a_pod_told_to_go_is_not_expected_to_report() -> None:
    pods = [target("p0"), target("p1"), target("p2"), target("p3")]
    core = state(*pods)
    for pod in pods[:3]:
        core.absorb(reading(pod, ready(), at(5)))
    core.absorb(failure(pods[3], at(5)))
    core.watch([*pods[:2], replace(pods[2], terminating=True), pods[3]], at(5))
    cut = core.snapshot(at(5))
    assert pool_row(cut).gauges["pods", State.TERMINATING] == 1
    for row in (pool_row(cut), cut.cluster):
        assert row.gauges["reporting_ratio", ""] == pytest.approx(2 / 3)


def test_a_pool_scaled_to_zero_has_no_share_of_reporting_pods() -> None:
    core = state(target())
    core.absorb(reading(target(), ready(), at(5)))
    core.watch([target(terminating=True)], at(6))
    cut = core.snapshot(at(6))
    assert pool_row(cut).gauges["pods", State.TERMINATING] == 1
    for row in (pool_row(cut), cut.cluster):
        assert ("reporting_ratio", "") not in row.gauges


def test_an_engine_without_a_signal_leaves_the_mean_alone() -> None:
    """TGI tells no KV-cache use."""
    vllm, tgi = target("vllm"), target("tgi")
    core = state(vllm, tgi)
    core.absorb(reading(vllm, ready(requests_running=1.0, kv_cache_usage_ratio=0.6, kv_cache_usage_max_ratio=0.6), at(0)))
    core.absorb(reading(tgi, ready(requests_running=2.0), at(0), engine="tgi"))
    pool = pool_row(core.snapshot(at(0)))
    assert pool.gauges[USAGE, ""] == 0.6
    assert pool.gauges["requests_running", ""] == 3.0
    assert pool.info["engine"] == "tgi,vllm"


def test_adapters_are_counted_once_above() -> None:
    pods = [target("p0"), target("p1"), target("p2", "code")]
    core = state(*pods)
    for pod, running, waiting in zip(pods, ("ab", "bc", "z"), ("", "d", None), strict=True):
        adapters = Adapters(frozenset(running), None if waiting is None else frozenset(waiting), 4)
        core.absorb(reading(pod, replace(ready(adapters_max=4.0), adapters=adapters), at(0)))
    cut = core.snapshot(at(0))
    pool = pool_row(cut)
    assert pool.gauges["adapters_running", ""] == 3.0
    assert pool.gauges["adapters_waiting", ""] == 1.0
    assert pool.gauges["adapters_max", ""] == 8.0
    assert ("adapters_waiting", "") not in pool_row(cut, "code").gauges
    assert ("adapters_running", "") not in cut.cluster.gauges


# ---- ratios over the window


def test_hit_ratio_is_the_ratio_of_summed_increases() -> None:
    """A16: two pods, 1 of 1 and 0 of 99: one hundredth, not one half."""
    pods = [target("p0"), target("p1")]
    core = state(*pods)
    for pod, hits, queries in zip(pods, (1, 0), (1, 99), strict=True):
        core.absorb(reading(pod, cache(1000, 1000), at(0)))
        core.absorb(reading(pod, cache(1000 + hits, 1000 + queries), at(5)))
    cut = core.snapshot(at(5))
    assert pool_row(cut).gauges["prefix_cache_hit_ratio", ""] == pytest.approx(0.01)
    assert cut.cluster.gauges["prefix_cache_hit_ratio", ""] == pytest.approx(0.01)
    assert pod_row(cut, "p0").gauges["prefix_cache_hit_ratio", ""] == 1.0
    assert pod_row(cut, "p1").gauges["prefix_cache_hit_ratio", ""] == 0.0


def test_ratios_are_absent_until_there_is_an_increase_and_after_a_gap() -> None:
    """A32: first scrape, reset, gap."""
    pod = target()
    core = state(pod)

    def ratio(seconds: float, hits: int, queries: int) -> float | None:
        core.absorb(reading(pod, cache(hits, queries), at(seconds)))
        (endpoint,) = core.endpoints(at(seconds))
        shown = pod_row(core.snapshot(at(seconds))).gauges.get(("prefix_cache_hit_ratio", ""))
        assert endpoint.prefix_cache_hit_ratio == shown
        return shown

    assert ratio(0, 900, 1000) is None
    assert ratio(5, 901, 1004) == pytest.approx(0.25)
    assert ratio(10, 1, 4) == pytest.approx(2 / 8)
    assert ratio(410, 800, 900) is None
    assert ratio(415, 801, 901) == 1.0
    assert ratio(480, 801, 901) is None


def test_error_ratio() -> None:
    pod = target()
    core = state(pod)
    core.absorb(reading(pod, cache(0, 0, stop=100, error=50), at(0)))
    core.absorb(reading(pod, cache(0, 0, stop=108, error=52), at(5)))
    cut = core.snapshot(at(5))
    assert pool_row(cut).gauges["error_ratio", ""] == pytest.approx(0.2)
    assert ("error_ratio", "") not in pod_row(cut).gauges


def test_an_error_seen_for_the_first_time_counts() -> None:
    pod = target()
    core = state(pod)
    core.absorb(reading(pod, cache(0, 0, stop=100), at(0)))
    core.absorb(reading(pod, cache(0, 0, stop=103, error=1), at(5)))
    assert pool_row(core.snapshot(at(5))).gauges["error_ratio", ""] == pytest.approx(0.25)


# ---- pods of several targets


PORTS = [target("p0", uid="u0", port=port, url=f"http://10.0.0.1:{port}/metrics") for port in (8000, 8001, 8002)]


def test_the_targets_of_a_pod_fold_into_it() -> None:
    core = state(*PORTS[:2])
    for port, running, usage, size in zip(PORTS, (1.0, 4.0), (0.2, 0.6), (100.0, 300.0), strict=False):
        page = replace(ready(requests_running=running, kv_cache_usage_ratio=usage, kv_cache_usage_max_ratio=usage,
                             kv_cache_capacity_tokens=size), counters=counts(generation_tokens=10))  # fmt: skip
        core.absorb(reading(port, page, at(0)))
        core.absorb(reading(port, replace(page, counters=counts(generation_tokens=13)), at(1)))
    cut = core.snapshot(at(1))
    (pod,) = cut.pods
    assert pod.labels == ("test", "serving", "chat", "p0")
    assert pod.gauges["requests_running", ""] == 5.0
    assert pod.gauges[USAGE, ""] == pytest.approx(0.5, abs=1e-15)
    assert pod.gauges[TOP, ""] == 0.6
    assert pod.counters["generation_tokens", ""] == 6
    assert pod.gauges["targets", "fresh"] == 2.0
    assert pool_row(cut).gauges["pods", "fresh"] == 1.0
    assert len(cut.endpoints) == 2


def test_one_open_port_of_several_keeps_the_pod_and_names_its_engine() -> None:
    """A27: closed ports are told per target; what the pod is, is told by the port that answers."""
    core = state(*PORTS)
    core.absorb(failure(PORTS[0], at(0)))
    core.absorb(failure(PORTS[1], at(0)))
    core.absorb(reading(PORTS[2], replace(ready(requests_running=2.0), model="llama"), at(0)))
    (pod,) = core.snapshot(at(0)).pods
    assert pod.gauges["state", "fresh"] == 1.0
    assert pod.gauges["targets", "down"] == 2.0
    assert pod.gauges["requests_running", ""] == 2.0
    assert pod.gauges["last_sample_timestamp_seconds", ""] == WALL
    assert pod.info["engine"] == "vllm"
    assert pod.info["model"] == "llama"


def test_a_stale_target_takes_its_share_out_of_the_pod() -> None:
    core = state(*PORTS[:2])
    core.absorb(reading(PORTS[0], ready(requests_running=2.0), at(0)))
    core.absorb(reading(PORTS[1], ready(requests_running=3.0), at(2)))
    (pod,) = core.snapshot(at(4)).pods
    assert pod.gauges["requests_running", ""] == 3.0
    assert pod.gauges["targets", "stale"] == pod.gauges["targets", "fresh"] == 1.0
    assert pod.gauges["signal_age_seconds", "full"] == 2.0


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((State.FRESH, State.DOWN), State.FRESH), ((State.WARMING, State.FRESH), State.FRESH),
        ((State.NO_PROGRESS, State.WARMING), State.WARMING), ((State.NO_PROGRESS, State.STALE), State.NO_PROGRESS),
        ((State.STALE, State.TERMINATING), State.STALE), ((State.TERMINATING, State.DOWN), State.TERMINATING),
    ],
)  # fmt: skip
def test_a_pod_is_in_the_best_state_of_its_targets(states: tuple[State, State], expected: State) -> None:
    ports = [replace(port, terminating=wanted is State.TERMINATING) for port, wanted in zip(PORTS, states, strict=False)]
    core = state(*ports)
    for port, wanted in zip(ports, states, strict=True):
        bring_to(core, port, wanted)
    (pod,) = core.snapshot(at(100)).pods
    assert [one for one in State if pod.gauges["state", one]] == [expected]
    assert sum(pod.gauges["targets", one] for one in State) == 2.0


def bring_to(core: object, port: Target, wanted: State) -> None:
    """Make a target be in that state 100 s after the start."""
    pages = {
        State.FRESH: [(100, 5.0, 0.0)], State.TERMINATING: [(100, 5.0, 0.0)], State.STALE: [(90, 5.0, 0.0)],
        State.NO_PROGRESS: [(70, 5.0, 1.0), (100, 5.0, 1.0)], State.WARMING: [(99, 0.0, 0.0)], State.DOWN: [],
    }  # fmt: skip
    for seconds, progress, running in pages[wanted]:
        core.absorb(reading(port, values(progress=progress, requests_running=running), at(seconds)))  # type: ignore[attr-defined]
    if wanted is State.DOWN:
        core.absorb(failure(port, at(100)))  # type: ignore[attr-defined]


# ---- identity


def samples(page: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("old_first", [True, False])
def test_of_two_pods_with_equal_labels_the_newest_is_shown_and_both_count(old_first: bool) -> None:
    """A36: a StatefulSet successor beside its namesake; one series each on the page, both in the pool."""
    old = target("web-0", uid="b-old" if old_first else "z-old", url="http://10.0.0.1:8000/metrics")
    new = target("web-0", uid="m-new", url="http://10.0.0.2:8000/metrics")
    core = state(old)
    core.absorb(reading(old, replace(ready(requests_running=1.0), counters=counts(generation_tokens=5)), at(0)))
    core.watch([old, new], at(1))
    core.absorb(reading(new, replace(ready(requests_running=2.0), counters=counts(generation_tokens=5)), at(1)))
    cut = core.snapshot(at(2))
    (row,) = cut.pods
    assert row.gauges["requests_running", ""] == 2.0
    assert pool_row(cut).gauges["requests_running", ""] == cut.cluster.gauges["requests_running", ""] == 3.0
    assert pool_row(cut).gauges["pods", "fresh"] == 2.0
    names = samples(render(cut, Format.TEXT, max_pods=10)[0])
    assert len(set(names)) == len(names)
    assert len(cut.endpoints) == 2


def test_a_terminating_namesake_is_never_shown_instead_of_a_living_one() -> None:
    leaving = target("web-0", uid="z", url="http://10.0.0.1:8000/metrics", terminating=True)
    living = target("web-0", uid="b", url="http://10.0.0.2:8000/metrics")
    for order in ([leaving, living], [living, leaving]):
        core = state(*order)
        for pod in order:
            core.absorb(reading(pod, ready(requests_running=1.0), at(0)))
        (row,) = core.snapshot(at(0)).pods
        assert row.gauges["state", "fresh"] == 1.0


def test_pools_of_one_name_in_two_namespaces_are_two() -> None:
    one, two = target("p0", namespace="a"), target("p0", namespace="b", url="http://other:1/metrics")
    core = state(one, two)
    core.absorb(reading(one, ready(requests_running=1.0), at(0)))
    core.absorb(reading(two, ready(requests_running=2.0), at(0)))
    cut = core.snapshot(at(0))
    shown = {row.labels[1:]: row.gauges["requests_running", ""] for row in cut.pools}
    assert shown == {("a", "chat"): 1.0, ("b", "chat"): 2.0}
    assert cut.cluster.gauges["requests_running", ""] == 3.0


@pytest.mark.parametrize(
    ("url", "address"),
    [("http://10.0.0.1:8000/metrics", "10.0.0.1:8000"), ("http://[::1]:8000/metrics", "[::1]:8000"), ("https://pod/m", "pod")],
)
def test_addresses(url: str, address: str) -> None:
    assert target(url=url).address == address


def test_identity_is_the_uid_and_port_else_the_url() -> None:
    assert target(uid="u", url="http://10.0.0.1:8000/a").key == target(uid="u", url="http://10.0.0.9:8000/b").key
    assert target(uid="u", url="http://10.0.0.1:8000/").key != target(uid="u", url="http://10.0.0.1:8001/").key
    assert target(url="http://h:1/a").key != target(url="http://h:1/b").key


# ---- additivity by example; the properties are in tests/property


def test_three_ladders_in_one_pool_and_two_pools_in_the_cluster() -> None:
    """A35: counts by bound, never by position."""
    homes = {"vllm": ("chat", (0.1, 0.25, 1.0)), "sglang": ("chat", (0.1, 0.2, 1.0)), "other": ("code", (0.1,))}
    pods = {name: target(name, pool) for name, (pool, _) in homes.items()}
    core = state(*pods.values())
    for name, (_, bounds) in homes.items():
        core.absorb(reading(pods[name], values(histograms={TTFT: raw(bounds, (0,) * (len(bounds) + 1))}), at(0)))
        core.absorb(reading(pods[name], values(histograms={TTFT: raw(bounds, (4,) * (len(bounds) + 1), 1.5)}), at(1)))
    cut = core.snapshot(at(1))
    chat, code = (pool_row(cut, pool).histograms[TTFT] for pool in ("chat", "code"))
    assert (chat.cumulative[-1], code.cumulative[-1], cut.cluster.histograms[TTFT].cumulative[-1]) == (32, 8, 40)
    assert chat.sum_fixed + code.sum_fixed == cut.cluster.histograms[TTFT].sum_fixed
    buckets = dict(zip(map(bound_label, (*SIGNALS[TTFT].ladder, float("inf"))), chat.cumulative, strict=True))
    assert buckets["0.1"] == 8
    assert buckets["0.2"] == (4 + 3) + (4 + 4), "vLLM: of 1/2, 1/4, 3/4, 1/8 those below 2/3; SGLang: all"
    assert buckets["0.25"] == (4 + 4) + (4 + 4), "SGLang: the first place below a sixteenth is the 16th"
    assert buckets["1.0"] == 24
    assert buckets["2560.0"] == 24
    assert buckets["+Inf"] == 32


def test_lanes_do_not_disturb_the_window() -> None:
    """Fast pages carry the cache counters, full ones all: together they are one series of looks."""
    pod = target()
    core = state(pod)
    core.absorb(reading(pod, cache(10, 20, stop=1), at(0)))
    core.absorb(reading(pod, cache(11, 24), at(1), lane=Lane.FAST))
    core.absorb(reading(pod, cache(13, 28, stop=3), at(2)))
    cut = core.snapshot(at(2))
    assert pod_row(cut).gauges["prefix_cache_hit_ratio", ""] == pytest.approx(3 / 8)
    assert pool_row(cut).counters["requests", "stop"] == 2
