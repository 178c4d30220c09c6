"""`render alerts` as users run it: their settings, links and vmalert; mistakes end with exit code 2 and write nothing."""

from pathlib import Path

import pytest
import yaml

from tests.cli.process import run


def rules(folder: Path, topic: str) -> list[dict[str, object]]:
    groups = yaml.safe_load((folder / f"{topic}.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_settings_and_flags_reach_the_files(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(
        "engines: [vllm]\nobjectives: {ttft: {bound: 500ms}, itl: off}\nthresholds: {saturation_ratio: 2}\n"
    )
    done = run("render", "alerts", "--out", str(tmp_path / "out"), "--config", str(tmp_path / "slo.yaml"), "--no-keep-firing-for",
               "--grafana-url", "https://g.example", "--runbook-url", "https://r.example/book")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    saturated = next(rule for rule in rules(tmp_path / "out", "pool") if rule.get("alert") == "LLMPoolSaturated")
    assert ">= 2" in str(saturated["expr"])
    assert "keep_firing_for" not in saturated
    assert saturated["annotations"]["runbook_url"] == "https://r.example/book#llmpoolsaturated"  # type: ignore[index]
    text = (tmp_path / "out/objectives.yaml").read_text()
    assert 'le="0.5"' in text
    assert "itl" not in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("objectives: {ttft: {bound: 3s}}",
         "objectives.ttft.bound: 3s is no bucket bound of every engine in use (vllm and sglang); nearest that are: 1s and 10s"),
        ("treshholds: {}", "treshholds: unknown key; did you mean 'thresholds'?"),
        ("\tx", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_mistake_ends_with_exit_code_2_and_writes_nothing(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "slo.yaml").write_text(text)
    done = run("render", "alerts", "--out", str(tmp_path / "out"), "--config", str(tmp_path / "slo.yaml"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{tmp_path}/slo.yaml: ")
    assert says in done.err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_and_a_folder_that_is_none_are_named(tmp_path: Path) -> None:
    done = run("render", "alerts", "--out", str(tmp_path / "out"), "--config", str(tmp_path / "none.yaml"))
    assert (done.code, done.err) == (2, f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n")
    (tmp_path / "taken").write_text("")
    done = run("render", "alerts", "--out", str(tmp_path / "taken"))
    assert done.code != 0
    assert "taken" in done.err
