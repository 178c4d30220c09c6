"""Windows to requests: names and units of the contract, every limit of the service kept, a bad datum costs only itself."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.fixed import to_fixed
from collector.naming import (
    CLOUDWATCH_NAMESPACE,
    CLOUDWATCH_SIGNALS,
    EXACT,
    OVERFLOW,
    cloudwatch_name,
    cloudwatch_unit,
    label_names,
)
from collector.signals import SIGNALS, Kind, Level
from collector.snapshot import Row
from collector.totals import Child, Histogram
from exporter.config import parse_config
from exporter.demo.cloudwatch.rules import UNITS as ALL_UNITS
from exporter.demo.cloudwatch.rules import check_request
from exporter.publish.cloudwatch import limits
from exporter.publish.cloudwatch.active import Active
from exporter.publish.cloudwatch.batch import Batch, split, unpack, written_bytes
from exporter.publish.cloudwatch.data import Datum, as_parameter
from exporter.publish.cloudwatch.feed import Feed
from exporter.publish.cloudwatch.lease import Alone
from exporter.publish.cloudwatch.limits import Reason, fault
from exporter.publish.cloudwatch.settings import Settings
from exporter.publish.cloudwatch.spread import Spread
from exporter.publish.cloudwatch.window import Statistics

WALL = 1_800_000_000.0
POOL = ("prod", "serving", "chat")
GOOD = Datum("llm_x", (("cluster", "prod"),), "Count", 1.0)
LADDER = (0.1, 1.0)


def settings(**keys: Any) -> Settings:
    made = parse_config(f"cluster: prod\ncloudwatch: {keys or {'region': 'us-east-1'}}").cloudwatch
    assert made is not None
    return made


def pool(name: str = "chat", *, counters: dict[Child, int] | None = None, count: int = 0, **gauges: float) -> Row:
    histogram = {"time_to_first_token_seconds": Histogram((), to_fixed(2.5), {LADDER: (count, 0, count)})}
    return Row(level=Level.POOL, labels=("prod", "serving", name), gauges={(one, ""): value for one, value in gauges.items()},
               counters=counters or {}, histograms=histogram if count else {})  # fmt: skip


def pod(name: str) -> Row:
    return Row(level=Level.POD, labels=(*POOL, name), gauges={("requests_running", ""): 1.0})


def batches(of: Settings, *samples: list[Row], period: float = 60.0) -> list[Batch]:
    """What each sample, a period after the one before, and the end make."""
    made: list[Batch] = []
    feed = Feed(of, "prod", Alone(), made.append)
    for number, rows in enumerate(samples):
        feed.take(rows, WALL + number * period)
    feed.finish(samples[-1], WALL + len(samples) * period - 1)
    return made


def data(made: list[Batch]) -> list[dict[str, Any]]:
    return [datum for batch in made for piece in batch.pieces for datum in unpack(piece)]


def named(made: list[Batch], name: str) -> dict[str, Any]:
    return next(datum for datum in data(made) if datum["MetricName"] == name)


def test_a_counter_a_gauge_and_a_histogram_are_what_the_contract_says() -> None:
    made = batches(settings(), [pool(counters={("requests", "stop"): 7}, count=2, requests_waiting=4.0)])
    where = [{"Name": "cluster", "Value": "prod"}, {"Name": "namespace", "Value": "serving"}, {"Name": "pool", "Value": "chat"}]
    assert named(made, "llm_pool_requests") == {
        "MetricName": "llm_pool_requests", "Dimensions": [*where, {"Name": "outcome", "Value": "stop"}], "Timestamp": int(WALL),
        "Unit": "Count", "StorageResolution": 60, "Value": 7.0}  # fmt: skip
    waiting = named(made, "llm_pool_requests_waiting")
    assert waiting["StatisticValues"] == {"SampleCount": 2.0, "Sum": 8.0, "Minimum": 4.0, "Maximum": 4.0}
    assert named(made, "llm_pool_time_to_first_token_seconds")["Unit"] == "Seconds"
    assert sum(named(made, "llm_pool_time_to_first_token_seconds")["Counts"]) == 4
    exact = named(made, "llm_pool_time_to_first_token_seconds" + EXACT)["StatisticValues"]
    assert (exact["SampleCount"], exact["Sum"]) == (4.0, 2.5)
    assert exact["Minimum"] <= 2.5 / 4 <= exact["Maximum"]
    assert named(made, "llm_pool_time_to_first_token_seconds" + OVERFLOW)["Value"] == 2.0
    assert named(made, "llm_exporter_cloudwatch_writers")["Value"] == 1.0


def test_a_window_without_observations_says_nothing_of_percentiles() -> None:
    made = batches(settings(), [pool(count=2)], [pool(count=2)], [pool(count=2)])
    names = [[datum["MetricName"] for datum in data([batch])] for batch in made]
    assert [any("time_to_first" in name for name in window) for window in names] == [True, False, False]


def test_late_windows_keep_their_own_time() -> None:
    made = batches(settings(), *[[pool(requests_waiting=1.0)]] * 4)
    assert [batch.start for batch in made] == [WALL, WALL + 60, WALL + 120, WALL + 180]
    assert {datum["Timestamp"] for datum in data(made[1:2])} == {int(WALL + 60)}


@pytest.mark.parametrize(("period", "resolution"), [("1s", 1), ("10s", 1), ("1m", 60), ("5m", 60)])
def test_short_periods_are_high_resolution(period: str, resolution: int) -> None:
    of = settings(period=period)
    made = batches(of, [pool(requests_waiting=1.0)], period=of.period)
    assert {datum["StorageResolution"] for datum in data(made)} == {resolution}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": ""}, Reason.NAME),
        ({"name": "x" * 256}, Reason.NAME),
        ({"name": "über"}, Reason.NAME),
        ({"unit": "Tokens"}, Reason.UNIT),
        ({"dimensions": (("cluster", ""),)}, Reason.DIMENSION),
        ({"dimensions": (("cluster", "   "),)}, Reason.DIMENSION),
        ({"dimensions": (("cluster", "x" * 1025),)}, Reason.DIMENSION),
        ({"dimensions": (("cluster", "köln"),)}, Reason.DIMENSION),
        ({"dimensions": (("cluster", "a\nb"),)}, Reason.DIMENSION),
        ({"dimensions": ((":cluster", "a"),)}, Reason.DIMENSION),
        ({"dimensions": tuple((f"d{number}", "a") for number in range(31))}, Reason.TOO_MANY_DIMENSIONS),
        ({"value": float("nan")}, Reason.NOT_FINITE),
        ({"value": float("-inf")}, Reason.NOT_FINITE),
        ({"value": 2.0**361}, Reason.OUT_OF_RANGE),
        ({"value": 2.0**-361}, Reason.OUT_OF_RANGE),
        ({"value": Statistics(1, float("inf"), 0.0, 0.0)}, Reason.NOT_FINITE),
        ({"value": Spread(tuple(map(float, range(151))), (1,) * 151, 0, 0.0, 1.0)}, Reason.TOO_MANY_VALUES),
    ],
)
def test_what_the_service_would_refuse_is_seen_before(change: dict[str, Any], reason: Reason) -> None:
    bad = replace(GOOD, **change)
    assert fault(bad) is reason
    if reason is not Reason.UNIT:  # more units are taken than we use
        with pytest.raises(Exception, match=r"Invalid|Missing"):
            check(as_parameter(bad, start=WALL, resolution=60))


@pytest.mark.parametrize(
    "change",
    [
        {}, {"name": "x" * 255}, {"dimensions": (("cluster", "x" * 1024),)}, {"dimensions": (("c", " a"),)}, {"dimensions": ()},
        {"dimensions": tuple((f"d{number}", "a") for number in range(30))}, {"value": 0.0}, {"value": -(2.0**360)},
        {"value": 2.0**-360},
        {"value": Spread(tuple(map(float, range(150))), (1,) * 150, 0, 0.0, 1.0)}, {"value": Statistics(2, 3.0, 1.0, 2.0)},
    ],
)  # fmt: skip
def test_what_stands_just_within_the_limits_is_sent_and_taken(change: dict[str, Any]) -> None:
    good = replace(GOOD, **change)
    assert fault(good) is None
    check(as_parameter(good, start=WALL, resolution=60))


def check(datum: dict[str, Any]) -> None:
    check_request({"Namespace": "N", "MetricData": [datum]}, size=1, now=WALL)


def test_a_bad_datum_is_counted_and_the_rest_goes(caplog: pytest.LogCaptureFixture) -> None:
    """A44: one NaN makes the service refuse the whole request."""
    made = batches(settings(), [pool(requests_waiting=float("nan"), requests_running=2.0), pool("münchen", requests_running=1.0)])
    rejected = sum((batch.rejected for batch in made), Counter())
    assert rejected == {"not_finite": 2, "dimension": 1}
    assert caplog.text.count("left out for CloudWatch, said once") == 1
    assert named(made, "llm_pool_requests_running")["StatisticValues"]["Sum"] == 4.0
    check_request({"Namespace": "N", "MetricData": data(made)}, size=1, now=WALL)


def test_numbers_that_no_float_can_hold_cost_only_themselves() -> None:
    histogram = {"time_to_first_token_seconds": Histogram((), 1 << 2000, {LADDER: (1, 1, 1)})}
    row = Row(level=Level.POOL, labels=POOL, gauges={("requests_running", ""): 1.0}, counters={("prompt_tokens", ""): 10**400},
              histograms=histogram)  # fmt: skip
    made = batches(settings(), [row])
    assert sum((batch.rejected for batch in made), Counter()) == {"not_finite": 2}
    assert named(made, "llm_pool_requests_running")
    assert sum(named(made, "llm_pool_time_to_first_token_seconds")["Counts"]) == 3


def test_a_window_in_which_everything_is_bad_is_counted_all_the_same() -> None:
    made: list[Batch] = []
    feed = Feed(settings(), "münchen", Alone(), made.append)
    row = Row(level=Level.POOL, labels=("münchen", "s", "p"), gauges={("requests_running", ""): 1.0})
    feed.take([row], WALL)
    feed.finish([row], WALL + 1)
    assert [(batch.pieces, batch.rejected) for batch in made] == [([], {"dimension": 2})]


def test_requests_are_split_by_number_and_by_size() -> None:
    """A45: 2,500 data, and long names."""
    small = [as_parameter(replace(GOOD, name=f"m{number}", dimensions=()), start=WALL, resolution=60) for number in range(2500)]
    groups = list(split(small))
    assert [datum for group in groups for datum in group] == small
    assert max(map(len, groups)) <= limits.MOST_DATA
    long = [as_parameter(replace(GOOD, dimensions=tuple((f"d{one:02}" * 50, "v" * 1024) for one in range(30))), start=WALL,
                         resolution=60)] * 40  # fmt: skip
    groups = list(split(long))
    assert len(groups) > 1
    assert all(sum(map(written_bytes, group)) <= limits.MOST_BYTES for group in groups)
    assert [len(group) for group in split(long, most_bytes=1)] == [1] * 40
    assert [len(group) for group in split(small, most_bytes=10**9)] == [1000, 1000, 500]


def test_a_hundred_pod_lives_are_no_metrics_by_default_and_capped_where_asked_for() -> None:
    """A47: a pod's name as a dimension makes one metric of each pod that ever lived."""
    lives = [[pool(requests_running=1.0), *(pod(f"chat-{life}-{one}") for one in range(3))] for life in range(100)]

    def identities(of: Settings) -> set[str]:
        return {f"{datum['MetricName']} {datum['Dimensions']}" for datum in data(batches(of, *lives))}

    assert not any("pod" in one for one in identities(settings()))
    assert len(identities(settings())) == 2
    capped = batches(settings(levels=["pod"], max_pods=5), *lives)
    # Of the same pods nothing was seen for an hour, then others may come.
    assert len({datum["Dimensions"][-1]["Value"] for datum in data(capped) if "pod_" in datum["MetricName"]}) == 10
    assert sum((batch.rejected for batch in capped), Counter())["pod_cap"] > 200


def test_metrics_are_capped_and_those_that_are_there_stay() -> None:
    of = settings(max_metrics=4)
    first = [pool(f"p{one}", requests_running=1.0) for one in range(3)]
    made = batches(of, first, [pool("p9", requests_running=1.0), *first])
    assert {datum["Dimensions"][-1]["Value"] for datum in data(made)} == {"prod", "p0", "p1", "p2"}
    assert sum((batch.rejected for batch in made), Counter())["metric_cap"] == 1


def test_a_cap_keeps_back_pods_before_pools() -> None:
    of = settings(levels=["pod", "pool"], signals=["requests_running"], max_metrics=4)
    made = batches(of, [*(pod(f"p{one}") for one in range(9)), pool(requests_running=1.0)])
    assert sum("pool_" in datum["MetricName"] for datum in data(made)) == 1


def test_a_clock_that_was_ahead_keeps_no_room_for_what_was_written_then() -> None:
    active = Active(most_metrics=2, most_pods=1)
    old, new = ((Level.POD, ("prod", "serving", "chat", name)) for name in ("old", "new"))
    assert active.refusal(old, GOOD, WALL + 86400) is None
    active.expire(WALL)
    assert active.refusal(new, GOOD, WALL) is None


def test_after_an_hour_a_metric_makes_room_for_another() -> None:
    of = settings(max_metrics=2)
    made = batches(of, [pool("old", requests_running=1.0)], *[[]] * 59, [pool("new", requests_running=1.0)],
                   [pool("new", requests_running=1.0)], [pool("new", requests_running=1.0)])  # fmt: skip
    shown = [datum["Dimensions"][-1]["Value"] for datum in data(made) if "running" in datum["MetricName"]]
    assert shown == ["old", "new", "new", "new"]


def test_the_exact_companion_contradicts_itself_never() -> None:
    """Sums that no bucket explains, of a torn scrape or of what lies above the top."""
    for total in (0.01, 500.0):
        histogram = {"time_to_first_token_seconds": Histogram((), to_fixed(total), {LADDER: (0, 1, 1)})}
        row = Row(level=Level.POOL, labels=POOL, gauges={}, histograms=histogram)
        exact = named(batches(settings(), [row]), "llm_pool_time_to_first_token_seconds" + EXACT)["StatisticValues"]
        assert exact["Minimum"] <= total / 2 <= exact["Maximum"]


def test_every_signal_has_a_name_and_a_unit_that_the_service_takes() -> None:
    for row in SIGNALS.values():
        for level in row.levels:
            name = cloudwatch_name(row.name, level)
            assert cloudwatch_unit(row.name, level) in limits.UNITS <= ALL_UNITS
            suffixes = ("", EXACT, OVERFLOW) if row.kind is Kind.HISTOGRAM else ("",)
            dimensions = tuple((label, "x") for label in label_names(row, level))
            assert all(fault(Datum(name + suffix, dimensions, "Count", 1.0)) is None for suffix in suffixes)
    names = Counter(cloudwatch_name(row.name, level) + suffix for row in SIGNALS.values() for level in row.levels
                    for suffix in ("", *([EXACT, OVERFLOW] if row.ladder else [])))  # fmt: skip
    assert max(names.values()) == 1


def test_the_contract_in_the_docs_is_what_is_sent() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cloudwatch-metrics.md").read_text(encoding="utf-8")
    written = {}
    for _, unit, names, dimensions in re.findall(
        r"^\| (\S+) \| [^|]+ \| (\w+) \| (`llm[^|]+) \| ([^|]*) \|$", text, re.MULTILINE
    ):
        for name in re.findall(r"`(\w+)`", names):
            written[name] = ("Count" if name.endswith(OVERFLOW) else unit, tuple(re.findall(r"`(\w+)`", dimensions)))
    sent = data(batches(settings(signals=["*"]), [everything()]))
    assert len(sent) > 60
    for datum in sent:
        assert written[datum["MetricName"]] == (datum["Unit"], tuple(one["Name"] for one in datum["Dimensions"]))
    for name in CLOUDWATCH_SIGNALS:
        assert f"| **{name}** |" in text
    assert f"`{CLOUDWATCH_NAMESPACE}`" in text


def everything() -> Row:
    """A pool with every signal that a pool can have."""
    rows = [row for row in SIGNALS.values() if Level.POOL in row.levels]
    gauges = {(row.name, "|".join("x" for _ in row.labels)): 1.0 for row in rows if row.kind is Kind.GAUGE}
    counters = {(row.name, "x" if row.labels else ""): 1 for row in rows if row.kind is Kind.COUNTER}
    full = {row.name: Histogram((), 1, {row.ladder: (1,) * (len(row.ladder) + 1)}) for row in rows if row.ladder}
    return Row(level=Level.POOL, labels=POOL, gauges=gauges, counters=counters, histograms=full)
