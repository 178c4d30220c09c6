"""The `cloudwatch` section: what it means, and what is said of one that cannot be."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.naming import CLOUDWATCH_SIGNALS
from collector.signals import SIGNALS, Level
from exporter.config import Config, ConfigError, parse_config
from exporter.publish.cloudwatch.settings import Settings


def config(section: str) -> Config:
    return parse_config(f"cluster: prod\ncloudwatch: {{{section}}}")


def settings(section: str) -> Settings:
    made = config(section).cloudwatch
    assert made is not None
    return made


def test_an_empty_section_sends_the_usual_signals_of_pools_and_cluster_each_minute() -> None:
    made = settings("")
    assert made.wanted.keys() == {Level.POOL, Level.CLUSTER}
    assert made.wanted[Level.POOL] | made.wanted[Level.CLUSTER] == CLOUDWATCH_SIGNALS
    assert (made.period, made.namespace, made.resolution) == (60.0, "LLMFleet", 60)
    assert config("").notes == ()


def test_without_the_section_nothing_is_sent() -> None:
    assert parse_config("cluster: prod").cloudwatch is None


def test_one_variable_in_the_environment_is_enough() -> None:
    made = parse_config("cluster: prod", over={"cloudwatch.region": "eu-west-1"}).cloudwatch
    assert made is not None
    assert made.region == "eu-west-1"


def test_signals_are_chosen_by_name_and_pattern() -> None:
    made = settings("signals: ['requests*', queue_time_seconds], without: ['*_by_reason']")
    names = made.wanted[Level.POOL]
    assert {"requests", "requests_running", "queue_time_seconds"} <= names
    assert "requests_waiting_by_reason" not in names
    assert all(name.startswith("requests") or name == "queue_time_seconds" for name in names)
    everything = settings("signals: ['*'], levels: [pod, pool, cluster]").wanted
    assert everything == {level: {name for name, row in SIGNALS.items() if level in row.levels} for level in everything}


def test_a_lease_file_begins_at_the_folder_of_the_configuration() -> None:
    assert parse_config("cluster: c\ncloudwatch: {lease_file: run/lease}", folder=Path("/etc/fleet")).cloudwatch == replace(
        settings(""), lease_file="/etc/fleet/run/lease"
    )
    assert settings("lease_file: /run/lease").lease_file == "/run/lease"


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("period: 7s", "cloudwatch.period: expected 1s, 5s, 10s, 30s or whole minutes up to 1h, got '7s'"),
        ("period: 2h", "cloudwatch.period: expected 1s"),
        ("period: 60", "cloudwatch.period: expected a duration"),
        ("namespace: AWS/EC2", "cloudwatch.namespace: expected 1 to 255 letters"),
        ("namespace: ''", "cloudwatch.namespace: expected"),
        ("namespace: 'köln'", "cloudwatch.namespace: expected"),
        ("levels: [pods]", r"cloudwatch.levels\[0\]: expected pod or pool or cluster, got 'pods'"),
        ("levels: [exporter]", r"cloudwatch.levels\[0\]: expected"),
        ("levels: pool", "cloudwatch.levels: expected a list, got text"),
        ("signals: [reqests]", r"cloudwatch.signals\[0\]: no signal is called 'reqests'; did you mean 'requests'"),
        ("without: [zzz]", r"cloudwatch.without\[0\]: no signal is called 'zzz'; docs/metrics.md"),
        ("without: ['*']", "cloudwatch.without: nothing is left to send"),
        ("max_pods: 0", "cloudwatch.max_pods: expected 1 or more, got 0"),
        ("max_metrics: -1", "cloudwatch.max_metrics: expected 1 or more"),
        ("max_queued_requests: 0", "cloudwatch.max_queued_requests: expected 1 or more"),
        ("endpoint_url: example", "cloudwatch.endpoint_url: expected a URL"),
        ("levels: [pod], signals: [time_to_first_token_seconds]", "cloudwatch.signals: none of them is known of a pod"),
        ("endpoint_url: 'http://a b'", "cloudwatch.endpoint_url: expected a URL"),
        ("endpoint_url: 'https://u:p@host'", "cloudwatch.endpoint_url: a URL must not hold a user, a password"),
        ("endpoint_url: 'https://:secret@host'", "cloudwatch.endpoint_url: a URL must not hold a user, a password"),
        ("emf: file", "cloudwatch.emf: expected stdout"),
        ("emf: 'tcp://host'", "cloudwatch.emf: expected stdout"),
        ("emf: 'tcp://host:99999'", "cloudwatch.emf: expected stdout"),
        ("emf: stdout, region: us-east-1", "cloudwatch.emf: nothing is sent to the API then"),
        ("emf_log_group: 'a b'", "cloudwatch.emf_log_group: expected letters"),
        ("perod: 1m", "cloudwatch.perod: unknown key; did you mean 'period'"),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(section: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        config(section)


def test_a_cluster_that_cloudwatch_cannot_name_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="cluster: CloudWatch takes plain ASCII names only, got 'köln'"):
        parse_config("cluster: köln\ncloudwatch: {}")
    assert parse_config("cluster: köln").cluster == "köln"


def test_what_may_surprise_is_noted() -> None:
    assert "is shorter than scrape.full_interval (5s)" in config("period: 1s").notes[0]
    assert "each pod is metrics of its own" in config("levels: [pod]").notes[0]


@pytest.mark.parametrize(
    ("period", "full", "expected"), [("1m", 5.0, 5.0), ("1s", 5.0, 1.0), ("1m", 0.1, 1.0), ("10s", 60.0, 10.0)]
)
def test_samples_come_with_each_whole_reading_and_at_least_once_a_period(period: str, full: float, expected: float) -> None:
    assert settings(f"period: {period}").sample_interval(full) == expected
