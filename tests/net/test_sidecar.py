"""The sidecar on real sockets: read through, one scrape for all, and no answer rather than an old one."""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from collector.auth import Auth, Tls
from collector.clock import Clock
from collector.model import Target
from exporter.sidecar import peer as peers
from exporter.sidecar.guard import ServerContext, ServerTls
from exporter.sidecar.serve import ListenError, Plan, Running, running
from exporter.sidecar.through import Pace
from tests.conftest import FakeClock
from tests.net.engines import engine, page, told
from tests.net.pki import Authority, server_context
from tests.net.scripted import PAGE, Script, Server, answer, hang, say, serving

QUICK = Pace(fresh_for=0.1, budget=0.3)


def plan(url: str, **more: object) -> Plan:
    fields: dict[str, object] = {"host": "127.0.0.1", "port": 0, "pace": QUICK, **more}
    return Plan(target=Target(url=url, namespace="", pool="", pod=""), **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def beside(script: Script, clock: Clock | None = None, **more: object) -> AsyncIterator[tuple[Server, Running]]:
    async with serving(script) as server, running(plan(server.url, **more), clock) as sidecar:
        yield server, sidecar


async def get(
    sidecar: Running, path: str = "/picker", *, secure: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, str]:  # fmt: skip
    connector = aiohttp.TCPConnector(ssl=secure) if secure else None
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(sidecar.base + path, headers=headers) as response,
    ):
        return response.status, await response.text()


async def until(found: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if found():
            return
        await asyncio.sleep(0)
    raise AssertionError("did not come about")


def numbers(text: str) -> dict[str, float]:
    return {
        line.split(" ")[0]: float(line.split(" ")[1])
        for line in text.splitlines()
        if not line.startswith("#") and "{" not in line
    }


def looks(server: Server) -> list[str]:
    return [path for path in server.paths if path.startswith("/metrics")]


# --- reading through ------------------------------------------------------------------------------------------------------------


async def test_a_poll_reads_the_engine_and_a_second_one_only_when_the_sample_is_old(clock: FakeClock) -> None:
    async with beside(say(answer()), clock) as (server, sidecar):
        status, text = await get(sidecar)
        assert status == 200
        assert numbers(text)["vllm:num_requests_running"] == 3
        assert numbers(text)["vllm:num_requests_waiting"] == 4
        clock.advance(0.09)
        _, text = await get(sidecar)
        assert numbers(text)["llm_picker_sample_age_seconds"] == pytest.approx(0.09)
        assert len(looks(server)) == 1
        clock.advance(0.02)
        _, text = await get(sidecar)
        assert numbers(text)["llm_picker_sample_age_seconds"] == 0
        assert len(looks(server)) == 2


async def test_polls_at_one_time_share_one_scrape(clock: FakeClock) -> None:
    gate = asyncio.Event()

    async def gated(server: Server, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await say(answer())(server, writer)

    async with beside(gated, clock, pace=replace(QUICK, budget=5.0)) as (server, sidecar):
        polls = [asyncio.create_task(get(sidecar)) for _ in range(40)]
        await server.arrived.wait()
        await until(lambda: len(sidecar.peers) == 40)
        gate.set()
        assert {status for status, _ in await asyncio.gather(*polls)} == {200}
        assert len(looks(server)) == 1
        assert sidecar.through.tally.scrapes == {"full": 1}


async def test_the_engine_is_asked_for_little_where_it_can_filter(clock: FakeClock) -> None:
    paths = {"/metrics": answer(page("vllm-0.32.0-load-queued")), "/v1/models": told(data=[]), "/version": told(version="1")}
    async with beside(engine(paths), clock) as (server, sidecar):
        for _ in range(5):
            assert (await get(sidecar))[0] == 200
            clock.advance(0.2)
        await asyncio.sleep(0)
        assert server.paths.count("/metrics") == 1
        assert sum(path.startswith("/metrics/?name[]=") for path in server.paths) == 4
        clock.advance(5.0)
        assert (await get(sidecar))[0] == 200
        assert server.paths.count("/metrics") == 2


async def test_loaded_adapters_are_asked_for_beside(clock: FakeClock) -> None:
    models = told(data=[{"id": "m", "parent": None}, {"id": "sql", "parent": "m"}])
    paths = {"/metrics": answer(page("vllm-0.32.0-lora-running-waiting")), "/v1/models": models}
    async with beside(engine(paths), clock) as (server, sidecar):
        text = ""
        while 'loaded="sql"' not in text:
            _, text = await get(sidecar)
        assert server.paths.count("/v1/models") == 1


async def test_what_sglang_tells_at_once_goes_before_its_page(clock: FakeClock) -> None:
    """Its gauges are behind by up to half a minute; the very first answer has the load of this moment."""
    rank = {"dp_rank": 0, "num_running_reqs": 7, "num_waiting_reqs": 5, "token_usage": 0.5, "max_total_num_tokens": 1000}
    paths = {"/metrics": answer(page("sglang-0.5.23-load-queued")), "/v1/loads": told(loads=[rank])}
    async with beside(engine(paths), clock) as (_, sidecar):
        for _ in range(3):
            shown = numbers((await get(sidecar))[1])
            assert (shown["vllm:num_requests_running"], shown["vllm:num_requests_waiting"]) == (7, 5)
            assert shown["vllm:kv_cache_usage_perc"] == 0.5
            clock.advance(4.0)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_page_that_lags_is_no_sample_before_the_short_answer_is_there(clock: FakeClock, *, fails: bool) -> None:
    """A second poll while the first still waits for it, or after it broke."""
    rank = {"dp_rank": 0, "num_running_reqs": 7, "num_waiting_reqs": 5, "token_usage": 0.5, "max_total_num_tokens": 1000}
    asked, gate = asyncio.Event(), asyncio.Event()
    good = engine({"/metrics": answer(page("sglang-0.5.23-load-queued")), "/v1/loads": told(loads=[rank])})

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        if server.paths[-1] == "/v1/loads" and not gate.is_set():
            asked.set()
            await gate.wait()
            if fails:
                return writer.close()
        return await good(server, writer)

    async with beside(script, clock, pace=replace(QUICK, budget=5.0)) as (_, sidecar):
        first = asyncio.create_task(get(sidecar))
        await asked.wait()
        second = asyncio.create_task(get(sidecar))
        await asyncio.wait([second], timeout=0.2)
        gate.set()
        for status, text in (await first, await second, await get(sidecar)):
            assert status == 503 or numbers(text)["vllm:num_requests_running"] == 7


# --- nothing old --------------------------------------------------------------------------------------------------------------


async def test_a_killed_engine_is_no_sample_at_once_and_served_again_when_it_is_back(clock: FakeClock) -> None:
    async with AsyncExitStack() as stack:
        alive = await asyncio.start_server(_page_for_ever, "127.0.0.1", 0)
        port = alive.sockets[0].getsockname()[1]
        patient = plan(f"http://127.0.0.1:{port}/metrics", pace=replace(QUICK, budget=30.0))
        sidecar = await stack.enter_async_context(running(patient, clock))
        assert (await get(sidecar))[0] == 200
        alive.close()
        await alive.wait_closed()
        clock.advance(0.2)
        begun = time.monotonic()
        status, text = await get(sidecar)
        assert status == 503
        assert "refused: cannot connect" in text
        assert time.monotonic() - begun < 5
        back = await asyncio.start_server(_page_for_ever, "127.0.0.1", port)
        assert (await get(sidecar))[0] == 200
        back.close()


async def _page_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One answer a connection."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(answer(headers={"Connection": "close"}))
    writer.close()


async def test_an_engine_that_hangs_is_refused_within_the_budget_and_its_old_numbers_are_not_shown(clock: FakeClock) -> None:
    stuck = asyncio.Event()

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        if stuck.is_set():
            await hang(server, writer)
        await say(answer())(server, writer)

    async with beside(script, clock) as (_, sidecar):
        assert (await get(sidecar))[0] == 200
        stuck.set()
        clock.advance(0.2)
        begun = time.monotonic()
        status, text = await get(sidecar)
        took = time.monotonic() - begun
        assert status == 503
        assert "vllm:" not in text
        assert took < 1.0, "a picker waits no longer"
        stuck.clear()
        while (await get(sidecar))[0] != 200:
            pass


@pytest.mark.parametrize("bad", [answer(b"", "500 Oh"), answer(b"<html>"), answer(b"x 1\n"), b"rubbish\r\n\r\n",
                                 answer(b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running NaN\n")],
                         ids=["500", "html", "foreign", "rubbish", "no load"])  # fmt: skip
async def test_what_is_no_load_is_no_sample(bad: bytes) -> None:
    async with beside(say(bad)) as (_, sidecar):
        status, text = await get(sidecar)
        assert status == 503
        assert "vllm:" not in text


async def test_a_number_that_vanishes_fails_the_page_since_a_picker_would_keep_it(clock: FakeClock) -> None:
    kv = b"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.5\n"
    async with beside(say(answer(PAGE + kv), answer(PAGE)), clock) as (_, sidecar):
        assert "vllm:kv_cache_usage_perc 0.5" in (await get(sidecar))[1]
        clock.advance(10.0)
        status, text = await get(sidecar)
        assert status == 503
        assert "kv_cache_usage" in text


# --- who may ask ----------------------------------------------------------------------------------------------------------------


async def test_the_token_is_needed_where_there_is_one_and_followed_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with beside(say(answer()), bearer_file=str(file)) as (_, sidecar):
        assert (await get(sidecar))[0] == 401
        assert (await get(sidecar, Authorization="Bearer wrong"))[0] == 401
        assert (await get(sidecar, "/status"))[0] == 401
        assert (await get(sidecar, "/healthz"))[0] == 200
        assert (await get(sidecar, Authorization="Bearer first"))[0] == 200
        (tmp_path / "new").write_text("second, longer")
        (tmp_path / "new").replace(file)
        assert (await get(sidecar, Authorization="Bearer first"))[0] == 401
        assert (await get(sidecar, Authorization="Bearer second, longer"))[0] == 200
        file.unlink()
        assert (await get(sidecar, Authorization="Bearer second, longer"))[0] == 200


async def test_tls_and_certificates_of_clients(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    certificate, key = ours.issue("sidecar")
    tls = ServerTls(cert_file=str(certificate), key_file=str(key), client_ca_file=str(ours.file))
    async with beside(say(answer()), tls=tls) as (_, sidecar):
        assert sidecar.base.startswith("https://")
        secure = ssl.create_default_context(cafile=str(ours.file))
        secure.load_cert_chain(*ours.issue("picker"))
        assert (await get(sidecar, secure=secure))[0] == 200
        stranger = ssl.create_default_context(cafile=str(ours.file))
        stranger.load_cert_chain(*theirs.issue("stranger"))
        for context in (stranger, ssl.create_default_context(cafile=str(ours.file))):
            with pytest.raises(aiohttp.ClientError):
                await get(sidecar, secure=context)


async def test_a_certificate_whose_key_is_still_to_come_is_left_alone(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    (first, first_key), (second, second_key) = ours.issue("first"), ours.issue("second")
    certificate.write_bytes(first.read_bytes())
    key.write_bytes(first_key.read_bytes())
    secure = ssl.create_default_context(cafile=str(ours.file))
    served = ServerContext(ServerTls(cert_file=str(certificate), key_file=str(key)))
    listening = await asyncio.start_server(_page_for_ever, "127.0.0.1", 0, ssl=served.context)

    async def shown() -> bytes | None:
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=secure)
        secret = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(secret).encode()

    async with listening:
        certificate.write_bytes(second.read_bytes())
        served.renew()
        assert await shown() == first.read_bytes()
        key.write_bytes(second_key.read_bytes())
        served.renew()
        assert await shown() == second.read_bytes()


async def test_short_answers_that_failed_for_a_while_are_used_again(clock: FakeClock) -> None:
    rank = {"dp_rank": 0, "num_running_reqs": 7, "num_waiting_reqs": 5, "token_usage": 0.5, "max_total_num_tokens": 1000}
    paths = {"/metrics": answer(page("sglang-0.5.23-load-queued")), "/v1/loads": answer(b"", "503 Busy")}
    async with beside(engine(paths), clock) as (_, sidecar):
        for _ in range(4):
            assert (await get(sidecar))[0] == 200
            clock.advance(0.2)
        paths["/v1/loads"] = told(loads=[rank])
        clock.advance(61.0)
        await get(sidecar)
        clock.advance(0.2)
        assert numbers((await get(sidecar))[1])["vllm:num_requests_running"] == 7


async def test_the_engine_may_want_a_certificate_and_a_token(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    (tmp_path / "token").write_text("engine-token")
    certificate, key = ours.issue("client")

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        good = "\r\nAuthorization: Bearer engine-token\r\n" in server.requests[-1]
        await say(answer() if good else answer(b"", "401 Unauthorized"))(server, writer)

    async with serving(script, tls=server_context(*ours.issue("engine"), trusts=ours.file)) as server:
        bare = plan(server.url)
        known = replace(bare.target, auth=Auth(bearer_file=str(tmp_path / "token")),
                        tls=Tls(str(ours.file), str(certificate), str(key)))  # fmt: skip
        async with running(replace(bare, target=known)) as sidecar:
            assert (await get(sidecar))[0] == 200
        async with running(replace(bare, target=replace(known, tls=Tls(str(ours.file))))) as sidecar:
            assert (await get(sidecar))[0] == 503


async def test_files_that_cannot_be_used_are_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for more in ({"bearer_file": str(tmp_path / "none")}, {"bearer_file": str(tmp_path / "empty")},
                 {"tls": ServerTls(cert_file=str(tmp_path / "empty"))}):  # fmt: skip
        with pytest.raises(ListenError, match=r"none|empty|PEM|SSL"):
            async with running(plan("http://127.0.0.1:1/metrics", **more)):
                pass


# --- bad clients ----------------------------------------------------------------------------------------------------------------

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


async def talk(sidecar: Running, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sidecar.base.rpartition(":")[2]))
    for part in parts:
        writer.write(part)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@pytest.mark.parametrize(("asked", "status"), [
    (b"GET /picker HTTP/1.0\r\n\r\n", 200),
    (b"HEAD /picker HTTP/1.0\r\n\r\n", 200),
    (b"GET /picker?x=1 HTTP/1.0\r\n\r\n", 200),
    (b"GET /other HTTP/1.0\r\n\r\n", 404),
    (b"POST /picker HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", 405),
    (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    (b"GET /picker HTTP/1.1\r\nX: " + b"x" * 17_000, 431),
    (b"GET /" + b"x" * 17_000, 431),
    (b"GET /picker HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
], ids=["old", "head", "query", "elsewhere", "post", "tls", "long head", "long path", "upgrade"])  # fmt: skip
async def test_every_request_has_its_answer(asked: bytes, status: int) -> None:
    async with beside(say(answer())) as (_, sidecar):
        got = await talk(sidecar, asked)
        assert got.startswith(f"HTTP/1.1 {status} ".encode())
        assert (await get(sidecar))[0] == 200


async def test_head_has_no_body_and_requests_in_a_row_are_answered_in_order() -> None:
    async with beside(say(answer())) as (_, sidecar):
        assert (await talk(sidecar, b"HEAD /picker HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n")
        asked = [b"GET /picker HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"]
        many = await talk(sidecar, b"".join(asked) + b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert re.findall(rb"HTTP/1\.1 (\d+)", many) == [b"200", b"200", b"404"]
        assert many.index(b"vllm:") < many.index(b"\r\n\r\nok\n") < many.index(b"HTTP/1.1 404")


async def test_a_thousand_pollers_half_open_sockets_and_slow_readers_leave_the_others_fresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice for each of them; what the picker among them reads is never older than the bound."""
    monkeypatch.setattr(peers, "SLOW_SECONDS", 0.5)
    pollers = 1000
    async with beside(say(answer()), pace=Pace(fresh_for=0.1, budget=5.0)) as (_, sidecar):
        port = int(sidecar.base.rpartition(":")[2])
        bad = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for number, (_, writer) in enumerate(bad):
            # Half of them say half a request; the others ask and ask, and read nothing.
            writer.write(b"GET /pick" if number % 2 else b"GET /picker HTTP/1.1\r\n\r\n" * 8)
        links = [await asyncio.open_connection("127.0.0.1", port) for _ in range(pollers)]

        async def poll(link: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> float:
            reader, writer = link
            writer.write(b"GET /picker HTTP/1.1\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
            body = await reader.readexactly(size)
            return numbers(body.decode())["llm_picker_sample_age_seconds"]

        for _ in range(2):
            ages = await asyncio.gather(*map(poll, links))
            assert max(ages) <= 0.1
        for reader, _ in bad[1::2]:
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b"", "half a request is let go of"
        for _, writer in (*bad, *links):
            writer.close()
    assert not sidecar.peers


async def test_a_connection_beyond_the_most_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.sidecar.serve._MOST_PEERS", 2)
    async with beside(say(answer())) as (_, sidecar):
        port = int(sidecar.base.rpartition(":")[2])
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: len(sidecar.peers) == 2)
        with pytest.raises((OSError, aiohttp.ClientError)):
            await get(sidecar)
        held[0][1].close()
        await until(lambda: len(sidecar.peers) == 1)
        assert (await get(sidecar))[0] == 200
        held[1][1].close()


async def test_an_address_in_use_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ListenError, match="--listen"):
            async with running(plan("http://127.0.0.1:1/metrics", port=taken.getsockname()[1])):
                pass
