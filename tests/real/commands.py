"""Runs the commands that build and check parts: at low priority, without input, within a limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECK_LIMIT_SECONDS = 20


class BuildError(Exception):
    """Why a part is not there, in one line."""


def run(
    command: Sequence[str], *, folder: Path, limit_seconds: float, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; BuildError when it is missing, fails or hangs."""
    if shutil.which(command[0]) is None:
        raise BuildError(f"{command[0]} is not on PATH")
    try:
        done = subprocess.run(
            ["nice", "-n", "19", *command],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]} took over {limit_seconds:.0f} s") from None
    if done.returncode:
        output = done.stderr + done.stdout
        print(output, file=sys.stderr)
        raise BuildError(f"{Path(command[0]).name} exited {done.returncode}: {_first_complaint(output)}")
    return done


def _first_complaint(output: str) -> str:
    lines = [line.strip() for line in output.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("#", "go: downloading"))]
    return telling[0] if telling else "no output"
