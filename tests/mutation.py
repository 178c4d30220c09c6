"""Breaks the arithmetic on purpose, one place at a time, and looks whether a test notices: `make mutate`.

    python tests/mutation.py [MODULE ...]        (default: all below)

Works on a copy of the tree. Survivors are printed with what was changed; docs/testing.md says which of them change nothing.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = {
    "collector/counters.py": ("tests/unit/test_counters.py", "tests/unit/test_state_counters.py"),
    "collector/ladders.py": ("tests/unit/test_ladders.py", "tests/unit/test_windows.py", "tests/property/test_projection.py"),
    "collector/rollup.py": ("tests/unit/test_rollup.py", "tests/unit/test_state_levels.py"),
    "collector/health.py": ("tests/unit/test_health.py", "tests/unit/test_state_lifecycle.py"),
}
CONFIG = """
[cosmic-ray]
module-path = "{module}"
timeout = 60.0
excluded-modules = []
test-command = "{python} -m pytest -x -q --no-header -p no:cacheprovider {tests}"

[cosmic-ray.distributor]
name = "local"
"""


def mutate(module: str, tree: Path) -> Counter[str]:
    """Outcomes of all mutants of a module; survivors are printed as they are found in the session."""
    config, session = tree / "mutation.toml", tree / "mutation.sqlite"
    session.unlink(missing_ok=True)
    config.write_text(CONFIG.format(module=module, python=sys.executable, tests=" ".join(TESTS[module])), encoding="utf-8")
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    for command in (["baseline", config.name], ["init", config.name, session.name], ["exec", config.name, session.name]):
        subprocess.run([tool, *command], cwd=tree, check=True)
    dumped = subprocess.run([tool, "dump", session.name], cwd=tree, check=True, capture_output=True, text=True).stdout
    outcomes: Counter[str] = Counter()
    for line in dumped.splitlines():
        [work, result] = json.loads(line)
        outcome = result["test_outcome"] if result and result["test_outcome"] else "none"
        outcomes[outcome] += 1
        if outcome == "survived":
            [place] = work["mutations"]
            print(f"survived: {module}:{place['start_pos'][0]} {place['operator_name']}\n{result['diff']}\n")
    return outcomes


def main(modules: list[str]) -> int:
    """0 when every mutant was noticed, else 1."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        left_out = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, tree, ignore=left_out)
        outcomes = {module: mutate(module, tree) for module in modules or TESTS}
    for module, counts in outcomes.items():
        print(
            f"{module}: {counts.total()} mutants, " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        )
    return int(any(counts["survived"] for counts in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
