"""Back ends that fail, in both protocols: what is counted, what is sent again, what it costs."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from collector.clock import SystemClock
from collector.signals import Level
from collector.snapshot import Snapshot
from exporter.publish.otlp.send import Courier, resource_of
from exporter.publish.otlp.settings import Settings
from exporter.publish.outbox import Outbox, Unsent
from tests.make import HandClock, at, counts, reading, state, target, values
from tests.net.otlp_back_ends import (
    OK,
    PATIENCE_SECONDS,
    PROTOCOLS,
    BackEnd,
    Fault,
    back_end_for,
    black_hole,
    dripping,
    half_closed,
    http_back_end,
)
from tests.net.pki import Authority
from tests.otlp_reader import metrics_of, samples

QUICK = 0.25
both = pytest.mark.parametrize("protocol", PROTOCOLS)


def snapshot(step: int = 1, *names: str) -> Snapshot:
    pods = [target(name) for name in names or ("p0",)]
    core = state(*pods)
    for pod in pods:
        core.absorb(reading(pod, values(counts(prompt_tokens=step), requests_running=float(step)), at(step)))
    return core.snapshot(at(step + 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A moment whose cut is there."""

    cut: Snapshot

    def snapshot(self) -> Snapshot:
        return self.cut


def settings(url: str, protocol: str, **more: object) -> Settings:
    endpoint = url if protocol == "grpc" else f"{url}/v1/metrics"
    return replace(Settings(header_files={}, timeout=PATIENCE_SECONDS), endpoint=endpoint, protocol=protocol, **more)  # type: ignore[arg-type]


@contextmanager
def courier(url: str, protocol: str, **more: object) -> Iterator[Courier]:
    one = Courier(settings(url, protocol, **more), resource_of("c"), clock=HandClock(), max_pods=100)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def outbox(back_end: BackEnd, protocol: str, size: int = 5) -> Iterator[Outbox[Ready]]:
    with courier(back_end.url, protocol, timeout=1.0) as one:
        box = Outbox("otlp", one.send, SystemClock(), size=size, first_pause_seconds=0.01, longest_pause_seconds=0.02)
        yield box
        back_end.released.set()
        box.close(within_seconds=10)


def failure(one: Courier, moment: Ready) -> Unsent:
    with pytest.raises(Unsent) as told:
        one.send(moment)
    return told.value


@both
def test_points_arrive_and_are_counted(protocol: str) -> None:
    with back_end_for(protocol) as back_end, courier(back_end.url, protocol) as one:
        receipt = one.send(Ready(snapshot()))
        assert (receipt.sent, receipt.rejected) == (back_end.points, {})
        assert back_end.points > 50
        (request,) = back_end.taken
        resource = {item.key: item.value.string_value for item in request.resource_metrics[0].resource.attributes}
        assert (
            resource.items()
            >= {"service.name": "llm-fleet-exporter", "service.namespace": "c", "service.instance.id": "0"}.items()
        )
        assert request.resource_metrics[0].scope_metrics[0].scope.name == "llm-fleet-exporter"


@both
def test_refused_points_are_counted_and_not_sent_again(protocol: str) -> None:
    """Hard case A40."""
    with back_end_for(protocol, Fault(refused=3), OK) as back_end, courier(back_end.url, protocol) as one:
        receipt = one.send(Ready(snapshot()))
        assert receipt.rejected == {"refused": 3}
        assert receipt.sent == back_end.points - 3
        assert back_end.attempts == 1


@both
@pytest.mark.parametrize(
    ("fault", "reason", "again", "wait"),
    [
        (Fault("unauthorized"), "unauthorized", False, 0.0),
        (Fault("forbidden"), "forbidden", False, 0.0),
        (Fault("throttled", wait=7), "throttled", True, 7.0),
        (Fault("server"), "server", False, 0.0),
        (Fault("unavailable"), "unavailable", True, 0.0),
        (Fault("unavailable", wait=2), "unavailable", True, 2.0),
        (Fault(slow=True), "timeout", True, 0.0),
    ],
)  # fmt: skip
def test_failures_are_told_at_the_first_attempt(protocol: str, fault: Fault, reason: str, again: bool, wait: float) -> None:
    timeout = QUICK if fault.slow else PATIENCE_SECONDS
    with back_end_for(protocol, fault) as back_end, courier(back_end.url, protocol, timeout=timeout) as one:
        told = failure(one, Ready(snapshot()))
        assert (told.reason, told.again, told.after_seconds) == (reason, again, wait)
        assert back_end.attempts == 1, "the SDK's exporter must not try again by itself"
        assert back_end.taken == []


@both
@pytest.mark.parametrize("hole", [black_hole, half_closed])
def test_silence_ends_at_the_timeout(protocol: str, hole: object) -> None:
    with hole() as url, courier(url, protocol, timeout=QUICK) as one:  # type: ignore[operator]
        begun = time.monotonic()
        told = failure(one, Ready(snapshot()))
        assert told.reason in {"timeout", "connection_lost", "unavailable"}
        assert told.again
        assert time.monotonic() - begun < PATIENCE_SECONDS


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"],
    ids=["headers", "body", "body to the end"],
)  # fmt: skip
def test_an_answer_that_drips_ends_with_the_timeout(
    head: bytes, secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = None
    if secure:
        ours = Authority(tmp_path, "ours")
        tls = ours.issue("back-end")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(ours.file))
    with dripping(head, b"x", tls=tls) as url, courier(url, "http/protobuf", timeout=QUICK) as one:
        begun = time.monotonic()
        for _ in range(2):
            told = failure(one, Ready(snapshot()))
            assert (told.reason, told.again) == ("timeout", True)
        assert time.monotonic() - begun < PATIENCE_SECONDS


@both
def test_nobody_there(protocol: str) -> None:
    with black_hole() as url:
        pass
    with courier(url, protocol, timeout=QUICK) as one:
        told = failure(one, Ready(snapshot()))
        assert told.reason in {"connection_lost", "unavailable", "timeout"}
        assert told.again


@both
def test_an_outage_is_over_by_itself(protocol: str) -> None:
    plan = (Fault("unavailable"), Fault("throttled", wait=0), Fault(slow=True), OK)
    with back_end_for(protocol, *plan) as back_end, outbox(back_end, protocol) as box:
        batches = [Ready(snapshot(step)) for step in (1, 2)]
        for batch in batches:
            box.put(batch)
        back_end.wait(lambda: len(back_end.taken) == 2)
    assert box.tally.batches == {"sent": 2, "dropped": 0}
    assert {"unavailable": 1, "throttled": 1}.items() <= box.tally.failures.items()
    assert box.tally.failures["timeout"] >= 1
    assert box.tally.sent == back_end.points
    running = [
        samples(metrics_of(one))["llm_cluster_requests_running", frozenset({("cluster", "test")})] for one in back_end.taken
    ]
    assert running == [1.0, 2.0], "in order"


@both
def test_a_batch_of_several_requests_goes_on_where_it_stopped(protocol: str) -> None:
    plan = (OK, OK, Fault("unavailable"), OK)
    with back_end_for(protocol, *plan) as back_end, courier(back_end.url, protocol, most_points=50) as one:
        names = [f"p{number}" for number in range(20)]
        batch = Ready(snapshot(1, *names))
        failure(one, batch)
        receipt = one.send(batch)
        assert receipt.sent == back_end.points
        found = [samples(metrics_of(request)) for request in back_end.taken]
        assert sum(map(len, found)) == len({series for part in found for series in part}), "no point twice"
        assert len({series for part in found for series in part if series[0] == "llm_pod_requests_running"}) == 20


@both
def test_series_of_a_pod_that_went_end_once(protocol: str) -> None:
    with back_end_for(protocol) as back_end, courier(back_end.url, protocol) as one:
        for names in (("stays", "goes"), ("stays",), ("stays",)):
            one.send(Ready(snapshot(1, *names)))
        ended = [samples(metrics_of(request), ended=True) for request in back_end.taken]
        first = [series for part in ended for series in part]
        assert ("llm_pod_requests_running", frozenset({"cluster": "test", "namespace": "serving", "pool": "chat",
                                                       "pod": "goes"}.items())) in first  # fmt: skip
        assert {dict(labels)["pod"] for _, labels in first} == {"goes"}
        assert len(first) == len(set(first)), "told once"


@both
def test_an_end_that_was_not_heard_is_told_again(protocol: str) -> None:
    plan = (OK, OK, Fault("server"), OK)
    with back_end_for(protocol, *plan) as back_end, courier(back_end.url, protocol) as one:
        one.send(Ready(snapshot(1, "stays", "goes")))
        failure(one, Ready(snapshot(1, "stays")))
        one.send(Ready(snapshot(1, "stays")))
        assert any(samples(metrics_of(request), ended=True) for request in back_end.taken)


@both
def test_deltas_lose_nothing_to_an_outage(protocol: str) -> None:
    plan = (OK, Fault("server"), OK)
    with back_end_for(protocol, *plan) as back_end, courier(back_end.url, protocol, temporality="delta") as one:
        pod = target()
        core = state(pod)
        for step, total in enumerate((5, 9, 20)):
            core.absorb(reading(pod, values(counts(prompt_tokens=total)), at(step + 1)))
            batch = Ready(core.snapshot(at(step + 1.5)))
            if step == 1:
                failure(one, batch)
            else:
                one.send(batch)
        told = [samples(metrics_of(request))["llm_cluster_prompt_tokens_total", frozenset({("cluster", "test")})]
                for request in back_end.taken]  # fmt: skip
        counted = core.snapshot(at(5)).cluster.counters["prompt_tokens", ""]
        assert sum(told) == counted
        assert told[1] == 15, "what the lost batch held is part of the next"


@both
def test_header_files_are_read_anew_and_never_shown(protocol: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with back_end_for(protocol) as back_end, courier(
        back_end.url, protocol, header_files={"authorization": str(token)}
    ) as one:  # fmt: skip
        told = failure(one, Ready(snapshot()))
        assert (told.reason, str(token) in str(told)) == ("unauthorized", True)
        token.write_text("Bearer first\n", encoding="utf-8")
        one.send(Ready(snapshot()))
        token.write_text("Bearer second one\n", encoding="utf-8")
        one.send(Ready(snapshot()))
        token.unlink()
        one.send(Ready(snapshot()))
        assert [headers["authorization"] for headers in back_end.headers] == ["Bearer first", *["Bearer second one"] * 2]


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
@both
def test_compressions(protocol: str, compression: str) -> None:
    with back_end_for(protocol) as back_end, courier(back_end.url, protocol, compression=compression) as one:
        for names in (("a", "b"), ("a",)):
            one.send(Ready(snapshot(1, *names)))
        assert any(samples(metrics_of(request), ended=True) for request in back_end.taken)


@both
def test_the_standards_variables_are_honoured(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with back_end_for(protocol) as back_end:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", back_end.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=serving,service.instance.id=3")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "fleet")
        one = Courier(replace(Settings(header_files={}), protocol=protocol), resource_of("c"), clock=HandClock(), max_pods=9)
        one.send(Ready(snapshot()))
        one.close()
        assert back_end.headers[0]["x-tenant"] == "seven"
        resource = {item.key: item.value.string_value for item in back_end.taken[0].resource_metrics[0].resource.attributes}
        assert resource.items() >= {"team": "serving", "service.instance.id": "3", "service.name": "fleet"}.items()


@both
def test_only_who_is_trusted_gets_anything(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_EXPORTER_OTLP_CERTIFICATE names the authority."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    with back_end_for(protocol, tls=ours.issue("back-end")) as back_end:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.file))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(other.file))
        with courier(back_end.url, protocol, timeout=3.0) as one:
            assert failure(one, Ready(snapshot())).reason in {"tls", "unavailable", "timeout"}
        assert back_end.attempts == 0
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(ours.file))
        with courier(back_end.url, protocol) as one:
            assert one.send(Ready(snapshot())).sent == back_end.points


def test_an_authority_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent.pem")
    with courier("https://127.0.0.1:9", "http/protobuf") as one:
        told = failure(one, Ready(snapshot()))
        assert told.reason == "tls"
        assert "/nonexistent.pem" in str(told)


def test_ten_thousand_pod_names_leave_memory_flat() -> None:
    """Hard case A41: two hundred pods at a time, all of them new each time, each with gauges, a counter and a histogram."""
    with http_back_end() as back_end, courier(back_end.url, "http/protobuf", temporality="delta") as one:
        whole, sizes = snapshot(), []
        row = replace(whole.pools[0], level=Level.POD, gauges={("requests_running", ""): 1.0},
                      counters={("prompt_tokens", ""): 1}, info={})  # fmt: skip
        bare = replace(whole, pools=(), cluster=replace(whole.cluster, gauges={}, counters={}, histograms={}))
        for generation in range(50):
            pods = tuple(replace(row, labels=("c", "serving", "chat", f"pod-{generation}-{number}")) for number in range(200))
            one.send(Ready(replace(bare, pods=pods)))
            back_end.taken.clear(), back_end.headers.clear(), back_end.bodies.clear()
            if generation % 5 == 4:
                gc.collect()
                sizes.append(len(gc.get_objects()))
        assert back_end.attempts >= 100, "what ended was told too"
        assert max(sizes) - min(sizes) < 500, sizes


@both
def test_a_black_hole_keeps_no_more_than_the_queue(protocol: str) -> None:
    with black_hole() as url, courier(url, protocol, timeout=QUICK) as one:
        box = Outbox("otlp", one.send, SystemClock(), size=3, first_pause_seconds=0.01, longest_pause_seconds=0.02)
        whole = snapshot()
        for _ in range(300):
            box.put(Ready(replace(whole)))
        living = sum(isinstance(found, Ready) for found in gc.get_objects())
        assert living <= 3 + 5, "the queue, and what is being sent and made"
        assert box.tally.batches["dropped"] + len(box) == 300
        box.close(within_seconds=1.0)
        assert box.tally.batches == {"sent": 0, "dropped": 300}


def test_this_file_uses_no_environment_of_its_caller() -> None:
    assert not [name for name in os.environ if name.startswith("OTEL_")]
