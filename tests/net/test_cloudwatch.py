"""The real SDK against a strict stand-in for CloudWatch: what arrives, in which order, and what faults on the way cost."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.exceptions import ClientError

from collector.clock import SystemClock
from collector.signals import Level
from collector.snapshot import Row
from exporter.config import parse_config
from exporter.demo.cloudwatch.server import StandIn, serving
from exporter.publish.cloudwatch.batch import Batch, pack
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone, FileLease, Lease
from exporter.publish.cloudwatch.send import Sender, make_client
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.cloudwatch.writers import LOOK_EVERY_SECONDS, Writers
from exporter.publish.outbox import Outbox, Unsent
from tests.conftest import FakeClock
from tests.net.fault_proxy import Fault, responding, spoiling

PATIENCE_SECONDS = 20.0
CLUSTER = (("cluster", "prod"),)
TOKENS = ("LLMFleet", "llm_cluster_prompt_tokens", CLUSTER)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of a file, as a workload has them; nothing of the machine's own."""
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = first\naws_secret_access_key = secret\n", encoding="utf-8")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return file


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """After throttling the SDK holds requests back for seconds; here they pass at once."""
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket.acquire", lambda *_, **__: True)


@pytest.fixture
def cloudwatch() -> Iterator[StandIn]:
    with serving() as stand_in:
        yield stand_in


def settings(url: str, **keys: Any) -> Settings:
    section = {"region": "us-east-1", "endpoint_url": url, **keys}
    made = parse_config(f"cluster: prod\ncloudwatch: {section}").cloudwatch
    assert made is not None
    return made


def row(tokens: int, **gauges: float) -> Row:
    return Row(level=Level.CLUSTER, labels=("prod",), gauges={(name, ""): value for name, value in gauges.items()},
               counters={("prompt_tokens", ""): tokens})  # fmt: skip


def start_outbox(send: Callable[[Batch], Any], size: int, *, first_pause_seconds: float = 0.001) -> Outbox[Batch]:
    return Outbox("cloudwatch", send, SystemClock(), size=size, given_up=lambda batch: batch.receipt,
                  first_pause_seconds=first_pause_seconds, longest_pause_seconds=max(first_pause_seconds, 0.01))  # fmt: skip


@contextmanager
def outbox(send: Callable[[Batch], Any], size: int = 100) -> Iterator[Outbox[Batch]]:
    box = start_outbox(send, size)
    yield box
    box.close(within_seconds=PATIENCE_SECONDS)


def deliver(of: Settings, windows: int, *, size: int = 100) -> Outbox[Batch]:
    """Windows that each gain ten tokens more than the one before, recent ones, sent until all are dealt with."""
    with outbox(Sender(of, SystemClock()), size) as box:
        start = SystemClock().now().wall // of.period * of.period - windows * of.period
        feed = Feed(of, "prod", Alone(), box.put)
        total = 0
        for number in range(windows):
            total += 10 * (number + 1)
            feed.take([row(total)], start + number * of.period)
        wait(lambda: len(box) == 0)
        feed.finish([row(total)], start + (windows - 0.5) * of.period)
        wait(lambda: len(box) == 0)
    return box


def wait(done: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.01)):
        if done():
            return
        moment.wait(0.01)
    raise AssertionError("not within the time")


def sums(cloudwatch: StandIn, key: Any = TOKENS) -> list[float]:
    return [one.total for _, one in sorted(cloudwatch.store.bins[key].items())]


def test_what_was_gained_arrives_by_window(cloudwatch: StandIn) -> None:
    box = deliver(settings(cloudwatch.url), 4)
    assert sums(cloudwatch) == [10 + 20, 30, 40, 0]
    assert not cloudwatch.refusals
    assert box.tally.batches == {"sent": 4, "dropped": 0}
    assert box.tally.sent == sum(len(request.data) for request in cloudwatch.requests)
    assert [request.namespace for request in cloudwatch.requests] == ["LLMFleet"] * 4
    assert box.tally.last_success is not None


def test_big_requests_are_packed_by_the_sdk(cloudwatch: StandIn) -> None:
    send = Sender(settings(cloudwatch.url), SystemClock())
    data = [{"MetricName": f"metric_{number}", "Value": 1.0} for number in range(900)]
    assert send(Batch(SystemClock().now().wall, [pack(data)])).sent == 900
    assert [request.packed for request in cloudwatch.requests] == [True]


NOTHING_TAKEN: list[Fault] = ["throttle"] * 20 + [
    "unavailable",
    "reset",
    "pass",
    "slow",
    "expired",
    "throttle",
    "denied",
    "unavailable",
]


def test_faults_lose_nothing_and_keep_the_order(cloudwatch: StandIn) -> None:
    """A46: twenty throttles, 503, a reset, slow answers, expired and denied."""
    with spoiling(cloudwatch.url, *NOTHING_TAKEN) as proxy:
        box = deliver(settings(proxy.url), 6)
    assert sums(cloudwatch) == [30, 30, 40, 50, 60, 0]
    stamps = [request.data[0]["Timestamp"] for request in cloudwatch.requests]
    assert stamps == sorted(stamps)
    assert box.tally.batches == {"sent": 6, "dropped": 0}
    assert box.tally.failures == {"throttled": 21, "unavailable": 2, "lost_answer": 1, "credentials": 1, "denied": 1}


def test_a_lost_answer_counts_twice_and_says_so(cloudwatch: StandIn) -> None:
    with spoiling(cloudwatch.url, "lost") as proxy:
        box = deliver(settings(proxy.url), 2)
    assert box.tally.failures == {"lost_answer": 1}
    assert sums(cloudwatch) == [2 * 30, 0]


def test_a_full_queue_drops_the_oldest_windows_and_keeps_the_newest(cloudwatch: StandIn) -> None:
    of = settings(cloudwatch.url)
    with spoiling(cloudwatch.url, "slow") as proxy, outbox(Sender(replace(of, endpoint_url=proxy.url), SystemClock()), 3) as box:
        start = SystemClock().now().wall // 60 * 60 - 600
        feed = Feed(of, "prod", Alone(), box.put)
        feed.take([row(0)], start - 60)
        feed.take([row(1)], start)
        wait(lambda: proxy.seen == ["slow"])
        for number in range(1, 8):
            feed.take([row(1 + number)], start + 60 * number)
        proxy.held.set()
        wait(lambda: len(box) == 0)
    assert box.tally.batches == {"sent": 4, "dropped": 4}
    assert max(cloudwatch.store.bins[TOKENS]) == start + 360
    assert len(sums(cloudwatch)) == 4


def test_nobody_there_is_unreachable_and_counts_nothing_twice() -> None:
    with serving() as gone:
        url = gone.url
    batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])])
    with pytest.raises(Exception, match="unreachable") as failed:
        Sender(settings(url), SystemClock())(batch)
    assert failed.value.again  # type: ignore[attr-defined]


def test_bad_data_are_found_by_halves_and_the_rest_is_taken(cloudwatch: StandIn) -> None:
    """What no check of ours foresaw: the service refuses, and only the bad ones stay behind."""
    data = [{"MetricName": f"m{number}", "Value": 1.0} for number in range(1000)]
    data[17]["MetricName"] = data[700]["MetricName"] = "köln"
    batch = Batch(SystemClock().now().wall, [pack(data)])
    receipt = Sender(settings(cloudwatch.url), SystemClock())(batch)
    assert (receipt.sent, receipt.rejected) == (998, {"refused": 2})
    assert len(cloudwatch.store.bins) == 998
    assert len(cloudwatch.refusals) + len(cloudwatch.requests) < 60


@pytest.mark.parametrize("status", [404, 405, 408, 500, 502])
def test_an_answer_that_is_not_about_the_data_refuses_none(status: int) -> None:
    """A wrong endpoint, or a proxy that is in the way."""
    with responding(status) as url:
        batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])])
        with pytest.raises(Unsent, match="unavailable") as failed:
            Sender(settings(url), SystemClock())(batch)
    assert failed.value.again
    assert not batch.rejected


def test_an_endpoint_of_the_environment_that_is_none_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", "my vpc")
    send = Sender(settings(""), SystemClock())
    send.open()
    with pytest.raises(Unsent, match="configuration: Invalid endpoint"):
        send(Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])]))


@pytest.mark.parametrize(
    ("code", "operation", "reason"),
    [("InvalidIdentityToken", "AssumeRoleWithWebIdentity", "credentials"), ("AccessDeniedException", "PutMetricData", "denied")],
)
def test_a_400_that_is_not_about_the_data_costs_none(code: str, operation: str, reason: str) -> None:
    """IRSA without its OIDC provider: STS answers so. And the API reference's status for a missing permission is 400."""

    class Client:
        def put_metric_data(self, **_: Any) -> None:
            raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, operation)

    batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])])
    with pytest.raises(Unsent, match=reason) as failed:
        Sender(settings("http://127.0.0.1:9"), SystemClock(), make=lambda _: Client())(batch)
    assert failed.value.again
    assert not batch.rejected


def test_a_fault_between_two_halves_sends_nothing_twice(cloudwatch: StandIn) -> None:
    data = [{"MetricName": f"m{number}", "Value": 1.0} for number in range(64)]
    data[5]["MetricName"] = ""
    batch = Batch(SystemClock().now().wall, [pack(data)])
    faults: list[Fault] = ["pass", "throttle", "pass", "unavailable", "pass", "pass", "throttle", "pass", "throttle"]
    with spoiling(cloudwatch.url, *faults) as proxy, outbox(Sender(settings(proxy.url), SystemClock())) as box:
        box.put(batch)
        wait(lambda: len(box) == 0)
    assert (box.tally.sent, box.tally.rejected) == (63, {"refused": 1})
    assert set(Counter(one.count for bins in cloudwatch.store.bins.values() for one in bins.values())) == {1}


def test_a_batch_that_was_given_up_half_sent_counts_what_came_of_it(cloudwatch: StandIn) -> None:
    data = [{"MetricName": f"m{number}", "Value": 1.0} for number in range(5)]
    batch = Batch(SystemClock().now().wall, [pack(data[:3]), pack(data[3:])], rejected=Counter({"not_finite": 2}))
    with spoiling(cloudwatch.url, "pass", "throttle", "throttle") as proxy:
        box = start_outbox(Sender(settings(proxy.url), SystemClock()), 1, first_pause_seconds=3600.0)
        box.put(batch)
        wait(lambda: box.tally.failures.total() == 1)
        box.close(within_seconds=PATIENCE_SECONDS)
    assert box.tally.batches == {"sent": 0, "dropped": 1}
    assert (box.tally.sent, box.tally.rejected) == (3, {"not_finite": 2})


def test_a_service_that_refuses_everything_is_not_asked_for_ever(cloudwatch: StandIn) -> None:
    data = [{"MetricName": "köln", "Value": 1.0}] * 1000
    receipt = Sender(settings(cloudwatch.url), SystemClock())(Batch(SystemClock().now().wall, [pack(data)]))
    assert (receipt.sent, receipt.rejected) == (0, {"refused": 1000})
    assert 64 < len(cloudwatch.refusals) < 150


def test_what_the_sdk_will_not_write_is_refused_as_well(cloudwatch: StandIn) -> None:
    batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "", "Value": 1.0}, {"MetricName": "m", "Value": 1.0}])])
    receipt = Sender(settings(cloudwatch.url), SystemClock())(batch)
    assert (receipt.sent, receipt.rejected) == (1, {"refused": 1})


def test_a_window_that_waited_too_long_is_left_out_and_counted(cloudwatch: StandIn) -> None:
    now = SystemClock().now().wall
    send = Sender(settings(cloudwatch.url), SystemClock())
    data = [{"MetricName": "m", "Value": 1.0}] * 3
    assert send(Batch(now - 15 * 86400, [pack(data)])).rejected == {"timestamp": 3}
    assert send(Batch(now - 13 * 86400, [pack(data)])).sent == 3


def test_credentials_that_expired_are_read_again(cloudwatch: StandIn, credentials: Path) -> None:
    keys: list[str] = []

    def make(of: Settings) -> Any:
        session = boto3.Session()
        found = session.get_credentials()
        assert found is not None
        keys.append(found.access_key)
        return session.client("cloudwatch", region_name="us-east-1", endpoint_url=of.endpoint_url)

    with spoiling(cloudwatch.url, "expired", "pass") as proxy:
        send = Sender(settings(proxy.url), SystemClock(), make=make)
        batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])])
        with pytest.raises(Exception, match="credentials"):
            send(batch)
        credentials.write_text(credentials.read_text().replace("first", "second"), encoding="utf-8")
        assert send(batch).sent == 1
    assert keys == ["first", "second"]


def test_the_client_slows_down_by_itself_and_leaves_trying_again_to_the_outbox(cloudwatch: StandIn) -> None:
    retries = make_client(settings(cloudwatch.url)).meta.config.retries
    assert (retries["mode"], retries["total_max_attempts"]) == ("adaptive", 1)


def test_without_credentials_or_region_it_says_so_and_waits(cloudwatch: StandIn, credentials: Path) -> None:
    batch = Batch(SystemClock().now().wall, [pack([{"MetricName": "m", "Value": 1.0}])])
    send = Sender(settings(cloudwatch.url, region=""), SystemClock())
    send.open()
    with pytest.raises(Exception, match="configuration: You must specify a region"):
        send(batch)
    credentials.unlink()
    with pytest.raises(Exception, match="credentials: Unable to locate credentials"):
        Sender(settings(cloudwatch.url), SystemClock())(batch)


def test_one_of_two_with_a_lease_writes_and_the_other_goes_on_where_it_ended(cloudwatch: StandIn, tmp_path: Path) -> None:
    first, second = play_two(cloudwatch, FileLease(str(tmp_path / "lease")), FileLease(str(tmp_path / "lease")), graceful=True)
    assert (first, second) == (3, 3)
    # One window each minute, none twice. Half a minute of the fourth: the first one's, then the second's.
    assert sums(cloudwatch) == [20, 10, 5 + 2, 10, 8]
    assert sums(cloudwatch, ("LLMFleet", "llm_exporter_cloudwatch_writers", CLUSTER)) == [1, 1, 2, 1, 1]


def test_a_window_that_was_handed_over_in_part_is_not_written_again_at_its_end(cloudwatch: StandIn, tmp_path: Path) -> None:
    """The first ends in the middle of a window, and the second looks only when that is over: the rest is missing, no more."""
    of = settings(cloudwatch.url)
    send = Sender(of, SystemClock())
    start = SystemClock().now().wall // 60 * 60 - 600
    first, second = (Feed(of, "prod", FileLease(str(tmp_path / "lease")), send) for _ in range(2))
    for feed in (first, second):
        feed.take([row(10)], start + 0.5)
        feed.take([row(20)], start + 60.5)
    first.finish([row(28)], start + 110)
    first.leave()
    second.take([row(30)], start + 120.5)
    second.take([row(40)], start + 180.5)
    second.finish([row(45)], start + 200)
    assert sums(cloudwatch) == [20, 8, 10, 5]


def test_after_a_crash_the_other_writes_the_open_window_whole(cloudwatch: StandIn, tmp_path: Path) -> None:
    lost, second = play_two(cloudwatch, FileLease(str(tmp_path / "lease")), FileLease(str(tmp_path / "lease")), graceful=False)
    assert (lost, second) == (2, 3)
    assert sums(cloudwatch) == [20, 10, 10, 10, 8]


def test_two_without_a_lease_write_everything_twice(cloudwatch: StandIn) -> None:
    """What the heartbeat is for: its Sum is the number of writers."""
    play_two(cloudwatch, Alone(), Alone(), graceful=True)
    assert sums(cloudwatch)[:2] == [40, 20]
    assert sums(cloudwatch, ("LLMFleet", "llm_exporter_cloudwatch_writers", CLUSTER))[:2] == [2, 2]


def play_two(cloudwatch: StandIn, *leases: Lease, graceful: bool) -> tuple[int, int]:
    """Two exporters see the same ten tokens a minute. The first ends in the middle of the third; batches of each."""
    of = settings(cloudwatch.url)
    start = SystemClock().now().wall // 60 * 60 - 600
    counted, send = [0, 0], Sender(of, SystemClock())

    def put(who: int, batch: Batch) -> None:
        counted[who] += 1
        send(batch)

    feeds = [Feed(of, "prod", lease, partial(put, who)) for who, lease in enumerate(leases)]
    for moment, total in ((0.5, 10), (60.5, 20), (120.5, 30)):
        for feed in feeds:
            feed.take([row(total)], start + moment)
    if graceful:
        feeds[0].finish([row(35)], start + 150)
        feeds[0].leave()
    else:
        leases[0].release()
    feeds[1].take([row(38)], start + 160)
    for moment, total in ((180.5, 40), (240.5, 50)):
        feeds[1].take([row(total)], start + moment)
    feeds[1].finish([row(58)], start + 299)
    return counted[0], counted[1]


def test_two_writers_are_seen_and_told(cloudwatch: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(wall=SystemClock().now().wall)
    of = settings(cloudwatch.url)
    writers = Writers(of, lambda: "prod", clock)
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=cloudwatch.url)
    beat = {"MetricName": "llm_exporter_cloudwatch_writers", "Dimensions": [{"Name": "cluster", "Value": "prod"}], "Value": 1.0}
    start = clock.wall // 60 * 60
    for minute in range(3, 9):
        for _ in range(1 if minute == 4 else 2):
            client.put_metric_data(Namespace="LLMFleet", MetricData=[beat | {"Timestamp": int(start - 60 * minute)}])
    writers.look(client)
    assert writers.seen is None
    clock.mono += LOOK_EVERY_SECONDS
    writers.look(client)
    assert writers.seen == 2
    assert "several exporters write" in caplog.text


def test_a_single_period_with_many_is_a_restart_or_a_request_sent_again(cloudwatch: StandIn) -> None:
    clock = FakeClock(wall=SystemClock().now().wall)
    writers = Writers(settings(cloudwatch.url), lambda: "prod", clock)
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=cloudwatch.url)
    beat = {"MetricName": "llm_exporter_cloudwatch_writers", "Dimensions": [{"Name": "cluster", "Value": "prod"}], "Value": 1.0}
    for minute in range(3, 9):
        for _ in range(9 if minute == 5 else 1):
            stamp = int(clock.wall // 60 * 60 - 60 * minute)
            client.put_metric_data(Namespace="LLMFleet", MetricData=[beat | {"Timestamp": stamp}])
    clock.mono += LOOK_EVERY_SECONDS
    writers.look(client)
    assert writers.seen == 1


def test_a_cluster_with_another_name_reads_back_what_is_written_under_it(cloudwatch: StandIn) -> None:
    clock, names = FakeClock(wall=SystemClock().now().wall), iter(("prod", "west"))
    writers = Writers(settings(cloudwatch.url), lambda: next(names), clock)
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=cloudwatch.url)
    for name, beats in (("prod", 1.0), ("west", 3.0)):
        beat = {"MetricName": "llm_exporter_cloudwatch_writers", "Dimensions": [{"Name": "cluster", "Value": name}]}
        stamp = int(clock.wall // 60 * 60 - 240)
        client.put_metric_data(Namespace="LLMFleet", MetricData=[{**beat, "Value": beats, "Timestamp": stamp}])
    for seen in (1, 3):
        clock.mono += LOOK_EVERY_SECONDS
        writers.look(client)
        assert writers.seen == seen


def test_who_may_not_read_back_asks_no_more(cloudwatch: StandIn) -> None:
    clock = FakeClock()
    writers = Writers(settings(cloudwatch.url), lambda: "prod", clock)
    with spoiling(cloudwatch.url, "denied") as proxy:
        client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=proxy.url)
        for _ in range(3):
            clock.mono += LOOK_EVERY_SECONDS
            writers.look(client)
        assert writers.seen is None
        assert len(proxy.seen) == 1


@pytest.mark.parametrize("fault", ["throttle", "unavailable", "reset"])
def test_a_fault_in_reading_back_is_no_reason_to_ask_no_more(cloudwatch: StandIn, fault: Fault) -> None:
    clock = FakeClock(wall=SystemClock().now().wall)
    writers = Writers(settings(cloudwatch.url), lambda: "prod", clock)
    beat = {"MetricName": "llm_exporter_cloudwatch_writers", "Dimensions": [{"Name": "cluster", "Value": "prod"}], "Value": 1.0}
    with spoiling(cloudwatch.url, "pass", fault) as proxy:
        client = make_client(settings(proxy.url))
        client.put_metric_data(Namespace="LLMFleet", MetricData=[beat | {"Timestamp": int(clock.wall // 60 * 60 - 240)}])
        for seen in (None, 1):
            clock.mono += LOOK_EVERY_SECONDS
            writers.look(client)
            assert writers.seen == seen


def test_an_answer_without_results_costs_no_batch(cloudwatch: StandIn) -> None:
    """Of something that only looks like CloudWatch: the batch was taken all the same."""

    class Client:
        def put_metric_data(self, **_: Any) -> None: ...

        def get_metric_data(self, **_: Any) -> dict[str, Any]:
            return {"MetricDataResults": []}

    clock = FakeClock(wall=SystemClock().now().wall)
    writers = Writers(settings(cloudwatch.url), lambda: "prod", clock)
    clock.mono += LOOK_EVERY_SECONDS
    send = Sender(settings(cloudwatch.url), clock, make=lambda _: Client(), after=writers.look)
    assert send(Batch(clock.wall, [pack([{"MetricName": "m", "Value": 1.0}])])).sent == 1


def test_the_stand_in_refuses_who_does_not_sign(cloudwatch: StandIn) -> None:
    answer = requests.post(cloudwatch.url, json={}, headers={"X-Amz-Target": "G.PutMetricData"}, timeout=5)
    assert answer.status_code == 403
