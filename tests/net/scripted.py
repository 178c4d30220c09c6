"""A loopback server that answers by script: raw bytes on a real socket, so that it can break every rule of HTTP."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PAGE = (
    b"# TYPE vllm:num_requests_running gauge\n"
    b'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
    b"# TYPE vllm:num_requests_waiting gauge\n"
    b'vllm:num_requests_waiting{engine="0",model_name="m"} 4.0\n'
)
TEXT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


def answer(
    body: bytes = PAGE, status: str = "200 OK", headers: dict[str, str] | None = None, *, length: int | None = -1
) -> bytes:
    """A whole HTTP answer; `length` None leaves Content-Length out, -1 tells the truth."""
    lines = {**TEXT, **(headers or {})}
    if length is not None:
        lines["Content-Length"] = str(len(body) if length < 0 else length)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


@dataclass(slots=True)
class Server:
    """What came in: request heads in order, and how many were being answered at once."""

    url: str = ""
    port: int = 0
    requests: list[str] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    sent: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]


Script = Callable[[Server, asyncio.StreamWriter], Awaitable[None]]
"""Writes the answer to the last of `server.requests`; the connection is closed after an answer that is not kept alive."""


def say(*answers: bytes, close: bool = False) -> Script:
    """Answer with these in turn, the last one for ever."""

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        content = answers[min(len(server.requests), len(answers)) - 1]
        writer.write(content)
        await writer.drain()
        server.sent += len(content)
        if close:
            writer.close()

    return script


async def hang(_server: Server, _writer: asyncio.StreamWriter) -> None:
    """Never answer; ends when the client goes or the server stops."""
    await asyncio.Event().wait()


async def drip(_server: Server, writer: asyncio.StreamWriter) -> None:
    """A promising answer whose body comes a byte at a time and never ends: each single read is quick."""
    writer.write(answer(length=10_000_000, body=b""))
    while True:
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Server]:
    """Run a script on a free port."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            try:
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    await _one(server, script, head.decode("latin-1"), reader, writer)
            finally:
                tasks.discard(task)
                writer.close()

    listener = await asyncio.start_server(connected, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    server.url = f"{'https' if tls else 'http'}://{shown}:{server.port}/metrics"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _one(server: Server, script: Script, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, or stop when the client hangs up first."""
    server.requests.append(head)
    server.in_flight += 1
    server.peak = max(server.peak, server.in_flight)
    server.arrived.set()
    work = asyncio.ensure_future(script(server, writer))
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        else:
            raise ConnectionResetError
    finally:
        server.in_flight -= 1
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


def self_signed(folder: Path, openssl: str) -> ssl.SSLContext:
    """A server's context with a certificate that nobody vouches for."""
    import subprocess

    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
