"""Rendering into a folder that was rendered into before: what other settings left there is gone, what is not ours stays."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli import main

OFF = "objectives: {ttft: false, itl: false, e2e: false, availability: false}\n"


def render(kind: str, out: Path, *more: str) -> str:
    done = CliRunner().invoke(main, ["render", kind, "--out", str(out), *more])
    assert done.exit_code == 0, done.output
    return done.output


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture
def off(tmp_path: Path) -> str:
    (tmp_path / "slo.yaml").write_text(OFF)
    return f"--config={tmp_path / 'slo.yaml'}"


@pytest.mark.parametrize(("kind", "gone"), [
    ("alerts", {"objectives.yaml", "kubernetes/objectives.yaml"}),
    ("cloudwatch-alarms", {"pool-budgets-critical.template.yaml", "pool-budgets-warning.template.yaml"}),
])  # fmt: skip
def test_files_of_objectives_that_are_off_now_are_deleted_and_said(tmp_path: Path, off: str, kind: str, gone: set[str]) -> None:
    used, fresh = tmp_path / "used", tmp_path / "fresh"
    render(kind, used)
    assert gone <= set(files(used))
    said = render(kind, used, off)
    render(kind, fresh, off)
    assert files(used) == files(fresh)
    assert all(f"{used / name}: deleted" in said for name in gone)
    assert "deleted" not in render(kind, used, off)


def test_a_file_that_is_not_ours_is_never_touched(tmp_path: Path, off: str) -> None:
    out = tmp_path / "rules"
    render("alerts", out)
    ours = (out / "objectives.yaml").read_bytes()
    not_ours = {"mine.yaml": b"groups: []\n", "about.yaml": b"# A copy of:\n" + ours, "binary": b"\xff\xfe\x00", "empty": b"",
                "mine/objectives.yaml": ours, "cloudwatch/pool.template.yaml": ours}  # fmt: skip
    for name, content in not_ours.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(content)
    (tmp_path / "elsewhere.yaml").write_bytes(ours)
    (out / "link.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    render("alerts", out, off)
    assert {name: files(out).get(name) for name in not_ours} == not_ours
    assert (out / "link.yaml").is_symlink()
    assert "objectives.yaml" not in files(out)
