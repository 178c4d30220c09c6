"""Credentials and certificates: sent where they belong, read anew when they change, shown nowhere."""

import asyncio
import base64
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.auth import Auth, Contexts, Secrets, Tls
from collector.clock import SystemClock
from collector.http import Client, open_fetch
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.reasons import FailureReason, ReadError
from collector.signals import Lane
from tests.net.pki import Authority, server_context
from tests.net.scripted import Script, Server, answer, say, serving
from tests.net.test_fetch import MIB, target

SECRET = "hunter2-very-secret"


def needing(*accepted: str) -> Script:
    """401 to all whose Authorization is not among the accepted ones (a list that a test may change)."""

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        good = any(f"\r\nAuthorization: {one}\r\n" in server.requests[-1] for one in accepted)
        writer.write(answer() if good else answer(b"no", "401 Unauthorized"))
        await writer.drain()

    return script


def with_auth(url: str, auth: Auth) -> Target:
    return replace(target(url), auth=auth)


async def look(client: Client, one: Target) -> Reading | Failure:
    return await read(one, Lane.FULL, fetch=client, clock=SystemClock())


def bearer(folder: Path, token: str = SECRET) -> tuple[Path, Auth]:
    file = folder / "token"
    file.write_text(token + "\n")
    return file, Auth(bearer_file=str(file))


async def test_a_bearer_token_is_sent(tmp_path: Path) -> None:
    _, auth = bearer(tmp_path)
    async with serving(needing(f"Bearer {SECRET}")) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
        without = await look(client, replace(target(server.url), pod="other"))
    assert isinstance(without, Failure)
    assert without.reason is FailureReason.UNAUTHORIZED


async def test_user_and_password_are_sent(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pä:ss\n")
    code = base64.b64encode("me:pä:ss".encode()).decode()
    auth = Auth(username="me", password_file=str(file))
    async with serving(needing(f"Basic {code}")) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)


def rewritten(file: Path) -> None:
    file.write_text("new-token")


def replaced(file: Path) -> None:
    (file.parent / "fresh").write_text("new-token")
    (file.parent / "fresh").replace(file)


def link_swapped(file: Path) -> None:
    """As Kubernetes does it: the file is a link into a folder that is itself a link, and that one is replaced."""
    (file.parent / "..data-2").mkdir()
    (file.parent / "..data-2" / "token").write_text("new-token")
    (file.parent / "..data-new").symlink_to("..data-2")
    (file.parent / "..data-new").replace(file.parent / "..data")


@pytest.mark.parametrize("rotate", [rewritten, replaced, link_swapped])
async def test_a_token_is_read_anew_when_its_file_changes(tmp_path: Path, rotate: Callable[[Path], None]) -> None:
    (tmp_path / "..data-1").mkdir()
    (tmp_path / "..data-1" / "token").write_text("old-token")
    (tmp_path / "..data").symlink_to("..data-1")
    file = tmp_path / "token"
    file.symlink_to("..data/token")
    auth = Auth(bearer_file=str(file))
    async with serving(say(answer())) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        for _ in range(2):
            assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
        rotate(file)
        for _ in range(2):
            assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
    sent = [next(line for line in request.split("\r\n") if line.startswith("Authorization")) for request in server.requests]
    assert sent == [f"Authorization: Bearer {age}-token" for age in ("old", "old", "new", "new")]


async def test_a_token_is_read_anew_once_on_401_though_its_file_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, auth = bearer(tmp_path, "old-token")
    monkeypatch.setattr("collector.auth.stamp", lambda *_: (1,))
    async with serving(needing("Bearer new-token")) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, with_auth(server.url, auth)), Failure)
        assert len(server.requests) == 1, "the same token is not worth a second try"
        file.write_text("new-token")
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
        assert len(server.requests) == 3


async def test_a_token_that_is_refused_is_not_tried_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, auth = bearer(tmp_path, "old-token")
    monkeypatch.setattr("collector.auth.stamp", lambda *_: (1,))
    async with serving(needing("none")) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        await look(client, with_auth(server.url, auth))
        file.write_text("new-token")
        outcome = await look(client, with_auth(server.url, auth))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.UNAUTHORIZED
    assert len(server.requests) == 3


async def test_a_token_file_that_is_gone_for_a_moment_does_not_matter(tmp_path: Path) -> None:
    file, auth = bearer(tmp_path)
    async with serving(needing(f"Bearer {SECRET}")) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
        file.write_text("")
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
        file.unlink()
        assert isinstance(await look(client, with_auth(server.url, auth)), Reading)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        ("", "empty"),
        (f"{SECRET}\r\nX: y", "one line"),
        (f"{SECRET}é", "one line"),
        (f"a {SECRET}", "one line"),
    ],
)
async def test_a_token_that_cannot_be_sent_is_unauthorized_and_not_shown(tmp_path: Path, content: str | None, told: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    async with serving(say(answer())) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        outcome = await look(client, with_auth(server.url, Auth(bearer_file=str(file))))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.UNAUTHORIZED
    assert told in outcome.detail
    assert str(file) in outcome.detail
    assert SECRET not in outcome.detail
    assert server.requests == []


async def test_the_secret_is_in_no_log_no_repr_and_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, auth = bearer(tmp_path)
    caplog.set_level(logging.DEBUG)
    async with serving(say(answer(b"<html>"))) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        one = with_auth(server.url, auth)
        outcome = await look(client, one)
        shown = [repr(outcome), repr(client), repr(client._secrets), str(vars(client)), repr(one), caplog.text]
    assert f"Bearer {SECRET}" in server.requests[0]
    assert not [text for text in shown if SECRET in text]


async def test_credentials_follow_a_redirect_on_the_same_server_only(tmp_path: Path) -> None:
    _, auth = bearer(tmp_path)
    async with serving(say(answer())) as other:
        moved = [answer(b"", "307 Moved", {"Location": to}) for to in ("/metrics/", other.url)]
        async with serving(say(moved[0], answer())) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
            assert isinstance(await look(client, with_auth(server.url, auth)), Reading)
            assert all(SECRET in request for request in server.requests)
        async with serving(say(moved[1])) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
            assert isinstance(await look(client, with_auth(server.url, auth)), Failure)
    assert other.requests == []


# --- certificates -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), "theirs")


@pytest.fixture(scope="module")
def server_files(ours: Authority) -> tuple[Path, Path]:
    return ours.issue("engine", alternatives="IP:127.0.0.1,DNS:engine.local")


def with_tls(url: str, tls: Tls) -> Target:
    return replace(target(url), tls=tls)


async def test_an_authority_of_our_own_is_trusted(ours: Authority, server_files: tuple[Path, Path]) -> None:
    async with (
        serving(say(answer()), tls=server_context(*server_files)) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as client,
    ):
        for _ in range(2):
            assert isinstance(await look(client, with_tls(server.url, Tls(ca_file=str(ours.file)))), Reading)


async def test_another_authority_is_not(theirs: Authority, server_files: tuple[Path, Path]) -> None:
    async with (
        serving(say(answer()), tls=server_context(*server_files)) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as client,
    ):
        outcome = await look(client, with_tls(server.url, Tls(ca_file=str(theirs.file))))
        assert isinstance(outcome, Failure)
        assert outcome.reason is FailureReason.TLS
        assert isinstance(await look(client, with_tls(server.url, Tls(insecure=True))), Reading)


@pytest.mark.parametrize(("name", "good"), [("", True), ("engine.local", True), ("other.local", False)])
async def test_the_server_must_prove_its_name(ours: Authority, server_files: tuple[Path, Path], name: str, good: bool) -> None:
    async with (
        serving(say(answer()), tls=server_context(*server_files)) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as client,
    ):
        outcome = await look(client, with_tls(server.url, Tls(ca_file=str(ours.file), server_name=name)))
    assert isinstance(outcome, Reading) is good
    assert good or (isinstance(outcome, Failure) and outcome.reason is FailureReason.TLS and "other.local" in outcome.detail)


async def test_a_client_certificate_is_shown_to_who_asks(ours: Authority, server_files: tuple[Path, Path]) -> None:
    certificate, key = ours.issue("client")
    context = server_context(*server_files, trusts=ours.file)
    async with serving(say(answer()), tls=context) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        shown = Tls(ca_file=str(ours.file), cert_file=str(certificate), key_file=str(key))
        assert isinstance(await look(client, with_tls(server.url, shown)), Reading)
        outcome = await look(client, with_tls(server.url, Tls(ca_file=str(ours.file))))
    assert isinstance(outcome, Failure)
    assert outcome.reason in (FailureReason.TLS, FailureReason.CONNECTION_LOST)


async def test_replaced_certificates_are_used_from_the_next_look_on(
    ours: Authority, theirs: Authority, server_files: tuple[Path, Path], tmp_path: Path
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(theirs.file.read_bytes())
    async with (
        serving(say(answer()), tls=server_context(*server_files)) as server,
        open_fetch(deadline_seconds=5.0, max_body=MIB) as client,
    ):
        one = with_tls(server.url, Tls(ca_file=str(trusted)))
        assert isinstance(await look(client, one), Failure)
        trusted.write_bytes(ours.file.read_bytes())
        assert isinstance(await look(client, one), Reading)
        trusted.write_bytes(theirs.file.read_bytes() + b"\n")
        outcome = await look(client, one)
        assert isinstance(outcome, Failure), "a kept connection must not outlive the trust it was made with"
        trusted.write_bytes(ours.file.read_bytes() + b"\n\n")
        assert isinstance(await look(client, one), Reading)
        trusted.write_text("half a certif")
        assert isinstance(await look(client, one), Reading), "a file that is being replaced does not count yet"
        trusted.unlink()
        assert isinstance(await look(client, one), Reading)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
async def test_certificate_files_that_cannot_be_used_are_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ReadError, match="certificate files cannot be used") as caught:
        await Contexts().context(Tls(ca_file=str(file)))
    assert caught.value.reason is FailureReason.TLS
    assert content is not None or str(file) in caught.value.detail


def test_no_credentials_are_no_header() -> None:
    assert Secrets().header(None) == b""
