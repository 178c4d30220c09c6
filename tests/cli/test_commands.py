"""Commands that end by themselves: what they print, where, and with which code."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter import __version__
from tests.cli.process import COMMAND, environment, run, run_beside
from tests.net.scripted import PAGE, answer, hang, say, serving
from tests.net.test_fetch import closed_port


def write(folder: Path, *urls: str, scrape: str = "{}") -> str:
    path = folder / "fleet.yaml"
    listed = "".join(f"\n  - {url}" for url in urls)
    groups = f"static_targets:\n- pool: p\n  urls:{listed}\n" if urls else ""
    path.write_text(f"cluster: c\nscrape: {scrape}\n{groups}")
    return str(path)


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("serve", "--help"), ("once", "-h"), ("check-config", "--help")])
def test_help_is_a_result(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: llm-fleet-exporter")


def test_the_version_is_a_result() -> None:
    done = run("--version")
    assert (done.code, done.out, done.err) == (0, f"llm-fleet-exporter, version {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("fly",), ("once",), ("serve",), ("once", "--config"), ("once", "--config", "x", "--output", "xml"),
        ("check-config",),
        ("check-config", "a", "b"), ("serve", "--config", "x", "--role", "king"), ("--nonsense",),
        ("render", "cloudwatch-dashboards", "--out", "x", "--region", "moon"),
        ("render", "cloudwatch-dashboards", "--out", "x", "--namespace", "it's"),
    ],
)  # fmt: skip
def test_wrong_usage_is_code_2_and_said_on_stderr(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage: llm-fleet-exporter" in done.err or done.err.startswith("Error: ")


@pytest.mark.parametrize("listen", ["9840", ":9840", "localhost", "localhost:", "h:port", "127.0.0.1:65536", "127.0.0.1:-1", ""])
def test_a_bad_address_to_listen_on_is_wrong_usage(tmp_path: Path, listen: str) -> None:
    done = run("serve", "--config", write(tmp_path), "--listen", listen)
    assert (done.code, done.out) == (2, "")
    assert "expected HOST:PORT such as 127.0.0.1:9840" in done.err


@pytest.mark.parametrize("command", [("check-config",), ("once", "--config"), ("serve", "--listen", "127.0.0.1:0", "--config")])
def test_a_bad_configuration_is_code_2_in_every_command(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("cluster: c\nscrap: {}\n")
    done = run(*command, str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"{path}: scrap: unknown key; did you mean 'scrape'?\n"


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_configuration_that_is_not_there_is_code_2(tmp_path: Path, name: str) -> None:
    done = run("check-config", str(tmp_path / name))
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "cannot be read" in done.err


def test_a_good_configuration_is_summed_up(tmp_path: Path) -> None:
    path = write(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:2", scrape="{fast_interval: 50ms}")
    done = run("check-config", path)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{path}: good: cluster c, 2 targets in 1 pools, read every 50ms, in full every 5s\n"


async def test_once_prints_a_table(tmp_path: Path) -> None:
    async with serving(say(answer())) as server:
        done = await run_beside("once", "--config", write(tmp_path, server.url))
    assert (done.code, done.err) == (0, "")
    head, row = done.out.splitlines()
    assert head.split()[:5] == ["namespace", "pool", "pod", "engine", "state"]
    assert row.split() == ["default", "p", f"127.0.0.1:{server.port}", "vllm", "fresh", "3", "4", "-", "-", "m"]


async def test_once_says_what_failed_and_exits_with_1(tmp_path: Path) -> None:
    port = closed_port()
    async with serving(say(answer())) as good, serving(say(answer(b"", "403 No"))) as bad:
        done = await run_beside("once", "--config", write(tmp_path, good.url, bad.url, f"http://127.0.0.1:{port}"))
    assert done.code == 1
    assert done.err == "2 of 3 targets failed\n"
    assert "unauthorized: HTTP status 403" in done.out
    assert "refused: cannot connect" in done.out
    assert "fresh" in done.out


async def test_once_as_json_is_json_also_when_targets_fail(tmp_path: Path) -> None:
    async with serving(say(answer())) as good, serving(say(answer(b"<html>"))) as bad:
        done = await run_beside("once", "--output", "json", "--config", write(tmp_path, good.url, bad.url))
    assert done.code == 1
    assert done.err == "1 of 2 targets failed\n"
    data = json.loads(done.out)
    by_url = {one["url"]: one for one in data["targets"]}
    assert by_url[good.url]["failure"] is None
    assert by_url[good.url]["requests_running"] == 3
    assert by_url[good.url]["kv_cache_usage_ratio"] is None
    assert by_url[bad.url]["failure"]["reason"] == "not_metrics"
    assert by_url[bad.url]["state"] == "down"
    assert by_url[bad.url]["requests_running"] is None
    assert data["cluster"]["requests_running"] == 3
    assert data["cluster"]["pods"]["down"] == 1


async def test_a_slow_target_does_not_age_what_the_others_said(tmp_path: Path) -> None:
    config = "{deadline: 500ms, fast_interval: 50ms, stale_after: 100ms, down_after: 100ms}"
    async with serving(say(answer())) as good, serving(hang) as bad:
        done = await run_beside("once", "--output", "json", "--config", write(tmp_path, good.url, bad.url, scrape=config))
    states = {one["url"]: (one["state"], one["requests_running"]) for one in json.loads(done.out)["targets"]}
    assert states == {good.url: ("fresh", 3), bad.url: ("down", None)}


async def test_once_without_targets_is_done(tmp_path: Path) -> None:
    done = await run_beside("once", "--output", "json", "--config", write(tmp_path))
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["targets"] == []


@pytest.mark.parametrize("name", ["[/bold]", "[red]m[/red]", ":smile:", "\\x1b[2J", "a\\x9bb"])
async def test_a_hostile_model_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    raw = name.encode().decode("unicode_escape")
    page = PAGE.replace(b'model_name="m"', f'model_name="{raw}"'.encode())
    async with serving(say(answer(page))) as server:
        done = await run_beside("once", "--config", write(tmp_path, server.url))
    assert (done.code, done.err) == (0, "")
    assert "".join(char if char.isprintable() else "?" for char in raw) in done.out
    assert done.out.replace("\n", "").isprintable()


@pytest.mark.parametrize("output", ["table", "json"])
async def test_a_name_that_hangs_costs_the_deadline_and_no_more(tmp_path: Path, output: str) -> None:
    config = write(tmp_path, "http://engine.hangs:1", scrape="{deadline: 200ms}")
    done = await run_beside("once", "--output", output, "--config", config, env={"PYTHONPATH": str(hanging_names(tmp_path))})
    assert done.code == 1
    assert "timeout" in done.out


def hanging_names(folder: Path) -> Path:
    """A folder for PYTHONPATH under which every name that ends in `.hangs` is looked up for ever."""
    place = folder / "hanging"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import socket, time\nreal = socket.getaddrinfo\n\n\n"
        "def slow(host, *rest, **more):\n    if str(host).endswith('.hangs'):\n        time.sleep(3600)\n"
        "    return real(host, *rest, **more)\n\n\nsocket.getaddrinfo = slow\n"
    )
    return place


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("check-config", "CONFIG"), ("once", "--config", "CONFIG"), ("once", "--output", "json", "--config", "CONFIG")],
)
def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = write(tmp_path, f"http://127.0.0.1:{closed_port()}")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([COMMAND, *(config if one == "CONFIG" else one for one in arguments)], stdout=writer,
                              stderr=subprocess.PIPE, text=True, timeout=30, env=environment())  # fmt: skip
    finally:
        os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_is_one_line_and_code_1(tmp_path: Path, output: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "once", "--output", output, "--config", write(tmp_path)], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=30, env=environment())  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "cannot write the result: No space left on device\n")


def test_the_command_is_installed() -> None:
    assert shutil.which(COMMAND)
