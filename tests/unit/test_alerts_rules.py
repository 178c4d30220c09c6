"""Rules as data: unique, whole, documented, proven by promtool."""

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from alerts.burn import burn_groups
from alerts.durations import seconds_of, show
from alerts.model import Burn, Check, How, alerts_of, records_of
from alerts.rules import GROUPS
from alerts.slo import BURN_WINDOWS, DEFAULTS, OBJECTIVES, LatencyObjective, Objective, Severity
from collector.naming import find
from collector.signals import Kind, Level

ROOT = Path(__file__).parents[2]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not in PATH (package prometheus)")
ALERTS = alerts_of(GROUPS)
NAMES = tuple(dict.fromkeys(rule.name for rule in ALERTS))


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=300, check=False)


def test_no_two_rules_have_one_name_and_labels():
    rules = [(rule.name, rule.labels) for rule in (*ALERTS, *records_of(GROUPS))]
    assert len(set(rules)) == len(rules)
    names = [group.name for group in GROUPS]
    assert len(set(names)) == len(names)


def test_every_level_of_the_table_has_alerts():
    assert {rule.level for rule in ALERTS} == set(Level)
    assert len(NAMES) == 39


def test_an_alert_is_in_a_group_of_its_level():
    for group in GROUPS:
        assert all(rule.level is group.level for rule in alerts_of([group])), group.name


def test_a_rule_reads_no_recorded_series_of_its_own_group_before_it_is_recorded():
    """The carried list of pods alone reads its own last value."""
    for group in GROUPS:
        names = [rule.name for rule in group.rules if rule in records_of([group])]
        for index, rule in enumerate(group.rules):
            later = {one.name for one in records_of([group])[:]} - {one.name for one in group.rules[:index]}
            read = {name for name in names if re.search(rf"(?<![\w:]){name}(?![\w:])", rule.expression)}
            same = {rule.name} if rule.name.endswith(":known") else set()
            assert not read & later - same, (group.name, rule.name)


def test_an_alert_waits_for_whole_evaluations_of_its_group():
    for group in GROUPS:
        for rule in alerts_of([group]):
            assert rule.pending_seconds % group.interval_seconds == 0, rule.name


def test_only_the_watchdog_has_no_severity_and_only_outages_hide_others():
    assert [rule.name for rule in ALERTS if rule.severity is Severity.NONE] == ["LLMFleetWatchdog"]
    hiding = [rule.name for rule in ALERTS if rule.hides]
    assert hiding == ["LLMPoolNoReportingPods", "LLMClusterSilent", "LLMClusterNoReportingPods"]


@pytest.mark.parametrize("rule", [rule for rule in ALERTS if isinstance(rule.told, Check)], ids=lambda rule: rule.name)
def test_what_an_alert_tells_a_renderer_is_of_the_table(rule):
    checks = (rule.told, *rule.told.also)
    for check in checks:
        assert check.comparison in (">", ">=", "<", "<=")
        for value in (*check.values, *check.over):
            row = find(value.signal, rule.level)
            grows = row.kind in (Kind.COUNTER, Kind.HISTOGRAM)
            assert grows == (value.how is How.INCREASE) == (value.window_seconds > 0)
            assert set(value.children) <= set(row.children) or value.signal == "sink_batches"


def test_what_an_alert_tells_a_renderer_has_the_limits_of_its_expression():
    """A rate of the expression is an increase there, so that one limit differs; zero and one may be spelled another way."""
    for rule in ALERTS:
        if isinstance(rule.told, Check) and rule.name != "LLMPodPreempting" and rule.told.limit not in (0, 1):
            for check in (rule.told, *rule.told.also):
                assert f"{check.comparison} {check.limit:g}" in rule.expression, rule.name
        if isinstance(rule.told, Burn):
            assert f"> {rule.told.window.factor:g} * {rule.told.objective.budget:g}" in rule.expression
            assert rule.told.limit == pytest.approx(rule.told.window.factor * rule.told.objective.budget)


def sections() -> dict[str, str]:
    parts = (ROOT / "alerts/runbook.md").read_text().split("\n## ")[1:]
    return {part.split("\n", 1)[0]: part for part in parts}


def test_the_runbook_has_a_section_for_each_alert_in_order_and_no_other():
    assert list(sections()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_section_of_the_runbook_says_what_it_must_in_order(name):
    parts = ("**What users feel.** ", "**Make sure.**\n\n- ", "**Causes.**\n\n1. ", "**What to do.** ", "**Silence** ")
    found = [sections()[name].find(part) for part in parts]
    assert -1 not in found
    assert all(before < after for before, after in pairwise(found))
    assert "TODO" not in sections()[name]


def test_alerts_that_the_runbook_and_the_docs_name_exist_and_all_are_in_the_docs():
    docs, runbook = ((ROOT / path).read_text() for path in ("docs/alerts.md", "alerts/runbook.md"))
    for text in (docs, runbook):
        assert set(re.findall(r"`(LLM[A-Z]\w+)`", text)) <= set(NAMES)
    assert set(re.findall(r"^\| `(LLM\w+)` \|", docs, re.MULTILINE)) == set(NAMES)


def test_a_row_of_the_docs_has_the_severity_and_the_time_of_its_alert():
    docs = (ROOT / "docs/alerts.md").read_text()
    for rule in ALERTS:
        row = re.search(rf"^\| `{rule.name}` \|.*$", docs, re.MULTILINE)[0]
        assert str(rule.severity) in row.split(" | ")[-1]
        if not isinstance(rule.told, Burn):
            assert row.split(" | ")[-2] == (show(rule.pending_seconds) if rule.pending_seconds else "at once")


def test_burn_windows_spend_what_the_workbook_says():
    spent = [round(pair.factor * seconds_of(pair.long) / seconds_of("30d"), 4) for pair in BURN_WINDOWS]
    assert spent == [0.02, 0.05, 0.1, 0.1]
    page, ticket = Severity.PAGE, Severity.TICKET
    assert [pair.severity for pair in BURN_WINDOWS] == [page, page, ticket, ticket]


def test_an_objective_is_refused_off_the_ladder_and_for_what_is_no_histogram():
    def objective(signal="time_to_first_token_seconds", bound_seconds=1.0, share=0.99, events=1):
        return LatencyObjective(
            slug="x", word="X", title="x", signal=signal, bound_seconds=bound_seconds, objective=share, minimum_events=events
        )

    assert objective().budget == 0.01
    with pytest.raises(ValueError, match="no bucket bound"):
        objective(bound_seconds=3.0)
    with pytest.raises(ValueError, match="no bucket bound"):
        objective(signal="saturation_ratio")
    with pytest.raises(ValueError, match="between 0 and 1"):
        objective(share=99)
    with pytest.raises(ValueError, match="at least 1 of requests"):
        objective(events=0)


def test_shipped_objectives_are_the_four_and_their_bounds_are_exact_on_every_engine():
    shared = {  # of vLLM's and SGLang's defaults
        "time_to_first_token_seconds": {0.1, 1.0, 10.0, 20.0, 40.0, 80.0},
        "inter_token_latency_seconds": {0.01, 0.025, 0.1, 0.2, 0.4, 1.0},
        "end_to_end_latency_seconds": {0.8, 1.0, 2.0, 10.0, 20.0, 40.0, 60.0},
    }
    assert [objective.slug for objective in OBJECTIVES] == ["ttft", "itl", "e2e", "availability"]
    for objective in OBJECTIVES[:3]:
        assert objective.bound_seconds in shared[objective.signal]
    assert type(OBJECTIVES[3]) is Objective


def test_whole_days_are_summed_from_recorded_increases_and_shorter_windows_from_samples():
    burn, budget = burn_groups(OBJECTIVES[0], DEFAULTS)
    by_name = {rule.name: rule.expression for rule in records_of([burn, budget])}
    assert "increase(llm_pool_time_to_first_token_seconds_count[6h])" in by_name["pool:llm_slo_total:increase6h"]
    for window in ("1d", "3d", "30d"):
        # 5 minutes hold 10 evaluations of 30 s, so an event is in 10 of the sums.
        assert by_name[f"pool:llm_slo_total:increase{window}"] == (
            f'sum_over_time(pool:llm_slo_total:increase5m{{slo="ttft"}}[{window}]) / 10'
        )
    assert burn.interval_seconds == 30


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("30d", 2592000), ("1w", 604800)])
def test_durations_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "0s", "1.5h", "-1m", "1h30m", "1y", " 1m", "٣m", "9999999999s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="expected a whole number"):
        seconds_of(text)


def test_durations_are_shown_in_the_largest_unit_that_is_whole():
    assert [show(seconds) for seconds in (1, 60, 90, 3600, 86400, 604800)] == ["1s", "1m", "90s", "1h", "1d", "7d"]


@needs_promtool
@pytest.mark.parametrize("path", sorted((ROOT / "alerts/generated").glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_accepts_the_rules_without_remarks(path):
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
    assert result.returncode == 0, result.stdout + result.stderr


@needs_promtool
@pytest.mark.parametrize("path", sorted((ROOT / "tests/rules").glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_sees_the_alerts_fire_when_they_should(path):
    result = promtool("test", "rules", str(path))
    assert result.returncode == 0, result.stdout + result.stderr


def verdicts() -> list[tuple[str, int, bool]]:
    """Alert, test and whether it was expected to fire, of every expectation in order of time within its test."""
    found = []
    cases = [case for path in sorted((ROOT / "tests/rules").glob("*.yaml")) for case in yaml.safe_load(path.read_text())["tests"]]
    for number, case in enumerate(cases):
        told = [
            (seconds(one["eval_time"]), one["alertname"], bool(one.get("exp_alerts"))) for one in case.get("alert_rule_test", ())
        ]
        for one in case.get("promql_expr_test", ()):
            if named := re.search(r'alertname=(~?)"([^"]*)"', one["expr"]):
                names = [name for name in NAMES if re.fullmatch(named[2], name)] if named[1] else [named[2]]
                told += [(seconds(one["eval_time"]), name, bool(one.get("exp_samples"))) for name in names]
            elif "ALERTS" in one["expr"]:
                told += [(seconds(one["eval_time"]), name, bool(one.get("exp_samples"))) for name in files_alerts(case)]
        found += [(name, number, fires) for _, name, fires in sorted(told)]
    return found


def files_alerts(case) -> list[str]:
    """Alerts that an expectation without a name can only be of: the file tests one alert."""
    series = " ".join(one["series"] for one in case["input_series"])
    return (
        ["LLMPodMetricsStale"]
        if "last_sample_timestamp" in series
        else ["LLMPoolTTFTBudgetBurn"]
        if "first_token" in series
        else []
    )


def seconds(text) -> int:
    return sum(int(number) * {"s": 1, "m": 60, "h": 3600}[unit] for number, unit in re.findall(r"(\d+)([smh])", str(text)))


NEVER_SILENT = {"LLMFleetWatchdog"}


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_is_seen_to_fire_and_before_and_after_it_not_to(name):
    by_test: dict[int, list[bool]] = {}
    for alert, number, fires in verdicts():
        if alert == name:
            by_test.setdefault(number, []).append(fires)
    assert any(True in fired for fired in by_test.values())
    if name not in NEVER_SILENT:
        whole = [fired for fired in by_test.values() if fired and not fired[0] and True in fired and not fired[-1]]
        assert whole, "no test shows it silent, firing and silent again"


def test_the_search_for_verdicts_knows_one_that_does_not_resolve():
    assert ("LLMFleetWatchdog", True) in {(name, fires) for name, _, fires in verdicts()}
    assert ("LLMFleetWatchdog", False) not in {(name, fires) for name, _, fires in verdicts()}


def test_no_text_says_how_long_an_alert_waited():
    """Users set `for`, and the text would go on saying what ships. What is counted over a window may be said."""
    for rule in ALERTS:
        spoken = {
            seconds_of(f"{count}{unit}") for count, unit in re.findall(r"(?:for|listed for) (\d+) (m)inutes", rule.description)
        }
        assert rule.pending_seconds not in spoken, rule.name
