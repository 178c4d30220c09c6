"""Embedded metric format: documents that CloudWatch Logs can read, the same numbers as the API gets, to stdout or the agent."""

import io
import json
import socket
import sys
import threading
from typing import Any

import pytest

from collector.fixed import to_fixed
from collector.signals import SIGNALS, Level
from collector.snapshot import Row
from collector.totals import Histogram
from exporter.config import parse_config
from exporter.demo.cloudwatch.rules import UNITS
from exporter.publish.cloudwatch.batch import Batch
from exporter.publish.cloudwatch.data import Datum
from exporter.publish.cloudwatch.emf import EmfWriter, documents
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone
from exporter.publish.outbox import Unsent

WALL = 1_800_000_000.0
TTFT = "time_to_first_token_seconds"
LADDER = SIGNALS[TTFT].ladder


def batches(where: str = "stdout", period: str = "1m") -> list[Batch]:
    of = parse_config(f"cluster: prod\ncloudwatch: {{emf: '{where}', signals: ['*'], period: {period}}}").cloudwatch
    assert of is not None
    full = Histogram((), to_fixed(12.5), {LADDER: (10,) * (len(LADDER) + 1)})
    many = {(name, ""): 2.0 for name, row in SIGNALS.items() if Level.POOL in row.levels and not row.labels and not row.ladder}
    row = Row(level=Level.POOL, labels=("prod", "serving", "chat"), gauges=many, counters={("requests", "stop"): 3},
              histograms={name: full for name, row in SIGNALS.items() if row.ladder})  # fmt: skip
    made: list[Batch] = []
    feed = Feed(of, "prod", Alone(), made.append)
    feed.take([row], WALL)
    feed.finish([row], WALL + 59)
    return made


def written(made: list[Batch]) -> list[dict[str, Any]]:
    lines: list[bytes] = []
    writer = EmfWriter("stdout", write=lines.append)
    for batch in made:
        writer(batch)
    return [json.loads(line) for line in b"".join(lines).splitlines()]


def test_documents_keep_the_limits_of_the_format() -> None:
    found = written(batches())
    assert len(found) >= 3
    for document in found:
        about = document["_aws"]
        assert about["Timestamp"] == int(WALL * 1000)
        assert about["LogGroupName"] == "llm-fleet-exporter"
        (directive,) = about["CloudWatchMetrics"]
        assert directive["Namespace"] == "LLMFleet"
        assert 1 <= len(directive["Metrics"]) <= 100
        assert all(
            len(names) <= 30 and all(isinstance(document[name], str) for name in names) for names in directive["Dimensions"]
        )
        assert document.keys() == {"_aws", *directive["Dimensions"][0], *(metric["Name"] for metric in directive["Metrics"])}
        assert len(json.dumps(document)) < 1_000_000
        for metric in directive["Metrics"]:
            assert metric["Unit"] in UNITS
            assert metric["StorageResolution"] == 60
            _check(document[metric["Name"]])


def _check(value: Any) -> None:
    if not isinstance(value, dict):
        assert isinstance(value, int | float)
        return
    assert value["Min"] <= value["Sum"] / value["Count"] * (1 + 1e-9)
    assert value["Sum"] / value["Count"] <= value["Max"] * (1 + 1e-9)
    if "Values" in value:
        assert 1 <= len(value["Values"]) == len(value["Counts"]) <= 100
        assert sum(value["Counts"]) == value["Count"]


def test_more_than_a_hundred_metrics_of_one_subject_are_several_documents() -> None:
    data = [Datum(f"m{number}", (("cluster", "prod"),), "Count", 1.0) for number in range(250)]
    found = list(documents(data, namespace="N", log_group="g", start=WALL, resolution=60))
    assert [count for count, _ in found] == [100, 100, 50]
    names = [metric["Name"] for _, document in found for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]]
    assert names == [datum.name for datum in data]


def test_numbers_are_those_of_the_window() -> None:
    by_name = {name: value for document in written(batches()) for name, value in document.items()}
    assert by_name["llm_pool_requests"] == 3.0
    assert by_name["llm_pool_requests_waiting"] == {"Count": 2, "Sum": 4.0, "Min": 2.0, "Max": 2.0}
    exact = by_name["llm_pool_time_to_first_token_seconds_exact"]
    assert (exact["Count"], exact["Sum"]) == (10 * (len(LADDER) + 1), 12.5)
    assert by_name["llm_pool_time_to_first_token_seconds_overflow"] == 10.0
    assert by_name["llm_exporter_cloudwatch_writers"] == 1.0


def test_short_periods_are_high_resolution() -> None:
    (directive,) = written(batches(period="10s"))[0]["_aws"]["CloudWatchMetrics"]
    assert {metric["StorageResolution"] for metric in directive["Metrics"]} == {1}


def test_lines_on_stdout_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw))
    made = batches()
    receipts = [EmfWriter("stdout")(batch) for batch in made]
    lines = raw.getvalue().decode().splitlines()
    metrics = sum(len(json.loads(line)["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for line in lines)
    assert metrics == sum(receipt.sent for receipt in receipts) > 50
    assert not any(batch.pieces for batch in made)


def test_the_agents_socket_gets_lines_and_a_lost_one_is_opened_again() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def listen() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    while part := connection.recv(1 << 16):
                        heard.append(part)

        ears = threading.Thread(target=listen)
        ears.start()
        writer = EmfWriter(f"tcp://127.0.0.1:{port}")
        first, second = batches()[0], batches()[0]
        assert writer(first).sent > 10
        writer._close()
        writer(second)
        writer._close()
        ears.join(10)
    documents = [json.loads(line) for line in b"".join(heard).splitlines()]
    assert documents[: len(documents) // 2] == documents[len(documents) // 2 :]
    with pytest.raises(Unsent, match="unreachable") as failed:
        EmfWriter(f"tcp://127.0.0.1:{port}")(batches()[0])
    assert failed.value.again


def test_an_agent_that_begins_anew_between_two_windows_misses_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        writer = EmfWriter(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        for windows in (2, 1):
            writer(batches()[0])
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1 << 20)
                for _ in range(windows - 1):
                    writer(batches()[0])
                    assert connection.recv(1 << 20)
        writer._close()
