"""Every way in which reading a target can fail, over real sockets: each ends in one reason, and in one only."""

import asyncio
import gzip
import json
import shutil
import socket
import tracemalloc
import zlib
from pathlib import Path

import pytest

from collector.clock import SystemClock
from collector.http import open_fetch
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.reasons import FailureReason, Oddity
from collector.signals import Lane
from tests.net.scripted import PAGE, Script, Server, answer, drip, hang, say, self_signed, serving

MIB = 1 << 20


def target(url: str) -> Target:
    return Target(url=url, namespace="default", pool="p", pod="pod")


async def look(url: str, *, deadline: float = 5.0, max_body: int = MIB) -> Reading | Failure:
    async with open_fetch(deadline_seconds=deadline, max_body=max_body) as fetch:
        return await read(target(url), Lane.FULL, fetch=fetch, clock=SystemClock())


async def failure(script: Script, *, deadline: float = 5.0, max_body: int = MIB) -> Failure:
    async with serving(script) as server:
        outcome = await look(server.url, deadline=deadline, max_body=max_body)
    assert isinstance(outcome, Failure), outcome
    return outcome


async def reading(script: Script) -> Reading:
    async with serving(script) as server:
        outcome = await look(server.url)
    assert isinstance(outcome, Reading), outcome
    return outcome


def gauges(outcome: Reading) -> dict[str, float]:
    (values,) = outcome.rows.values()
    return dict(values.gauges)


def assert_whole(outcome: Reading | Failure) -> None:
    assert isinstance(outcome, Reading), outcome
    assert gauges(outcome) == {"requests_running": 3.0, "requests_waiting": 4.0}


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return answer(body + end, headers={"Transfer-Encoding": "chunked"}, length=None)


# --- good answers in unusual clothes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        answer(),
        answer(PAGE.rstrip(b"\n")),
        answer(PAGE.replace(b"\n", b"\r\n")),
        answer(headers={"Content-Type": ""}),
        answer(headers={"X-Large": "x" * 60_000}),
        answer(headers={"Set-Cookie": "a=b"}),
        answer(headers={"Content-Encoding": "identity"}),
        answer(headers={"Content-Encoding": ""}),
        answer(gzip.compress(PAGE), headers={"Content-Encoding": "gzip"}),
        answer(gzip.compress(PAGE), headers={"Content-Encoding": "GZIP"}),
        answer(gzip.compress(PAGE[:50]) + gzip.compress(PAGE[50:]), headers={"Content-Encoding": "gzip"}),
        answer(zlib.compress(PAGE), headers={"Content-Encoding": "deflate"}),
        chunked(PAGE),
        chunked(*(bytes([byte]) for byte in PAGE)),
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
    ],
    ids=[
        "plain", "no last newline", "crlf", "no type", "huge header", "cookie", "identity", "empty encoding", "gzip", "GZIP",
        "two gzip members", "deflate", "chunked", "one byte a chunk", "continue first",
    ],
)  # fmt: skip
async def test_a_good_page_is_read_whole(raw: bytes) -> None:
    assert_whole(await reading(say(raw)))


async def test_a_page_without_length_ends_with_the_connection() -> None:
    assert_whole(await reading(say(answer(length=None), close=True)))


async def test_an_old_server_that_closes_is_read() -> None:
    raw = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + PAGE
    assert_whole(await reading(say(raw, close=True)))


async def test_ipv6_targets_are_read() -> None:
    try:
        async with serving(say(answer()), host="::1") as server:
            assert_whole(await look(server.url))
            assert f"Host: [::1]:{server.port}" in server.requests[0]
    except OSError:
        pytest.skip("no IPv6 on this machine")


async def test_the_request_asks_for_the_plain_text_format() -> None:
    async with serving(say(answer())) as server:
        await look(server.url)
    head = server.requests[0].lower()
    assert head.startswith("get /metrics http/1.1\r\n")
    assert "accept: text/plain;version=0.0.4\r\n" in head
    assert "accept-encoding: identity\r\n" in head


# --- time ---------------------------------------------------------------------------------------------------------------------


async def slow_headers(_server: Server, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/")
    await asyncio.Event().wait()


async def endless_continue(_server: Server, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def never_closes(_server: Server, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(length=None))
    await asyncio.Event().wait()


@pytest.mark.parametrize("script", [hang, slow_headers, drip, endless_continue, never_closes])
async def test_headers_and_body_together_have_one_deadline(script: Script) -> None:
    outcome = await failure(script, deadline=0.3)
    assert outcome.reason is FailureReason.TIMEOUT
    assert "0.3 s" in outcome.detail
    assert 0.25 < outcome.duration_seconds < 2.0


async def test_a_server_that_accepts_and_never_reads_costs_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        outcome = await look(f"http://127.0.0.1:{deaf.getsockname()[1]}/metrics", deadline=0.2)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.TIMEOUT


# --- no connection ------------------------------------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_closed_port_is_refused(host: str) -> None:
    outcome = await look(f"http://{host}:{closed_port()}/metrics")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.REFUSED, outcome.detail


async def test_an_unknown_name_is_dns() -> None:
    outcome = await look("http://engine.invalid:8000/metrics", deadline=3.0)
    assert isinstance(outcome, Failure)
    if outcome.reason is FailureReason.TIMEOUT:
        pytest.skip("the resolver of this machine hangs")
    assert outcome.reason is FailureReason.DNS
    assert "engine.invalid" in outcome.detail


async def test_a_name_that_hangs_delays_no_other_and_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release, real = threading.Event(), socket.getaddrinfo

    def slow(host: str, *rest: object, **more: object) -> object:
        if host.endswith(".hangs"):
            release.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "later")
        return real(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        async with serving(say(answer())) as server, open_fetch(deadline_seconds=0.5, max_body=MIB) as fetch:
            hanging = [target(f"http://name-{number}.hangs:1/metrics") for number in range(50)]
            good = target(f"http://localhost:{server.port}/metrics")
            outcomes = await asyncio.gather(*(read(one, Lane.FULL, fetch=fetch, clock=SystemClock()) for one in (*hanging, good)))
    finally:
        release.set()
    assert {one.reason for one in outcomes if isinstance(one, Failure)} == {FailureReason.TIMEOUT}
    assert_whole(outcomes[-1])


# --- TLS ----------------------------------------------------------------------------------------------------------------------


async def test_a_certificate_nobody_vouches_for_is_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    async with serving(say(answer()), tls=self_signed(tmp_path, openssl)) as server:
        outcome = await look(server.url)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.TLS
    assert "certificate" in outcome.detail
    assert server.requests == []


async def test_a_plain_server_on_an_https_url_is_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"plain\n", "400 Bad Request"))
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
        outcome = await look(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/metrics")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.TLS, outcome.detail


async def test_a_tls_server_on_an_http_url_is_malformed_or_lost(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    async with serving(say(answer()), tls=self_signed(tmp_path, openssl)) as server:
        outcome = await look(server.url.replace("https", "http"))
    assert isinstance(outcome, Failure)
    assert outcome.reason in (FailureReason.MALFORMED, FailureReason.CONNECTION_LOST), outcome


# --- status -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("401 Unauthorized", FailureReason.UNAUTHORIZED),
        ("403 Forbidden", FailureReason.UNAUTHORIZED),
        ("404 Not Found", FailureReason.NOT_FOUND),
        ("400 Bad Request", FailureReason.HTTP_STATUS),
        ("405 Method Not Allowed", FailureReason.HTTP_STATUS),
        ("429 Too Many Requests", FailureReason.HTTP_STATUS),
        ("500 Internal Server Error", FailureReason.HTTP_STATUS),
        ("502 Bad Gateway", FailureReason.HTTP_STATUS),
        ("503 Service Unavailable", FailureReason.HTTP_STATUS),
        ("304 Not Modified", FailureReason.HTTP_STATUS),
        ("204 No Content", FailureReason.HTTP_STATUS),
        ("206 Partial Content", FailureReason.HTTP_STATUS),
        ("999 What", FailureReason.HTTP_STATUS),
    ],
)
async def test_a_status_other_than_200_is_named(status: str, reason: FailureReason) -> None:
    bare = status[:3] in ("204", "304")
    outcome = await failure(say(answer(b"" if bare else PAGE, status, length=None if bare else -1)))
    assert outcome.reason is reason
    assert status[:3] in outcome.detail


# --- redirects ----------------------------------------------------------------------------------------------------------------


def moved(to: str, status: str = "307 Temporary Redirect") -> bytes:
    return answer(b"", status, {"Location": to})


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
)
async def test_a_redirect_on_the_same_host_is_followed_once(status: str) -> None:
    async with serving(say(moved("/metrics/", status), answer())) as server:
        assert_whole(await look(server.url))
    assert server.paths == ["/metrics", "/metrics/"]


@pytest.mark.parametrize("spelling", ["http://127.0.0.1:{port}/metrics/", "//127.0.0.1:{port}/metrics/", "metrics/", "?a=b"])
async def test_every_spelling_of_the_same_host_is_followed(spelling: str) -> None:
    holder: dict[str, int] = {}

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(moved(spelling.format(**holder)) if len(server.requests) == 1 else answer())
        await writer.drain()

    async with serving(script) as server:
        holder["port"] = server.port
        assert_whole(await look(server.url))


async def test_case_of_the_host_in_a_redirect_does_not_matter() -> None:
    holder: dict[str, int] = {}

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(moved("HTTP://LocalHost:{port}/metrics/".format(**holder)) if len(server.requests) == 1 else answer())
        await writer.drain()

    async with serving(script) as server:
        holder["port"] = server.port
        assert_whole(await look(f"http://localhost:{server.port}/metrics"))


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.2:{port}/metrics", "http://login.example/", "https://127.0.0.1:{port}/metrics", "//elsewhere/metrics",
        "http://user:pass@127.0.0.1:{port}/metrics", "http://127.0.0.1:1/metrics", "http://[bad/", "javascript:alert(1)",
        "file:///etc/passwd", "http://127.0.0.1:99999/", "",
    ],
)  # fmt: skip
async def test_a_redirect_elsewhere_is_a_failure_and_not_followed(to: str) -> None:
    holder: dict[str, int] = {}

    async def script(_server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(moved(to.format(**holder)))
        await writer.drain()

    async with serving(script) as server:
        holder["port"] = server.port
        outcome = await look(server.url)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.REDIRECT, outcome
    assert len(server.requests) == 1
    assert "pass@" not in outcome.detail


async def test_a_redirect_without_a_place_is_a_failure() -> None:
    outcome = await failure(say(answer(b"", "302 Found")))
    assert outcome.reason is FailureReason.REDIRECT


async def test_a_redirect_loop_ends_after_two_requests() -> None:
    async with serving(say(moved("/metrics"))) as server:
        outcome = await look(server.url)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.REDIRECT
    assert len(server.requests) == 2


# --- not a metrics page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<!doctype html><title>Sign in</title>", "text/html; charset=utf-8"),
        (b"<!doctype html><title>Sign in</title>", "text/plain"),
        (b"\n  <html></html>", ""),
        (json.dumps({"detail": "Not Found"}).encode(), "application/json"),
        (b'["a"]', "text/plain"),
        (PAGE, "text/html"),
        (bytes(range(256)) * 40, "application/octet-stream"),
        (b"\x89PNG\r\n\x1a\n" + bytes(1000), "image/png"),
        (b"\x1f\x8b\x08" + bytes(200), "text/plain"),
    ],
    ids=["html", "html as text", "html without type", "json", "json as text", "page as html", "bytes", "png", "packed"],
)
async def test_another_kind_of_page_is_not_metrics(body: bytes, kind: str) -> None:
    outcome = await failure(say(answer(body, headers={"Content-Type": kind})))
    assert outcome.reason is FailureReason.NOT_METRICS, outcome


@pytest.mark.parametrize("body", [b"", b"\n", b"# nothing here\n", b"process_cpu_seconds_total 1\n"])
async def test_a_page_with_no_known_family_is_a_failure(body: bytes) -> None:
    outcome = await failure(say(answer(body)))
    assert outcome.reason is FailureReason.NO_KNOWN_FAMILIES, outcome
    assert "vllm" in outcome.detail


async def test_a_page_of_an_engine_that_keeps_its_statistics_to_itself_is_a_failure() -> None:
    page = b"".join(
        f"# TYPE {name} counter\n{name}_total 1.0\n".encode()
        for name in ("http_requests", "python_gc_collections", "process_cpu")
    )
    outcome = await failure(say(answer(page)))
    assert outcome.reason is FailureReason.NO_KNOWN_FAMILIES


@pytest.mark.parametrize(
    "text", [b"it works!\n", b"Welcome to the gateway.\nversion 2\nAsk the team for help.\n", b"# Title\n\nSome words.\n"]
)
async def test_prose_is_no_page(text: bytes) -> None:
    outcome = await failure(say(answer(text)))
    assert outcome.reason is FailureReason.NOT_METRICS
    assert "lines are no metric samples" in outcome.detail


@pytest.mark.parametrize("kind", ["text/html" + "x" * 60_000, "text/\x1b[31mhtml"])
async def test_what_a_target_sends_cannot_flood_or_paint_the_log(kind: str) -> None:
    outcome = await failure(say(answer(b"<html>", headers={"Content-Type": kind})))
    assert len(outcome.detail) <= 300
    assert outcome.detail.isprintable()


async def test_binary_rubbish_between_good_lines_costs_only_itself() -> None:
    outcome = await reading(say(answer(PAGE + b"vllm:num_requests_swapped\xff\x00{ 1\n" + b"vllm:kv_cache_usage_perc \xfe\n")))
    assert_whole(outcome)
    assert outcome.oddities[Oddity.BAD_LINE] >= 1


# --- broken transfers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n" + PAGE,
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" + PAGE,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + PAGE,
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n" + PAGE,
        b"\x00\x01\x02\x03\x04\x05\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        answer(headers={"Content-Encoding": "br"}),
        answer(headers={"Content-Encoding": "gzip, gzip"}),
        answer(PAGE, headers={"Content-Encoding": "gzip"}),
        answer(gzip.compress(PAGE)[:-8] + b"\xff" * 8, headers={"Content-Encoding": "gzip"}),
        answer(gzip.compress(PAGE) + b"rubbish after it", headers={"Content-Encoding": "gzip"}),
        chunked(PAGE[:40], end=b"zzz\r\n"),
    ],
    ids=[
        "ssh", "status", "header", "length text", "length negative", "two lengths", "bytes", "header beyond measure",
        "too many headers",
        "brotli", "packed twice", "not packed", "corrupt gzip", "rubbish after gzip", "chunk size",
    ],
)  # fmt: skip
async def test_an_answer_that_breaks_the_rules_is_malformed(raw: bytes) -> None:
    outcome = await failure(say(raw, close=True))
    assert outcome.reason is FailureReason.MALFORMED, outcome
    assert len(outcome.detail) < 500
    assert outcome.detail.isprintable()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        answer(length=len(PAGE) + 1),
        answer(gzip.compress(PAGE)[:-6], headers={"Content-Encoding": "gzip"}),
        answer(gzip.compress(PAGE)[:30], headers={"Content-Encoding": "gzip"}),
        answer(gzip.compress(PAGE) + gzip.compress(PAGE)[:12], headers={"Content-Encoding": "gzip"}),
        chunked(PAGE[:40], end=b""),
        chunked(PAGE, end=b""),
        chunked(PAGE[:40], end=b"40\r\nvllm:num_requests_run"),
        answer(PAGE[:-8], length=None),
    ],
    ids=[
        "nothing", "inside the status line", "shorter than told", "gzip cut", "gzip cut early", "second member cut",
        "no last chunk",
        "all but the last chunk", "inside a chunk", "inside a line, length not told",
    ],
)  # fmt: skip
async def test_an_answer_that_ends_early_is_connection_lost(raw: bytes) -> None:
    outcome = await failure(say(raw, close=True))
    assert outcome.reason is FailureReason.CONNECTION_LOST, outcome


async def test_a_reset_in_the_middle_is_connection_lost() -> None:
    async def reset(_server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(length=5000))
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    outcome = await failure(reset)
    assert outcome.reason is FailureReason.CONNECTION_LOST


# --- size ---------------------------------------------------------------------------------------------------------------------


async def hundred_megabytes(server: Server, writer: asyncio.StreamWriter) -> None:
    block = b"# a comment that is as long as a comment can be\n" * 1365
    writer.write(answer(b"", length=100 * MIB))
    for _ in range(100 * MIB // len(block)):
        writer.write(block)
        await writer.drain()
        server.sent += len(block)


async def endless(server: Server, writer: asyncio.StreamWriter) -> None:
    block = b"# x\n" * 10_000
    writer.write(answer(length=None))
    while True:
        writer.write(block)
        await writer.drain()
        server.sent += len(block)


@pytest.mark.parametrize("script", [hundred_megabytes, endless])
async def test_a_gigantic_page_is_refused_without_holding_it(script: Script) -> None:
    async with serving(script) as server:
        tracemalloc.start()
        try:
            outcome = await look(server.url, max_body=MIB, deadline=20.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.BODY_TOO_LARGE
    assert peak < 8 * MIB
    assert server.sent < 20 * MIB


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    block = b"\0" * MIB
    return b"".join(packer.compress(block) for _ in range(size // MIB)) + packer.flush()


@pytest.mark.parametrize("members", [1, 40], ids=["one member", "many members"])
async def test_a_gzip_bomb_is_refused_without_unpacking_it(members: int) -> None:
    packed = answer(bomb(200 * MIB // members) * members, headers={"Content-Encoding": "gzip"})
    async with serving(say(packed)) as server:
        tracemalloc.start()
        try:
            outcome = await look(server.url, max_body=MIB, deadline=20.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.BODY_TOO_LARGE
    assert peak < 8 * MIB


@pytest.mark.parametrize(("spare", "good"), [(0, True), (-1, False)])
@pytest.mark.parametrize("packed", [False, True])
async def test_the_cap_is_exact(spare: int, good: bool, packed: bool) -> None:
    raw = answer(gzip.compress(PAGE), headers={"Content-Encoding": "gzip"}) if packed else answer()
    async with serving(say(raw)) as server:
        outcome = await look(server.url, max_body=len(PAGE) + spare)
    assert isinstance(outcome, Reading) is good
    assert good or (isinstance(outcome, Failure) and outcome.reason is FailureReason.BODY_TOO_LARGE)


# --- nothing leaks ------------------------------------------------------------------------------------------------------------


async def test_netrc_and_proxy_variables_do_not_reach_a_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\nmachine localhost login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(say(answer())) as server:
        assert_whole(await look(server.url))
        assert_whole(await look(f"http://localhost:{server.port}/metrics"))
    assert all("authorization" not in request.lower() for request in server.requests)
    assert server.paths == ["/metrics", "/metrics"]


async def test_no_cookie_is_sent_back() -> None:
    cookies = answer(headers={"Set-Cookie": "session=1; Path=/"})
    async with (
        serving(say(moved("/metrics/").replace(b"Location", b"Set-Cookie: session=0; Path=/\r\nLocation"), cookies)) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as fetch,
    ):
        for _ in range(2):
            assert isinstance(await read(target(server.url), Lane.FULL, fetch=fetch, clock=SystemClock()), Reading)
    assert len(server.requests) == 3
    assert all("cookie" not in request.lower() for request in server.requests)


# --- connections --------------------------------------------------------------------------------------------------------------


async def test_a_connection_is_kept_between_looks_and_its_death_is_retried_once() -> None:
    async def two_each(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        if len(server.requests) == 2:
            writer.close()

    async with serving(two_each) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as fetch:
        for _ in range(4):
            assert_whole(await read(target(server.url), Lane.FULL, fetch=fetch, clock=SystemClock()))
    assert len(server.requests) == 4


async def test_an_answer_from_before_does_not_become_the_next_one() -> None:
    """A server that talks on after its answer must not feed the next question."""
    async with (
        serving(say(answer() + answer(b"vllm:num_requests_running 999\n"), answer())) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as fetch,
    ):
        for _ in range(3):
            assert_whole(await read(target(server.url), Lane.FULL, fetch=fetch, clock=SystemClock()))
