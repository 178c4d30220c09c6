"""Programs that listen on every interface, each in a network of its own where nothing but loopback is up."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.running import REQUIRE_PARTS, output_of, program, running

NEW_NETWORK = ("unshare", "--user", "--map-root-user", "--net")
GET = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=5).read())"


@dataclass(frozen=True, slots=True)
class Isolated:
    """A program that answers only those who enter its network."""

    pid: int

    def inside(self, *command: str) -> str:
        """Output of a command that runs in the program's network."""
        return output_of([*self._enter(), *command])

    def get(self, url: str) -> bytes:
        return subprocess.run([*self._enter(), sys.executable, "-c", GET, url], capture_output=True, check=True).stdout

    def answers(self, url: str) -> bool:
        command = [*self._enter(), sys.executable, "-c", GET, url]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self.pid), "--user", "--net", "--preserve-credentials")


@contextmanager
def start_isolated(
    command: Sequence[str], *, url: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Isolated]:
    """Start a program in a network of its own; ready when `url` answers there."""
    # `exec` all the way: the process that is started is the program, and so it is what gets stopped.
    whole = [*NEW_NETWORK, "sh", "-c", '"$0" link set lo up && exec "$@"', program("ip"), *command]
    if shutil.which("unshare") is None or subprocess.run([*NEW_NETWORK, "true"], capture_output=True, check=False).returncode:
        reason = f"{os.path.basename(command[0])}: this machine does not allow a network namespace (unshare --user --net)"
        pytest.fail(reason) if os.environ.get(REQUIRE_PARTS) else pytest.skip(reason)
    answers = lambda pid: Isolated(pid).answers(url)  # noqa: E731
    with running(whole, url=url, log=folder / "log", answers=answers, environment=environment) as started:
        yield Isolated(started.pid)
