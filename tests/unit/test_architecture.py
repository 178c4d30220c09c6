"""The shape of the tree: imports go one way, names live in one table, modules stay small."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.naming import families, prometheus_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("collector", "alerts", "dashboards", "exporter")
ALLOWED = {
    "collector": {"collector"},
    # Besides the table: bounds, since an objective must stand on one of each engine's own; strict_yaml, since users write a file.
    "alerts": {"alerts", "collector.signals", "collector.naming", "collector.bounds", "collector.strict_yaml"},
    # The engines: a board says which of them do not tell what a panel shows.
    "dashboards": {"dashboards", "alerts", "collector.signals", "collector.naming", "collector.engines"},
    "exporter": {"exporter", "collector"},
}
LAZY = {
    "exporter": {
        "alerts.cloudwatch",
        "alerts.render",
        "alerts.settings",
        "alerts.slo",
        "dashboards.cloudwatch",
        "dashboards.options",
        "dashboards.render",
    }
}
DATA_TABLES = {"collector/engines/unused.py"}


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py") if "preview" not in path.parts)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Imported module names of this project, and whether the import stands at the top of the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
            yield names[0] if names[0] not in PACKAGES else names[1], node in tree.body
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in tree.body


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    wrong = []
    for path in modules(package):
        for name, at_top in imports(path):
            if name.split(".")[0] not in PACKAGES:
                continue
            allowed = ALLOWED[package] | (set() if at_top else LAZY.get(package, set()))
            if not any(name == one or name.startswith(f"{one}.") for one in allowed):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_the_import_rule_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from exporter.app import serve\n", encoding="utf-8")
    assert list(imports(bad)) == [("exporter.app", True)]


HEAVY = {"boto3", "botocore", "grafanalib", "opentelemetry", "grpc", "requests", "numpy", "rich", "prometheus_client"}


def test_heavy_libraries_are_not_loaded_by_the_command_line_itself() -> None:
    tops = {
        name.split(".")[0]
        for path in (ROOT / "exporter" / "cli.py", *modules("exporter/commands"), *modules("collector"))
        for name, at_top in imports(path)
        if at_top
    }
    assert not tops & HEAVY


def spelled(text: str) -> set[str]:
    """Published family names that stand in a text, as themselves or as a part of a histogram."""
    published = {prometheus_name(signal, level) for signal, level in families()}
    return {name for name in re.findall(r"llm_[a-z_0-9]+", text)
            if name in published or re.sub("_(bucket|sum|count)$", "", name) in published}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_metric_names_come_from_the_table(package: str) -> None:
    """A published name spelled by hand would drift: prefixes stand in collector/naming.py alone."""
    wrong = {str(path.relative_to(ROOT)): names for path in modules(package)
             if (names := spelled(path.read_text(encoding="utf-8")))}  # fmt: skip
    assert not wrong


def test_a_spelled_name_is_found() -> None:
    assert spelled('sum(rate(llm_pool_requests_total[5m])) / "llm_pool_time_to_first_token_seconds_bucket" llm_pool_group') == {
        "llm_pool_requests_total", "llm_pool_time_to_first_token_seconds_bucket"}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_stay_small(package: str) -> None:
    long = {str(path.relative_to(ROOT)): count for path in modules(package)
            if (count := len(path.read_text(encoding="utf-8").splitlines())) > 400}  # fmt: skip
    assert not set(long) - DATA_TABLES
