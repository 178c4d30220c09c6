"""`serve --role sidecar` as a process: light, quick to start, and clear about wrong flags."""

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, Serving, environment, run
from tests.cli.test_serve import get
from tests.net.engines import engine, page, told
from tests.net.scripted import answer, serving

HEAVY = ("numpy", "boto3", "botocore", "grpc", "grafanalib", "opentelemetry", "aiohttp", "requests", "rich",
         "prometheus_client")  # fmt: skip
RSS_AT_MOST_MB = 40
START_CPU_SECONDS = 0.5


@asynccontextmanager
async def sidecar(*flags: str, env: dict[str, str] | None = None, python: tuple[str, ...] = ()) -> AsyncIterator[Serving]:
    command = [*python, COMMAND] if python else [COMMAND]
    process = await asyncio.create_subprocess_exec(
        *command, "serve", "--role", "sidecar", "--listen", "127.0.0.1:0", *flags,
        stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=environment(env),
    )  # fmt: skip
    one = Serving(process)
    ears = asyncio.create_task(one.listen())
    try:
        line = await one.line("serving", "url=http")
        match = re.search(r"http://127\.0\.0\.1:[0-9]+", line)
        assert match is not None
        one.base = match[0]
        yield one
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await ears


def memory_mb(pid: int) -> float:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def test_it_starts_quickly_stays_small_and_ends_when_it_is_told() -> None:
    paths = {"/metrics": answer(page("vllm-0.32.0-load-queued")), "/v1/models": told(data=[])}
    async with serving(engine(paths)) as server, sidecar("--engine-url", server.url) as one:
        # CPU, not the clock on the wall: other tests run beside.
        assert cpu_seconds(one.process.pid) < START_CPU_SECONDS
        for _ in range(50):
            assert (await get(one.base, "/picker"))[0] == 200
        assert memory_mb(one.process.pid) < RSS_AT_MOST_MB
        begun = time.monotonic()
        one.signal()
        assert await one.end() == 0
        assert time.monotonic() - begun < 4


async def test_it_loads_nothing_heavy() -> None:
    """Told by Python itself, of the process that answers."""
    async with (
        serving(engine({"/metrics": answer(page("vllm-0.32.0-load-queued"))})) as server,
        sidecar("--engine-url", server.url, python=(sys.executable, "-X", "importtime")) as one,
    ):
        assert (await get(one.base, "/picker"))[0] == 200
        one.signal()
        assert await one.end() == 0
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in one.lines if line.startswith("import time:")}
    assert {"asyncio", "httptools", "collector", "exporter"} <= loaded
    assert not loaded & set(HEAVY)


async def test_the_environment_says_what_flags_say(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush")
    env = {"LLM_FLEET_EXPORTER_SIDECAR_PICKER_PATH": "/load", "LLM_FLEET_EXPORTER_SIDECAR_NAMES": "sglang",
           "LLM_FLEET_EXPORTER_SIDECAR_BEARER_FILE": str(tmp_path / "token")}  # fmt: skip
    async with (
        serving(engine({"/metrics": answer(page("sglang-0.5.23-load-queued"))})) as server,
        sidecar("--engine-url", server.url, env=env) as one,
    ):
        status, _, body = await get(one.base, "/load", Authorization="Bearer hush")
        assert (await get(one.base, "/load"))[0] == 401
    assert status == 200
    assert b"\nsglang:num_queue_reqs " in body
    assert "hush" not in "".join(one.lines)


@pytest.mark.parametrize(("flags", "said"), [
    ((), "--engine-url"),
    (("--engine-url", "nonsense"), "--engine-url: expected a URL"),
    (("--engine-url", "http://127.0.0.1:1", "--fresh-for", "soon"), "--fresh-for: expected a duration"),
    (("--engine-url", "http://127.0.0.1:1", "--budget", "2s"), "a picker waits 1 s at most"),
    (("--engine-url", "http://127.0.0.1:1", "--picker-path", "picker"), "--picker-path: expected a free path"),
    (("--engine-url", "http://127.0.0.1:1", "--picker-path", "/status"), "--picker-path: expected a free path"),
    (("--role", "cluster", "--config", __file__, "--bearer-file", "k"), "only --role sidecar takes --bearer-file"),
    (("--engine-url", "http://127.0.0.1:1", "--tls-key-file", "k"), "need --tls-cert-file"),
    (("--engine-url", "http://127.0.0.1:1", "--engine-key-file", "k"), "needs --engine-cert-file"),
    (("--engine-url", "http://127.0.0.1:1", "--engine-insecure", "--engine-ca-file", "k"), "contradicts"),
    (("--engine-url", "http://127.0.0.1:1", "--config", "x.yaml"), "takes no configuration file"),
    (("--engine-url", "http://127.0.0.1:1", "--names", "tgi"), "tgi"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_wrong_flags_are_said(flags: tuple[str, ...], said: str) -> None:
    done = run("serve", "--role", "sidecar", *flags)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_files_that_are_not_there_are_said(tmp_path: Path) -> None:
    done = run("serve", "--role", "sidecar", "--listen", "127.0.0.1:0", "--engine-url", "http://127.0.0.1:1",
               "--bearer-file", str(tmp_path / "none"))  # fmt: skip
    assert done.code == 1
    assert "none" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("flag", ["--engine-bearer-file", "--engine-ca-file", "--engine-cert-file"])
@pytest.mark.parametrize("content", [None, "\n"])
def test_engine_files_that_cannot_be_used_are_said(flag: str, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "engine-file"
    if content is not None:
        path.write_text(content)
    done = run("serve", "--role", "sidecar", "--listen", "127.0.0.1:0", "--engine-url", "https://127.0.0.1:1", flag, str(path))
    assert done.code == 1
    assert "cannot read the engine with" in done.err
    assert str(path) in done.err
    assert "Traceback" not in done.err


def test_the_cluster_still_needs_its_configuration() -> None:
    done = run("serve")
    assert done.code == 2
    assert "--config" in done.err


def test_the_variables_of_a_sidecar_do_not_trouble_other_commands(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("cluster: c\n")
    env = {"LLM_FLEET_EXPORTER_ROLE": "cluster", "LLM_FLEET_EXPORTER_SIDECAR_NAMES": "vllm"}
    assert run("check-config", str(tmp_path / "c.yaml"), env=env).code == 0
