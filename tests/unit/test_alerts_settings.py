"""The settings file: what it changes, and that each mistake is named with what would be right."""

import re
from dataclasses import fields
from pathlib import Path

import promql_parser
import pytest

from alerts.ladders import ENGINES, exact_bounds
from alerts.model import alerts_of, records_of
from alerts.promql import braces, check_pattern
from alerts.rules import groups
from alerts.settings import SettingsError, load_settings, parse_settings
from alerts.slo import DEFAULTS, Severity

WHOLE = """
engines: [vllm]
selector: {cluster: prod, pool: "=~chat-.*"}
exporter_job: gateway
objectives:
  ttft: {bound: 250ms, objective: 0.95, minimum_events: 50}
  itl: off
  e2e: {bound: 30s}
  availability: {objective: 0.999}
budget_window: 7d
windows:
  - {long: 1h, short: 5m, factor: 14, severity: critical, for: 1m}
  - {long: 1d, short: 2h, factor: 2}
thresholds: {stale_seconds: 60, saturation_ratio: 1.5}
alerts:
  LLMPodStuck: {for: 30s, severity: critical}
  LLMPoolAbortRateHigh: off
  LLMPoolSaturated: {keep_firing_for: 0s}
"""


def test_an_empty_file_is_the_defaults():
    assert parse_settings("") == DEFAULTS
    assert parse_settings("# nothing yet\n{}\n") == DEFAULTS


def test_everything_that_is_set_arrives():
    settings = parse_settings(WHOLE)
    ttft, e2e, availability = settings.objectives
    assert (ttft.slug, ttft.bound_seconds, ttft.objective, ttft.minimum_events) == ("ttft", 0.25, 0.95, 50)
    assert (e2e.slug, e2e.bound_seconds, e2e.objective) == ("e2e", 30.0, 0.99)
    assert (availability.objective, availability.budget) == (0.999, 0.001)
    assert [(one.long, one.short, one.factor, one.severity, one.pending_seconds) for one in settings.windows] == [
        ("1h", "5m", 14.0, Severity.PAGE, 60),
        ("1d", "2h", 2.0, Severity.TICKET, 120),
    ]
    assert settings.budget_window == "7d"
    assert (settings.thresholds.stale_seconds, settings.thresholds.saturation_ratio) == (60, 1.5)
    assert settings.thresholds.error_ratio == DEFAULTS.thresholds.error_ratio
    assert settings.selector == {"cluster": "prod", "pool": "=~chat-.*"}
    assert settings.changes["LLMPoolAbortRateHigh"].disabled
    assert (settings.changes["LLMPodStuck"].pending_seconds, settings.changes["LLMPodStuck"].severity) == (30, Severity.PAGE)


def test_settings_reach_the_rules():
    built = groups(parse_settings(WHOLE))
    rules = {rule.name: rule for rule in alerts_of(built)}
    assert "LLMPoolITLBudgetBurn" not in rules
    assert "LLMPoolAbortRateHigh" not in rules
    assert rules["LLMPodStuck"].pending_seconds == 30
    assert rules["LLMPoolSaturated"].keep_firing_seconds == 0
    assert ">= 1.5" in rules["LLMPoolSaturated"].expression
    assert rules["LLMExporterDown"].expression == 'up{job="gateway"} == 0'
    records = {(rule.name, rule.labels): rule.expression for rule in records_of(built)}
    assert 'le="0.25"' in records["pool:llm_slo_good:increase1h", (("slo", "ttft"),)]
    assert ("pool:llm_slo_budget:left", (("slo", "e2e"),)) in records
    assert not [name for name, _ in records if "30d" in name]


@pytest.mark.parametrize("text", ["a++", "a{2}+", "(?=a)", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "(?>a)", r"a\Z", "(?x)a"])
def test_what_only_python_takes_for_a_pattern_is_refused(text):
    with pytest.raises(ValueError, match="is no regular expression of Prometheus"):
        check_pattern(text)


@pytest.mark.parametrize(
    "text", ["a*?", "[*+]+", r"a*\.+", r"\(?=a", "(?i)a", "(?P<n>a)", "(?:a|b){2,3}?", "[]+]+", "chat-[0-9]{2}"]
)
def test_what_prometheus_takes_for_a_pattern_is_taken(text):
    check_pattern(text)
    promql_parser.parse(f"a{braces({'b': f'=~{text}'})}")


def test_an_objective_of_many_nines_is_recorded_as_it_is():
    rules = {rule.name: rule for rule in records_of(groups(parse_settings("objectives: {availability: {objective: 0.9999999}}")))}
    assert rules["pool:llm_slo_objective:ratio"].expression.endswith(" + 0.9999999")


def test_a_budget_over_a_window_that_burns_too_is_recorded_once():
    rules = [(rule.name, rule.labels) for rule in records_of(groups(parse_settings("budget_window: 3d")))]
    assert len(set(rules)) == len(rules)
    assert ("pool:llm_slo_error:ratio3d", (("slo", "ttft"),)) in rules


def test_bounds_that_are_exact_on_engines_together():
    assert exact_bounds("time_to_first_token_seconds", ("vllm", "sglang")) == (0.1, 1.0, 10.0, 20.0, 40.0, 80.0)
    assert exact_bounds("inter_token_latency_seconds", ("vllm", "sglang", "tgi")) == (0.01, 0.025, 0.1, 0.2, 0.4, 1.0)
    assert exact_bounds("end_to_end_latency_seconds", ("vllm", "sglang")) == (0.8, 1.0, 2.0, 10.0, 20.0, 40.0, 60.0)
    assert exact_bounds("end_to_end_latency_seconds", ("vllm", "tgi")) == ()
    assert exact_bounds("time_to_first_token_seconds", ("tgi",)) == ()


def test_every_engine_that_is_read_is_known_here():
    from collector.engines import ENGINES as READ

    assert set(ENGINES) == set(READ)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("objectives: {ttft: {bound: 2s}}",
         "s.yaml: objectives.ttft.bound: 2s is no bucket bound of every engine in use (vllm and sglang); nearest that are: "
         "1s and 10s"),
        ("engines: [vllm]\nobjectives: {ttft: {bound: 3s}}",
         "s.yaml: objectives.ttft.bound: 3s is no bucket bound of every engine in use (vllm); nearest that are: 2.5s and 5s"),
        ("objectives: {ttft: {bound: 100s}}", "nearest that are: 80s"),
        ("objectives: {ttft: {bound: 1ms}}", "nearest that are: 0.1s"),
        ("engines: [vllm, tgi]", "objectives.e2e.bound: no bound of end_to_end_latency_seconds is exact on vllm and tgi; switch"),
        ("engines: [tgi]", "objectives.ttft.bound: tgi tell nothing of time_to_first_token_seconds; switch the objective off"),
        ("engines: [vlm]", "engines: 'vlm' is none of vllm, sglang, tgi; did you mean 'vllm'?"),
        ("engines: []", "engines: expected at least one of vllm, sglang, tgi"),
        ("objectives: {ttft: {bound: 1}}", "objectives.ttft.bound: expected text or nothing, got a whole number"),
        ("objectives: {ttft: {bound: fast}}", "objectives.ttft.bound: expected a latency such as 100ms, 2.5s or 1m, got 'fast'"),
        ("objectives: {ttft: {objective: 99}}", "objectives.ttft.objective: expected a share between 0 and 1 such as 0.99"),
        ("objectives: {ttft: {minimum_events: 0}}", "objectives.ttft.minimum_events: expected 1 or more, got 0"),
        ("objectives: {tftt: {}}", "objectives.tftt: unknown key; did you mean 'ttft'?"),
        ("objectives: {ttft: {bounds: 1s}}", "objectives.ttft.bounds: unknown key; did you mean 'bound'?"),
        ("objectives: {ttft: 1s}", "objectives.ttft: expected"),
        ("objectives: {availability: {bound: 1s}}", "objectives.availability.bound: unknown key"),
        ("objectives: {ttft: {objective: 0.9}}",
         "windows[0].factor: 14.4 times the budget of ttft, 0.1, is 1 or more: it could never fire"),
        ("windows: []", "windows: expected at least one; leave the key out for the usual four"),
        ("windows: [{long: 1h, short: 1h, factor: 2}]", "windows[0]: the short window 1h is not shorter than the long one, 1h"),
        ("windows: [{long: 1x, short: 1m, factor: 2}]", "windows[0].long: expected a whole number of s, m, h, d or w"),
        ("windows: [{long: 1h, short: 5m, factor: 0}]", "windows[0].factor: expected a number above 0, got 0"),
        ("windows: [{long: 1h, short: 5m, factor: .inf}]", "windows[0].factor: expected a number above 0, got inf"),
        ("windows: [{long: 1h, short: 5m, factor: 2, for: soon}]", "windows[0].for: expected a whole number"),
        ("windows: [{long: 1h, short: 5m}]", "windows[0].factor: missing; it is required"),
        ("windows: [{long: 1h, short: 5m, factor: 2}, {long: 1h, short: 5m, factor: 3}]", "windows[1]: 1h with 5m stands there"),
        ("budget_window: 1h", "windows[1].long: 6h is longer than budget_window, 1h"),
        ("budget_window: soon", "budget_window: expected a whole number"),
        ("thresholds: {stale: 3}", "thresholds.stale: unknown key; did you mean 'stale_seconds'?"),
        ("thresholds: {error_ratio: 5}", "thresholds.error_ratio: expected a share of at most 1, got 5"),
        ("thresholds: {error_ratio: 0}", "thresholds.error_ratio: expected a number above 0, got 0"),
        ("thresholds: {error_ratio: .nan}", "thresholds.error_ratio: expected a number above 0, got nan"),
        ("thresholds: {slow_read_seconds: 3}", "thresholds.slow_read_seconds: expected one of 0.001, 0.0025"),
        ("selector: {pod: a}", "selector.pod: unknown key"),
        ("selector: {pool: '=~chat-('}", "selector.pool: 'chat-(' is no regular expression"),
        ("selector: {pool: '=~(?!test).*'}", "selector.pool: '(?!test).*' is no regular expression of Prometheus"),
        ("objectives: {ttft: {objective: 0.9999999999}}", "objectives.ttft.objective: expected a share between 0 and 1"),
        ("exporter_job: ''", "exporter_job: expected a name, got an empty text"),
        ("alerts: {LLMPodStuk: off}", "alerts.LLMPodStuk: there is no such alert; did you mean 'LLMPodStuck'?"),
        ("alerts: {LLMPodStuck: {for: x}}", "alerts.LLMPodStuck.for: expected a whole number"),
        ("alerts: {LLMPodStuck: {severity: high}}", "alerts.LLMPodStuck.severity: invalid enum value 'high'"),
        ("alerts: {LLMPodStuck: {fro: 1m}}", "alerts.LLMPodStuck.fro: unknown key; did you mean 'for'?"),
        ("alerts: {LLMPodStuck: null}", "alerts.LLMPodStuck: expected true or false or keys with values, got nothing"),
        ("alerts: {LLMPodStuck: {for: 3}}", "alerts.LLMPodStuck.for: expected text or nothing, got a whole number"),
        ("alerts: [LLMPodStuck]", "alerts: expected keys with values, got a list"),
        ("engine: vllm", "s.yaml: engine: unknown key; did you mean 'engines'?"),
        ("- a", "s.yaml: file: expected keys with values, got a list"),
        ("a: [", "s.yaml: not valid YAML: line 1"),
        ("engines: [vllm]\nengines: [sglang]", "key 'engines' stands twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_would_be_right(text, says):
    with pytest.raises(SettingsError) as error:
        parse_settings(text, name="s.yaml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read: No such file"):
        load_settings(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not a text file in UTF-8"):
        load_settings(tmp_path / "bytes.yaml")


def test_the_example_of_the_docs_can_be_used_and_every_threshold_stands_there_with_its_default():
    docs = (Path(__file__).parents[2] / "docs/alerts.md").read_text()
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", docs, re.DOTALL) if block.startswith("engines:"))
    settings = parse_settings(example)
    assert settings != DEFAULTS
    assert settings.objectives[0].bound_seconds == 10.0
    told = dict(re.findall(r"`([a-z_]+)`(?: \([^)]*\))? \| ([0-9.]+) ", docs))
    told |= dict(zip(("slow_read_seconds", "slow_read_ratio"), ("1", "0.05"), strict=True)) if "| 1, 0.05 |" in docs else {}
    assert {name: float(value) for name, value in told.items()} == {
        field.name: float(getattr(DEFAULTS.thresholds, field.name)) for field in fields(DEFAULTS.thresholds)
    }
