"""Real programs under test: started on free loopback ports, waited for, logged, always stopped."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.real.parts import read_catalogue

READY_WITHIN_SECONDS = 60.0
STOP_WITHIN_SECONDS = 10.0
REQUIRE_PARTS = "LLM_FLEET_EXPORTER_REQUIRE_PARTS"


@dataclass(frozen=True, slots=True)
class Running:
    """A program that answers at `url`; `log` holds what it printed."""

    url: str
    log: Path
    pid: int

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.url.removeprefix("http://")

    def get(self, path: str, **params: str) -> requests.Response:
        return requests.get(self.url + path, params=params, timeout=10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def found(name: str) -> str | None:
    """Path of a part's program, if it is there."""
    path = read_catalogue().part(name).program
    return str(path) if path is not None and path.is_file() else None


def program(name: str) -> str:
    """Path of a part's program; without it the test skips, or fails where all parts have to be there."""
    if path := found(name):
        return path
    part = read_catalogue().part(name)
    reason = f"{name} is missing: {part.install}"
    if os.environ.get(REQUIRE_PARTS):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running(
    command: Sequence[str],
    *,
    url: str,
    log: Path,
    ready: str = "",
    answers: Callable[[int], bool] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Start a program, wait until it is ready, stop it at the end whatever happens.

    Ready is when GET of `ready` gets 200, or when `answers` says so, given the process id.
    """
    variables = {**os.environ, **(environment or {})}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=variables) as process,
    ):
        try:
            _wait(process, answers or (lambda _: _gets_200(url + ready)), log)
            yield Running(url, log, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOP_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], answers: Callable[[int], bool], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if answers(process.pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"{process.args!r} did not get ready:\n{log.read_text(errors='replace')[-3000:]}")


def _gets_200(url: str) -> bool:
    try:
        return requests.get(url, timeout=1).status_code == 200
    except requests.RequestException:
        return False


def output_of(command: Sequence[str], *, within_seconds: float = 60.0, environment: Mapping[str, str] | None = None) -> str:
    """What a command printed on either stream; AssertionError with all of it when it failed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=within_seconds, env={**os.environ, **(environment or {})}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def wait_until(found: Callable[[], object], within_seconds: float, what: str) -> None:
    """Ask again until `found()` is true; for real programs that work at their own pace."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if found():
            return
        time.sleep(0.2)
    raise AssertionError(f"not within {within_seconds:g} s: {what}")
