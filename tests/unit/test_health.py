"""A target's state at the exact limits, and which one wins where several hold."""

from dataclasses import replace
from itertools import product

import pytest

from collector.health import Limits, Vitals, state_of
from collector.signals import REPORTING, State

LIMITS = Limits()
NOW = 1000.0
GOOD = Vitals(last_good=NOW, progress=50.0, alive_since=0.0)
EPSILON = 1e-6


def test_defaults_are_the_contract() -> None:
    assert (LIMITS.stale_after, LIMITS.down_after, LIMITS.no_progress_after) == (3.0, 15.0, 30.0)
    assert (LIMITS.warming_for, LIMITS.gap_limit, LIMITS.window) == (60.0, 300.0, 60.0)


def test_never_tried_is_stale() -> None:
    assert state_of(Vitals(), NOW, LIMITS) is State.STALE


def test_never_good_and_failing_is_down() -> None:
    assert state_of(Vitals(failing=True), NOW, LIMITS) is State.DOWN


@pytest.mark.parametrize(
    ("silent_for", "failing", "expected"),
    [
        (0.0, False, State.FRESH), (3.0, False, State.FRESH), (3.0 + EPSILON, False, State.STALE),
        (15.0 + EPSILON, False, State.STALE), (1e6, False, State.STALE),
        (0.0, True, State.FRESH), (3.0, True, State.FRESH), (3.0 + EPSILON, True, State.STALE),
        (15.0, True, State.STALE), (15.0 + EPSILON, True, State.DOWN),
    ],
)  # fmt: skip
def test_silence(silent_for: float, failing: bool, expected: State) -> None:
    assert state_of(replace(GOOD, failing=failing), NOW + silent_for, LIMITS) is expected


@pytest.mark.parametrize(
    ("stuck_for", "expected"),
    [(0.0, State.FRESH), (30.0 - EPSILON, State.FRESH), (30.0, State.NO_PROGRESS), (1e4, State.NO_PROGRESS)],
)
def test_no_progress_is_reached_at_its_limit(stuck_for: float, expected: State) -> None:
    assert state_of(replace(GOOD, stuck_since=NOW - stuck_for), NOW, LIMITS) is expected


def test_no_progress_is_judged_at_the_last_sample_not_by_silence() -> None:
    """29 s without movement at the last look: two silent seconds prove nothing more."""
    assert state_of(replace(GOOD, stuck_since=NOW - 29.0), NOW + 2.0, LIMITS) is State.FRESH


@pytest.mark.parametrize(
    ("alive_for", "expected"), [(0.0, State.WARMING), (60.0 - EPSILON, State.WARMING), (60.0, State.FRESH), (1e4, State.FRESH)]
)
def test_warming_ends_at_its_limit_by_itself(alive_for: float, expected: State) -> None:
    assert state_of(Vitals(last_good=NOW, progress=0.0, alive_since=NOW - alive_for), NOW, LIMITS) is expected


def test_any_movement_ends_warming() -> None:
    assert state_of(Vitals(last_good=NOW, progress=1.0, alive_since=NOW), NOW, LIMITS) is State.FRESH


def test_without_a_progress_counter_neither_warming_nor_no_progress() -> None:
    unknown = Vitals(last_good=NOW, progress=None, stuck_since=NOW - 500.0, alive_since=NOW)
    assert state_of(unknown, NOW, LIMITS) is State.FRESH


@pytest.mark.parametrize(("down", "terminating", "stale", "stuck", "warming"), list(product((False, True), repeat=5)))
def test_precedence(down: bool, terminating: bool, stale: bool, stuck: bool, warming: bool) -> None:
    """down > terminating > stale > no_progress > warming > fresh, over every combination."""
    silent_for = 20.0 if down else 10.0 if stale else 0.0
    vitals = Vitals(
        last_good=NOW - silent_for, failing=down, progress=0.0 if warming else 9.0,
        stuck_since=NOW - silent_for - 40.0 if stuck else None, alive_since=NOW - 50.0,
    )  # fmt: skip
    order = [(down, State.DOWN), (terminating, State.TERMINATING), (stale, State.STALE), (stuck, State.NO_PROGRESS),
             (warming, State.WARMING), (True, State.FRESH)]  # fmt: skip
    assert state_of(vitals, NOW, LIMITS, terminating=terminating) is next(state for holds, state in order if holds)


def test_limits_are_settings() -> None:
    tight = Limits(stale_after=0.2, down_after=0.5)
    assert state_of(replace(GOOD, failing=True), NOW + 0.3, tight) is State.STALE
    assert state_of(replace(GOOD, failing=True), NOW + 0.6, tight) is State.DOWN


def test_only_three_states_carry_values() -> None:
    assert {State.FRESH, State.WARMING, State.NO_PROGRESS} == REPORTING
