"""The client's own promises: kept connections, one silent retry, nothing left behind."""

import asyncio
import errno
import socket

import pytest

from collector.clock import SystemClock
from collector.connection import Unanswered
from collector.http import Client, connect_reason, open_fetch, place_of
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.reasons import FailureReason, ReadError
from collector.signals import Lane
from tests.net.scripted import PAGE, Server, answer, hang, say, serving
from tests.net.test_fetch import MIB, target


async def look(client: Client, one: Target) -> Reading | Failure:
    return await read(one, Lane.FULL, fetch=client, clock=SystemClock())


class Counting:
    """Counts the connections that a scripted server got, through the requests' transports."""

    def __init__(self) -> None:
        self.writers: set[asyncio.StreamWriter] = set()

    async def __call__(self, _server: Server, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        writer.write(answer())
        await writer.drain()


async def test_one_connection_serves_many_looks_and_other_paths() -> None:
    script = Counting()
    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        for _ in range(5):
            assert isinstance(await look(client, target(server.url)), Reading)
        body = await client(target(server.url), "/v1/loads?a=b")
    assert body.content == PAGE
    assert len(script.writers) == 1
    assert server.paths == ["/metrics"] * 5 + ["/v1/loads?a=b"]


async def test_two_looks_at_once_do_not_share_a_connection() -> None:
    script = Counting()
    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        both = await asyncio.gather(*(look(client, target(server.url)) for _ in range(2)))
        assert all(isinstance(one, Reading) for one in both)
        assert isinstance(await look(client, target(server.url)), Reading)
    assert len(script.writers) == 2


async def test_a_kept_connection_that_dies_before_the_first_byte_is_replaced_in_silence() -> None:
    """The server takes the second request on the old connection, and closes without a word: it had closed meanwhile."""
    writers: list[asyncio.StreamWriter] = []

    async def script(_server: Server, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if len(writers) == 2:
            writer.close()
            return
        writer.write(answer())
        await writer.drain()

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, target(server.url)), Reading)
        assert isinstance(await look(client, target(server.url)), Reading)
    assert writers[0] is writers[1]
    assert writers[2] is not writers[1]
    assert len(server.requests) == 3


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 2"], ids=["a new connection", "after the first byte"])
async def test_no_other_death_is_retried(first: bytes) -> None:
    """A new connection that dies has no excuse; one that began to answer may have done its work."""
    answers = [answer(), first] if first else [first]

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[len(server.requests) - 1])
        await writer.drain()
        if len(server.requests) == len(answers):
            writer.close()

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        outcomes = [await look(client, target(server.url)) for _ in answers]
    assert isinstance(outcomes[-1], Failure)
    assert outcomes[-1].reason is FailureReason.CONNECTION_LOST
    assert len(server.requests) == len(answers)


async def test_a_kept_connection_whose_replacement_dies_too_is_lost() -> None:
    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 1:
            writer.write(answer())
            await writer.drain()
        else:
            writer.close()

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, target(server.url)), Reading)
        outcome = await look(client, target(server.url))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.CONNECTION_LOST
    assert len(server.requests) == 3


async def test_a_short_error_answer_keeps_the_connection() -> None:
    writers: set[asyncio.StreamWriter] = set()

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        writer.write(answer(b"loading\n", "503 Loading") if len(server.requests) < 4 else answer())
        await writer.drain()

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        for _ in range(3):
            assert isinstance(await look(client, target(server.url)), Failure)
        assert isinstance(await look(client, target(server.url)), Reading)
    assert len(writers) == 1


async def test_the_sessions_of_targets_that_went_are_closed() -> None:
    gone = asyncio.Event()

    async def watching(_server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        task = asyncio.ensure_future(writer.wait_closed())
        task.add_done_callback(lambda done: (done.cancelled() or done.exception(), gone.set()))

    async with (
        serving(watching) as going,
        serving(say(answer())) as staying,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as client,
    ):
        for server in (going, staying):
            assert isinstance(await look(client, target(server.url)), Reading)
        client.keep([target(staying.url)])
        await asyncio.wait_for(gone.wait(), 5.0)
        assert isinstance(await look(client, target(staying.url)), Reading)


async def test_a_look_that_is_given_up_leaves_no_connection() -> None:
    async with serving(hang) as server, open_fetch(deadline_seconds=30.0, max_body=MIB) as client:
        task = asyncio.create_task(look(client, target(server.url)))
        await server.arrived.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert client._kept == {}


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ETIMEDOUT, "timeout"), (errno.ECONNREFUSED, "refused"), (errno.EHOSTUNREACH, "refused"),
        (errno.ENETUNREACH, "refused"), (errno.ECONNRESET, "connection_lost"), (errno.EMFILE, "other"),
    ],
)  # fmt: skip
def test_what_the_system_says_of_a_connection_has_a_fitting_reason(number: int, reason: str) -> None:
    assert connect_reason(OSError(number, "so")) == reason


async def test_an_address_without_a_route_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr("collector.http.aiohappyeyeballs.start_connection", nowhere)
    async with open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        outcome = await look(client, target("http://10.255.255.1:8000/metrics"))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.REFUSED
    assert "No route to host" in outcome.detail


async def test_an_address_that_stays_silent_does_not_use_up_the_time_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def both(host: str, port: int, **more: object) -> object:
        if host == "two.addresses":
            return [*real("::1", port, **more), *real("127.0.0.1", port, **more)]  # type: ignore[arg-type]
        return real(host, port, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    async with serving(say(answer())) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, target(f"http://two.addresses:{server.port}/metrics")), Reading)


async def test_trailers_without_end_are_no_way_around_the_cap() -> None:
    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"4\r\n# x\n\r\n0\r\nX-Endless: ", headers={"Transfer-Encoding": "chunked"}, length=None))
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            server.sent += 65536

    async with serving(script) as server, open_fetch(deadline_seconds=20.0, max_body=1 << 16) as client:
        outcome = await look(client, target(server.url))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.BODY_TOO_LARGE
    assert server.sent < 16 * MIB


def test_hosts_and_paths_are_spelled_as_the_wire_wants_them() -> None:
    assert place_of("http://bücher:1/mé?a=ü").question.startswith(b"GET /m%C3%A9?a=%C3%BC HTTP/1.1\r\nHost: xn--bcher-kva:1\r\n")
    assert place_of("http://[fd00::1]:80/a").question.startswith(b"GET /a HTTP/1.1\r\nHost: [fd00::1]\r\n")
    assert b"Host: [fe80::1]:9\r\n" in place_of("http://[fe80::1%eth0]:9/a").question
    assert place_of("http://h:1/metrics/?name[]=a:b").path == "/metrics/?name[]=a:b"
    with pytest.raises(ReadError, match=r"^dns"):
        place_of(f"http://{'ü' * 80}.x:1/")


async def test_a_question_on_a_closed_connection_has_no_answer() -> None:
    from collector.connection import Connection

    with pytest.raises(Unanswered):
        await Connection().ask(b"", max_body=MIB)


async def test_another_cap_holds_from_the_next_question_on_also_on_a_connection_that_was_busy_meanwhile() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def script(_server: Server, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await gate.wait()
        writer.write(answer())
        await writer.drain()

    async with serving(script) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        under_way = asyncio.create_task(look(client, target(server.url)))
        await asked.wait()
        client.limit(deadline_seconds=5.0, max_body=16)
        gate.set()
        assert isinstance(await under_way, Reading)
        failed = await look(client, target(server.url))
    assert isinstance(failed, Failure)
    assert failed.reason is FailureReason.BODY_TOO_LARGE
