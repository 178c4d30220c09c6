"""What is worth a log line: each change once, repeats counted."""

from collections.abc import Iterable

from collector.clock import Instant
from collector.model import Failure, Target
from collector.reasons import FailureReason
from collector.signals import Lane, State
from collector.snapshot import Endpoint
from exporter.changes import Change, Changes

MOMENT = Instant(0.0, 0.0)


def endpoint(state: State, reason: FailureReason | None = None, *, host: str = "a", sampled: bool = True) -> Endpoint:
    target = Target(url=f"http://{host}:1/metrics", namespace="n", pool="p", pod=f"{host}:1")
    failure = (
        None if reason is None else Failure(target=target, lane=Lane.FULL, at=MOMENT, reason=reason, detail=f"about {reason}")
    )
    return Endpoint(target=target, state=state, engine="vllm", model="m", sampled_at=0.0 if sampled else None, age_seconds=None,
                    gauges={}, adapters=None, prefix_cache_hit_ratio=None, failure=failure)  # fmt: skip


def note(changes: Changes, *endpoints: Endpoint) -> list[Change]:
    return changes.note(endpoints)


def brief(changes: Iterable[Change]) -> list[tuple[str, bool, str, str | None]]:
    return [(one.message, one.worse, one.facts["state"], one.facts.get("reason")) for one in changes]


def test_a_target_that_nobody_looked_at_yet_is_not_worth_a_line() -> None:
    changes = Changes()
    assert note(changes, endpoint(State.STALE, sampled=False)) == []
    assert note(changes, endpoint(State.STALE, sampled=False)) == []


def test_a_change_is_a_line_with_all_facts() -> None:
    changes = Changes()
    note(changes, endpoint(State.STALE, sampled=False))
    (change,) = note(changes, endpoint(State.FRESH))
    assert change.message == "state changed"
    assert change.worse is False
    where = {"namespace": "n", "pool": "p", "pod": "a:1", "url": "http://a:1/metrics"}
    assert change.facts == {**where, "state": "fresh"}
    (change,) = note(changes, endpoint(State.STALE, FailureReason.TIMEOUT))
    assert change.worse is True
    assert change.facts == {**where, "state": "stale", "before": "fresh", "attempts_before": "0", "reason": "timeout",
                            "detail": "about timeout"}  # fmt: skip


def test_a_target_first_seen_after_its_first_look_is_a_line() -> None:
    assert brief(note(Changes(), endpoint(State.FRESH))) == [("state changed", False, "fresh", None)]
    assert brief(note(Changes(), endpoint(State.STALE, FailureReason.REFUSED, sampled=False))) == [
        ("state changed", True, "stale", "refused")
    ]


def test_the_way_down_and_back_is_a_line_a_step() -> None:
    changes = Changes()
    steps = [endpoint(State.FRESH), endpoint(State.FRESH, FailureReason.TIMEOUT), endpoint(State.STALE, FailureReason.TIMEOUT),
             endpoint(State.DOWN, FailureReason.TIMEOUT), endpoint(State.DOWN, FailureReason.REFUSED), endpoint(State.WARMING),
             endpoint(State.FRESH)]  # fmt: skip
    lines = [brief(note(changes, step)) for step in steps]
    assert lines == [
        [("state changed", False, "fresh", None)],
        [("reason changed", True, "fresh", "timeout")],
        [("state changed", True, "stale", "timeout")],
        [("state changed", True, "down", "timeout")],
        [("reason changed", True, "down", "refused")],
        [("state changed", False, "warming", None)],
        [("state changed", False, "fresh", None)],
    ]


def test_repeats_are_counted_and_not_printed() -> None:
    changes = Changes()
    note(changes, endpoint(State.DOWN, FailureReason.REFUSED))
    for _ in range(41):
        changes.tried(endpoint(State.DOWN).target.key)
        changes.tried("http://elsewhere/metrics")
        assert note(changes, endpoint(State.DOWN, FailureReason.REFUSED)) == []
    note(changes, endpoint(State.DOWN, FailureReason.REFUSED))
    (change,) = note(changes, endpoint(State.FRESH))
    assert (change.facts["before"], change.facts["attempts_before"]) == ("down", "41"), "attempts count, not looks at them"
    (change,) = note(changes, endpoint(State.DOWN, FailureReason.REFUSED))
    assert (change.facts["before"], change.facts["attempts_before"]) == ("fresh", "0")


def test_the_detail_stands_beside_the_reason_and_its_change_alone_is_no_line() -> None:
    changes = Changes()
    (change,) = note(changes, endpoint(State.DOWN, FailureReason.TLS))
    assert change.facts["detail"] == "about tls"
    other = endpoint(State.DOWN, FailureReason.TLS)
    assert note(changes, other) == []


def test_targets_do_not_mix_and_a_new_life_begins_anew() -> None:
    changes = Changes()
    note(changes, endpoint(State.FRESH, host="a"), endpoint(State.FRESH, host="b"))
    (change,) = note(changes, endpoint(State.FRESH, host="a"), endpoint(State.DOWN, FailureReason.DNS, host="b"))
    assert change.facts["pod"] == "b:1"
    assert note(changes, endpoint(State.FRESH, host="a")) == []
    (change,) = note(changes, endpoint(State.FRESH, host="a"), endpoint(State.DOWN, FailureReason.DNS, host="b"))
    assert "before" not in change.facts
