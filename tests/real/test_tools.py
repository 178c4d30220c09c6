"""Commands that judge what we ship: promtool old and new on our page and rules, helm on a chart."""

import subprocess
from pathlib import Path

import pytest

from exporter.publish.prometheus import Format
from tests.real import programs
from tests.real.frozen import FrozenPage
from tests.real.running import output_of, program

pytestmark = pytest.mark.real
PROMTOOLS = ("promtool-2", "promtool")
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: smoke\nversion: 0.1.0\n",
    "values.yaml": "listen: 127.0.0.1:9840\n",
    "templates/config.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  listen: {{ .Values.listen | quote }}\n"
    ),
}


def check_metrics(promtool: str, page: bytes) -> tuple[int, str]:
    command = [program(promtool), "check", "metrics"]
    done = subprocess.run(command, input=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("promtool", PROMTOOLS)
def test_promtool_has_nothing_to_say_about_our_page(promtool: str, frozen: FrozenPage) -> None:
    assert check_metrics(promtool, frozen.pages[Format.TEXT]) == (0, "")


@pytest.mark.parametrize("promtool", PROMTOOLS)
def test_promtool_complains_of_a_page_that_breaks_the_conventions(promtool: str) -> None:
    code, said = check_metrics(promtool, b"# TYPE llm_requests counter\nllm_requests 1\n")
    assert code != 0
    assert "_total" in said


@pytest.mark.parametrize("promtool", PROMTOOLS)
def test_promtool_accepts_the_shipped_rules_without_remarks(promtool: str) -> None:
    said = output_of([program(promtool), "check", "rules", "--lint=all", "--lint-fatal", *map(str, programs.RULES)])
    assert said.count("SUCCESS") == len(programs.RULES) == 5


@pytest.mark.real_heavy
def test_the_newer_promtool_passes_the_rule_tests_too() -> None:
    """The older one runs them in tests/unit; windows are closed on the left there and open here."""
    paths = sorted(map(str, (programs.ROOT / "tests/rules").glob("*.yaml")))
    assert output_of([program("promtool"), "test", "rules", *paths], within_seconds=300).count("SUCCESS") == len(paths)


def test_helm_renders_a_chart(tmp_path: Path) -> None:
    for name, text in CHART.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    folders = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    command = [program("helm"), "template", "fleet", str(tmp_path), "--kube-version", "1.32.0", "--set", "listen=:9840"]
    rendered = output_of(command, environment=folders)
    assert "name: fleet" in rendered
    assert 'listen: ":9840"' in rendered
