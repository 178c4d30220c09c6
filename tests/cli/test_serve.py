"""`serve` as a process: ready when all targets were tried, polite to its readers, and gone when it is told to go."""

import asyncio
import gzip
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.cli.process import Serving, run, serve
from tests.cli.test_commands import hanging_names, write
from tests.net.scripted import Script, Server, answer, drip, hang, say, serving
from tests.net.test_fetch import closed_port

QUICK = "{fast_interval: 20ms, full_interval: 40ms, deadline: 10s}"
SECRET = "hunter2"


async def get(base: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept-Encoding", "Accept")) as session,
        session.request(method, base + path, headers=lines) as response,
    ):
        return response.status, {name.lower(): value for name, value in response.headers.items()}, await response.read()


@asynccontextmanager
async def fleet(tmp_path: Path, script: Script, *arguments: str, scrape: str = QUICK) -> AsyncIterator[tuple[Server, Serving]]:
    """One target with a script, and a `serve` that reads it."""
    async with serving(script) as target, serve(Path(write(tmp_path, target.url, scrape=scrape)), *arguments) as process:
        yield target, process


# --- ready --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [answer(), answer(b"", "500 Oh"), b"rubbish\r\n\r\n"], ids=["good", "failed", "rubbish"])
async def test_ready_once_every_target_was_tried(tmp_path: Path, last: bytes) -> None:
    gate = asyncio.Event()

    async def wait_first(_server: Server, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(last)
        await writer.drain()

    async with (
        serving(say(answer())) as other, serving(wait_first) as slow,
        serve(Path(write(tmp_path, other.url, slow.url, scrape=QUICK))) as process,
    ):  # fmt: skip
        await slow.arrived.wait()
        await process.line("state changed", other.url)
        assert (await get(process.base, "/healthz"))[0] == 200
        status, _, body = await get(process.base, "/readyz")
        assert status == 503
        assert slow.url in body.decode()
        gate.set()
        await process.line("changed", slow.url)
        status, _, body = await get(process.base, "/readyz")
        assert (status, body) == (200, b"ready\n")


async def test_the_ready_line_names_the_address(tmp_path: Path) -> None:
    async with serve(Path(write(tmp_path))) as process:
        line = await process.line("serving")
        assert f"url={process.base}" in line
        assert "cluster=c" in line
        assert "targets=0" in line
        assert (await get(process.base, "/readyz"))[0] == 200


# --- /metrics and its neighbours ----------------------------------------------------------------------------------------------


async def test_metrics_in_every_form(tmp_path: Path) -> None:
    async with fleet(tmp_path, say(answer())) as (target, process):
        await process.line("state changed", target.url)
        for accept, openmetrics in (
            ("", False), ("*/*", False), ("text/plain", False), ("application/openmetrics-text; version=1.0.0", True),
            ("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", True),
            ("application/openmetrics-text;q=0", False), ("application/openmetrics-text;q=0.1, text/plain", False),
            ("rubbish;;q=,", False),
        ):  # fmt: skip
            status, headers, body = await get(process.base, "/metrics", Accept=accept)
            assert status == 200
            kind = "application/openmetrics-text; version=1.0.0" if openmetrics else "text/plain; version=0.0.4"
            assert headers["content-type"].startswith(kind)
            assert body.endswith(b"# EOF\n") is openmetrics
            assert b"llm_pod_requests_running{" in body
            assert f'address="127.0.0.1:{target.port}"' in body.decode()


async def test_gzip_for_who_takes_it(one_server: Serving) -> None:
    for accepts, packed in (
        ("gzip", True), ("GZIP", True), ("deflate, gzip;q=1.0, *;q=0.5", True), ("*", True), ("gzip;q=0.1", True), ("", False),
        ("identity", False), ("gzip;q=0", False), ("gzip; q=0.0, identity", False), ("*;q=0", False), ("gzip;q=0, *", False),
        ("br", False), ("notgzip", False), ("gzip;q=much", False),
    ):  # fmt: skip
        status, headers, body = await get(one_server.base, "/metrics", Accept_Encoding=accepts)
        assert status == 200
        assert headers.get("content-encoding") == ("gzip" if packed else None), accepts
        assert "Accept-Encoding" in headers["vary"]
        assert b"llm_exporter_build_info" in (gzip.decompress(body) if packed else body)


@pytest.fixture
async def one_server(tmp_path: Path) -> AsyncIterator[Serving]:
    async with serve(Path(write(tmp_path))) as process:
        yield process


async def test_head_unknown_paths_and_wrong_methods(one_server: Serving) -> None:
    for path in ("/", "/metrics", "/picker/v1/endpoints", "/healthz", "/readyz"):
        status, headers, body = await get(one_server.base, path, "HEAD")
        assert (status, body) == (200, b""), path
        assert int(headers["content-length"]) > 0
        for method in ("POST", "PUT", "DELETE"):
            status, headers, _ = await get(one_server.base, path, method)
            assert status == 405
            assert headers["allow"] == "GET,HEAD"
    for path in ("/nothing", "/metrics/x", "/debug", "/style.css"):
        assert (await get(one_server.base, path))[0] == 404
    assert (await get(one_server.base, "/picker/v1/endpoints?state=odd"))[0] == 400
    assert (await get(one_server.base, "/picker/v1/endpoints?odd=1"))[0] == 400


async def test_a_client_that_talks_rubbish_harms_nobody(one_server: Serving) -> None:
    host, port = one_server.base.removeprefix("http://").split(":")
    for rubbish in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G" * 100_000):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(rubbish)
        writer.write_eof()
        await reader.read(100)
        writer.close()
    assert (await get(one_server.base, "/healthz"))[0] == 200
    assert not any("Traceback" in line for line in one_server.lines)


# --- the address --------------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_said_and_is_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--config", write(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert "address already in use" in done.err.lower()
    assert "Traceback" not in done.err


def test_an_address_of_another_machine_is_said_and_is_code_1(tmp_path: Path) -> None:
    done = run("serve", "--config", write(tmp_path), "--listen", "192.0.2.1:9840")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("cannot listen on 192.0.2.1:9840: ")
    assert "Traceback" not in done.err


# --- the end ------------------------------------------------------------------------------------------------------------------


def without_uvloop(folder: Path) -> dict[str, str]:
    place = folder / "plain"
    place.mkdir()
    (place / "uvloop.py").write_text("raise ImportError\n")
    return {"PYTHONPATH": str(place)}


def as_installed(_folder: Path) -> dict[str, str]:
    return {}


@pytest.mark.parametrize("loop", [as_installed, without_uvloop])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_ends_within_five_seconds(
    tmp_path: Path, number: signal.Signals, loop: Callable[[Path], dict[str, str]]
) -> None:
    config = "{fast_interval: 20ms, full_interval: 40ms, deadline: 10m}"
    async with serving(hang) as hanging, serving(drip) as dripping, serving(say(answer())) as good:
        path = Path(write(tmp_path, hanging.url, dripping.url, good.url, scrape=config))
        async with serve(path, env=loop(tmp_path)) as process:
            host, port = process.base.removeprefix("http://").split(":")
            held = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
            held[1][1].write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            held[2][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            held[3][1].write(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nhalf")
            await held[2][0].readuntil(b"ok\n")
            await asyncio.gather(hanging.arrived.wait(), dripping.arrived.wait())
            process.signal(number)
            assert await process.end(within=5.0) == 0
            await process.line("stopping")
            for _, writer in held:
                writer.close()
        assert not any("Traceback" in line for line in process.lines), process.lines


async def test_a_reader_who_does_not_read_does_not_hold_the_end(tmp_path: Path) -> None:
    urls = [f"http://127.0.0.1:{closed_port()}/metrics/{number}" for number in range(400)]
    async with serve(Path(write(tmp_path, *urls, scrape="{fast_interval: 2s}"))) as process:
        host, port = process.base.removeprefix("http://").split(":")
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            lazy.connect((host, int(port)))
            lazy.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            assert (await get(process.base, "/healthz"))[0] == 200
            process.signal()
            assert await process.end(within=5.0) == 0


@pytest.mark.parametrize("loop", [as_installed, without_uvloop])
async def test_a_name_that_hangs_does_not_hold_the_end(tmp_path: Path, loop: Callable[[Path], dict[str, str]]) -> None:
    places = [str(hanging_names(tmp_path)), *loop(tmp_path).values()]
    path = Path(write(tmp_path, "http://engine.hangs:1", scrape="{deadline: 100ms}"))
    async with serve(path, env={"PYTHONPATH": os.pathsep.join(places)}) as process:
        await process.line("reason=timeout")
        process.signal()
        assert await process.end(within=5.0) == 0


@pytest.mark.parametrize("loop", [as_installed, without_uvloop])
async def test_a_thread_in_a_dead_file_system_does_not_hold_the_end(
    tmp_path: Path, loop: Callable[[Path], dict[str, str]]
) -> None:
    place = tmp_path / "dead"
    place.mkdir()
    (place / "sitecustomize.py").write_text("import glob, time\nglob.glob = lambda *_, **__: time.sleep(3600)\n")
    config = tmp_path / "fleet.yaml"
    config.write_text("cluster: c\nfile_targets: ['*.json']\n")
    places = [str(place), *loop(tmp_path).values()]
    async with serve(config, env={"PYTHONPATH": os.pathsep.join(places)}) as process:
        status, _, body = await get(process.base, "/readyz")
        assert (status, b"*.json" in body) == (503, True), "a source that says nothing is no empty set"
        process.signal()
        assert await process.end(within=5.0) == 0
        await process.line("was left behind")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    urls = [f"http://127.0.0.1:{closed_port()}/metrics/{number}" for number in range(400)]
    async with serve(Path(write(tmp_path, *urls, scrape="{fast_interval: 2s}"))) as process:
        host, port = process.base.removeprefix("http://").split(":")
        with socket.socket() as lazy:  # its unread answers make the orderly end wait
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            lazy.connect((host, int(port)))
            lazy.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            assert (await get(process.base, "/healthz"))[0] == 200
            process.signal()
            await process.line("stopping")
            process.signal(number)
            assert await process.end(within=1.5) == -number
        assert not any("Traceback" in line for line in process.lines)


# --- the log ------------------------------------------------------------------------------------------------------------------


async def test_the_log_as_json_is_json_line_by_line_and_holds_no_secret(tmp_path: Path) -> None:
    leaky = answer(b"", "302 Found", {"Location": f"http://me:{SECRET}@login.example/?token={SECRET}"})
    async with (
        serving(say(leaky)) as one,
        serving(say(b"HTTP/1.1 \x1b[31m rubbish\r\n\r\n")) as two,
        serving(say(answer())) as three,
    ):
        path = Path(write(tmp_path, one.url, two.url, three.url, scrape=QUICK))
        async with serve(path, "--log-format", "json") as process:
            for server in (one, two, three):
                await process.line('"message": "state changed"' if server is three else "changed", server.url)
            process.signal()
            assert await process.end() == 0
            await process.line("stopping")
    events = [json.loads(line) for line in process.lines]
    assert all({"time", "level", "message"} <= event.keys() for event in events)
    assert events[0]["message"] == "serving"
    assert events[0]["targets"] == 3
    assert events[-1]["message"] == "stopping"
    assert {event["reason"] for event in events if "reason" in event} == {"redirect", "malformed"}
    assert not any(SECRET in line for line in process.lines)
    assert all(line.isprintable() for line in process.lines)


async def test_a_target_that_keeps_failing_is_one_line(tmp_path: Path) -> None:
    async with fleet(tmp_path, say(*[answer(b"", "503 Loading")] * 9, answer())) as (target, process):
        await process.line("state changed", "state=fresh")
    about = [line for line in process.lines if target.url in line]
    assert len(target.requests) > 9
    assert [("reason=http_status" in line, "state=fresh" in line) for line in about] == [(True, False), (False, True)]
    assert "warning" in about[0]
    assert "attempts_before=" in about[1]


async def test_the_feed_is_not_sent_again_to_who_has_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, say(answer())) as (target, process):
        await process.line("state changed", target.url)
        tag = (await get(process.base, "/picker/v1/endpoints"))[1]["etag"]
        for header, status in ((tag, 304), (f"W/{tag}", 304), (f'"1", W/{tag} , "2"', 304), ("*", 304), ('"1"', 200), ("", 200),
                               (tag.strip('"'), 200), (f'"1{tag}', 200)):  # fmt: skip
            found = await get(process.base, "/picker/v1/endpoints", If_None_Match=header)
            assert found[0] == status, header
            assert found[1]["etag"] == tag


async def test_the_page_for_people_is_served(tmp_path: Path) -> None:
    async with fleet(tmp_path, say(answer())) as (target, process):
        await process.line("state changed", target.url)
        status, headers, body = await get(process.base, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert f"127.0.0.1:{target.port}" in body.decode()


async def test_the_endpoints_file_of_a_picker_is_kept(tmp_path: Path) -> None:
    async with serving(say(answer())) as target:
        config = write(tmp_path, target.url, scrape=QUICK)
        extended(config, "picker: {endpoints_files: [{pool: p, path: endpoints.yaml}, {pool: q, path: none.yaml}]}\n")
        async with serve(Path(config)) as process:
            await process.line("state changed", "fresh")
            await process.line("endpoints file", "no target of default/q is known")
            for _ in range(200):
                if "vllm" in read(tmp_path / "endpoints.yaml"):
                    break
                await asyncio.sleep(0.05)
            assert yaml.safe_load(read(tmp_path / "endpoints.yaml"))["endpoints"] == [
                {"name": f"127.0.0.1-{target.port}", "namespace": "default", "address": "127.0.0.1", "port": str(target.port),
                 "labels": {"llm-d.ai/engine-type": "vllm"}}]  # fmt: skip


def extended(path: str, more: str) -> None:
    with open(path, "a") as file:
        file.write(more)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
