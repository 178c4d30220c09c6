"""What an installed copy holds: the four packages, their data, one command, nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    source = out / "source"
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True
    )
    for name in listed.stdout.decode().split("\0"):
        if name and not name.startswith("tests/") and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)],
                   check=True, capture_output=True)  # fmt: skip
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_top_level_holds_the_four_packages_only(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"collector", "exporter", "dashboards", "alerts"}


def test_every_python_file_of_the_tree_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    here = {str(path.relative_to(ROOT)) for package in ("collector", "exporter", "dashboards", "alerts")
            for path in (ROOT / package).rglob("*.py") if "preview" not in path.parts}  # fmt: skip
    assert here <= names


def test_generated_files_and_page_style_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    data = {str(path.relative_to(ROOT)) for pattern in ("dashboards/generated/*.json", "alerts/generated/*.yaml", "alerts/*.md",
            "exporter/web/*.css") for path in ROOT.glob(pattern)}  # fmt: skip
    assert data
    assert data <= names


def test_wheel_is_typed_for_no_one_and_has_one_command(wheel: zipfile.ZipFile) -> None:
    assert not [name for name in wheel.namelist() if name.endswith("py.typed")]
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert wheel.read(entry_points).decode().split() == ["[console_scripts]", "llm-fleet-exporter", "=", "exporter.cli:main"]
