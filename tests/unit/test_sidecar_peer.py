"""Patience with clients: who keeps us waiting is let go of, who waits for us is not."""

import asyncio
import time

import pytest

from exporter.sidecar.peer import IDLE_SECONDS, SLOW_SECONDS, Asked, Peer, Reply


class Pipe(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.ended = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.ended = True

    abort = close

    def is_closing(self) -> bool:
        return self.ended

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def connected(gate: asyncio.Event | None = None) -> tuple[Peer, Pipe]:
    async def handle(_: Asked) -> Reply:
        if gate is not None:
            await gate.wait()
        return Reply(body=b"x")

    peer, pipe = Peer(handle, set(), 10), Pipe()
    peer.connection_made(pipe)
    return peer, pipe


async def test_half_a_request_is_let_go_of_soon_and_an_idle_connection_late() -> None:
    peer, _ = connected()
    now = time.monotonic()
    assert not peer.expired(now + SLOW_SECONDS + 1)
    assert peer.expired(now + IDLE_SECONDS + 1)
    peer.data_received(b"GET /pick")
    assert not peer.expired(now + SLOW_SECONDS - 1)
    assert peer.expired(now + SLOW_SECONDS + 1)
    peer.data_received(b"er HT")  # a byte now and then buys no time
    assert peer.expired(now + SLOW_SECONDS + 1)


async def test_who_does_not_read_gets_no_more_and_is_let_go_of() -> None:
    peer, pipe = connected()
    peer.pause_writing()
    now = time.monotonic()
    assert not pipe.reading
    peer.data_received(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0)
    assert pipe.sent == b""
    assert peer.expired(now + SLOW_SECONDS + 1)
    peer.resume_writing()
    assert pipe.reading
    for _ in range(10):
        await asyncio.sleep(0)
    assert pipe.sent


async def test_who_waits_for_us_is_not_let_go_of() -> None:
    gate = asyncio.Event()
    peer, pipe = connected(gate)
    peer.data_received(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0)
    assert not peer.expired(time.monotonic() + IDLE_SECONDS + 1)
    gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert pipe.sent
    assert pipe.sent.endswith(b"x")


async def test_an_answer_that_breaks_is_a_500_and_the_next_one_works() -> None:
    calls = 0

    async def handle(_: Asked) -> Reply:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("broken")
        return Reply(body=b"fine")

    peer, pipe = Peer(handle, set(), 10), Pipe()
    peer.connection_made(pipe)
    peer.data_received(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    for _ in range(10):
        await asyncio.sleep(0)
    assert pipe.sent.startswith(b"HTTP/1.1 500 ")
    assert pipe.sent.endswith(b"fine")


async def test_a_client_that_goes_takes_its_work_with_it() -> None:
    gate = asyncio.Event()
    peer, pipe = connected(gate)
    peer.data_received(b"GET / HTTP/1.1\r\n\r\n" * 3)
    await asyncio.sleep(0)
    peer.connection_lost(None)
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert pipe.sent == b""


async def said(request: bytes, *more: bytes) -> tuple[str, Pipe]:
    """Answers to a request, by a server that tells the path it was asked for."""

    async def handle(asked: Asked) -> Reply:
        return Reply(body=f"[{asked.path}]".encode())

    peer, pipe = Peer(handle, set(), 10), Pipe()
    peer.connection_made(pipe)
    for data in (request, *more):
        peer.data_received(data)
    for _ in range(40):
        await asyncio.sleep(0)
    return pipe.sent.decode(), pipe


@pytest.mark.parametrize("more", [b"GET /b HTTP/1.1\r\n\r\n", b"\x00nonsense", b"\r\n"])
@pytest.mark.parametrize("apart", [False, True])
async def test_what_follows_a_last_request_takes_its_answer_from_nobody(more: bytes, apart: bool) -> None:
    last = b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"
    sent, pipe = await (said(last, more) if apart else said(last + more))
    assert sent.startswith("HTTP/1.1 200 ")
    assert sent.endswith("[/a]")
    assert sent.count("HTTP/1.1 ") == 1
    assert "Connection: close\r\n" in sent
    assert pipe.ended


async def test_a_broken_request_is_refused_after_the_answers_before_it() -> None:
    sent, pipe = await said(b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nnonsense\r\n\r\n")
    assert [line for line in sent.replace("]", "]\n").splitlines() if line.startswith(("HTTP", "["))] == [
        "HTTP/1.1 200 OK", "[/a]", "HTTP/1.1 200 OK", "[/b]", "HTTP/1.1 400 Bad Request",
    ]  # fmt: skip
    assert pipe.ended


@pytest.mark.parametrize(
    ("target", "path"),
    [("http://10.0.0.1:9841/picker?x=1", "/picker"), ("HTTPS://[::1]:9841/picker", "/picker"), ("http://host", "/"),
     ("http://host?x=/picker", "/"), ("/http://host/picker", "/http://host/picker")],
)  # fmt: skip
async def test_a_whole_url_is_taken_for_its_path(target: str, path: str) -> None:
    assert (await said(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))[0].endswith(f"[{path}]")


@pytest.mark.parametrize(
    ("version", "header", "told", "kept"),
    [("1.0", "Connection: keep-alive\r\n", "keep-alive", True), ("1.0", "", "close", False), ("1.1", "", None, True),
     ("1.1", "Connection: close\r\n", "close", False)],
)  # fmt: skip
async def test_what_becomes_of_the_connection_is_said(version: str, header: str, told: str | None, kept: bool) -> None:
    sent, pipe = await said(f"GET / HTTP/{version}\r\n{header}\r\n".encode())
    lines = [line.removeprefix("Connection: ") for line in sent.splitlines() if line.startswith("Connection: ")]
    assert lines == ([told] if told else [])
    assert pipe.ended is not kept
