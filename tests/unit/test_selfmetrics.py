"""What the exporter says of itself: no series twice, whatever the targets are called."""

from dataclasses import replace

from collector.clock import SystemClock
from collector.reasons import FailureReason
from exporter.publish.prometheus import Format
from exporter.selfmetrics import SelfMetrics
from tests.make import HandClock, at, failure, reading, state, target, values


def lines(own: SelfMetrics, name: str) -> list[str]:
    return [line for line in own.render(Format.TEXT).splitlines() if line.startswith(name)]


def test_two_paths_of_one_port_are_one_series_that_is_up_when_both_are() -> None:
    first, second = (target("tiny-0", url=f"http://10.0.0.1:8000/{path}") for path in "ab")
    seen = state(first, second)
    own = SelfMetrics(seen, SystemClock())
    labels = '{address="10.0.0.1:8000",namespace="serving",pod="tiny-0",pool="chat"}'
    assert lines(own, "llm_exporter_target_up{") == [], "what was not tried is not said"
    seen.absorb(reading(first, values(), at(1)))
    seen.absorb(failure(second, at(1), reason=FailureReason.REFUSED))
    assert [line.split(" ")[-1] for line in lines(own, "llm_exporter_target_up{")] == ["0.0"]
    seen.absorb(reading(second, values(), at(2)))
    (line,) = lines(own, "llm_exporter_target_up{")
    assert line.endswith(" 1.0")
    assert set(labels.strip("{}").split(",")) == set(line.partition("{")[2].partition("}")[0].split(","))


def test_families_that_both_lanes_saw_count_once() -> None:
    one = target()
    seen = state(one)
    seen.absorb(replace(reading(one, values(), at(1)), unknown_families=3))
    assert lines(SelfMetrics(seen, SystemClock()), "llm_exporter_unknown_families") == ["llm_exporter_unknown_families 3.0"]


def test_every_source_of_targets_says_whether_it_could_be_read() -> None:
    own = SelfMetrics(state(), SystemClock())
    own.sources_good = {"b.json": False, "a.json": True}
    assert [line.split(" ")[-1] for line in lines(own, "llm_exporter_target_source_last_read_successful{")] == ["1.0", "0.0"]


def test_the_time_of_the_last_good_configuration_moves_with_good_ones_only() -> None:
    clock = HandClock()
    own = SelfMetrics(state(), clock)

    def told() -> float:
        (line,) = lines(own, "llm_exporter_config_last_reload_success_timestamp_seconds")
        return float(line.split(" ")[1])

    started = told()
    assert started == clock.now().wall
    clock.move(10)
    own.note_reload(False)
    assert told() == started
    own.note_reload(True)
    assert told() == started + 10
