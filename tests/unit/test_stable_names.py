"""A stable name is a promise: it stays, or is published beside its successor for a release."""

from pathlib import Path

from collector.naming import families, prometheus_name

LIST = Path(__file__).parents[1] / "stable_names.txt"


def promised() -> list[str]:
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def test_no_stable_name_vanishes_and_each_new_one_is_listed() -> None:
    stable = {prometheus_name(signal, level) for signal, level in families() if signal.stable}
    gone, unlisted = set(promised()) - stable, stable - set(promised())
    assert not gone, "promised names that are no longer published; publish both names for a release, say so in CHANGELOG.md"
    assert not unlisted, f"new stable names: promise them in {LIST.name}, or make the rows alpha"


def test_the_list_is_in_order_and_says_each_name_once() -> None:
    assert promised() == sorted(set(promised()))
    assert len(promised()) > 100
