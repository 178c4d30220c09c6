"""Installs the parts from PyPI into their virtual environment, unless the pins have not changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from dataclasses import dataclass

from tests.real.commands import CHECK_LIMIT_SECONDS, run
from tests.real.parts import REQUIREMENTS, python_folder

INSTALL_LIMIT_SECONDS = 15 * 60
# Size of the files that a distribution brought, and its version.
INSPECT = """
import json
from importlib.metadata import distributions
print(json.dumps({one.name: (one.version, sum(file.size or 0 for file in one.files or ())) for one in distributions()}))
"""


@dataclass(frozen=True, slots=True)
class Installed:
    version: str
    size_bytes: int


def install_python() -> bool:
    """True when the environment was made anew, False when it is still right; BuildError when it cannot be had."""
    folder = python_folder()
    stamp = folder / "stamp"
    inputs = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == inputs:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(folder)], folder=folder.parent, limit_seconds=INSTALL_LIMIT_SECONDS)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "-r", str(REQUIREMENTS)], folder=folder, limit_seconds=INSTALL_LIMIT_SECONDS)
    stamp.write_text(inputs, encoding="utf-8")
    return True


def installed() -> dict[str, Installed]:
    """What the environment holds, by the distribution's name in its normal form (PEP 503)."""
    command = [str(python_folder() / "bin" / "python"), "-c", INSPECT]
    done = run(command, folder=python_folder(), limit_seconds=CHECK_LIMIT_SECONDS)
    return {re.sub(r"[-_.]+", "-", name).lower(): Installed(*row) for name, row in json.loads(done.stdout).items()}
