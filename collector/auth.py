"""Who we are to a target, and whom we trust: credentials and certificates, read anew when their files change."""

import asyncio
import base64
import os
import ssl
from collections import defaultdict
from dataclasses import dataclass, field

from collector.reasons import FailureReason, ReadError

Stamp = tuple[int, ...]
"""What changes with a file's content, also where a symbolic link is swapped: device, inode, time and size of each."""


@dataclass(frozen=True, slots=True)
class Auth:
    """Bearer token, or user and password; secrets stay in their files."""

    bearer_file: str = ""
    username: str = ""
    password_file: str = ""

    @property
    def file(self) -> str:
        return self.bearer_file or self.password_file


@dataclass(frozen=True, slots=True)
class Tls:
    """Whose certificates count, which one is ours, and the name that the server must prove. Empty = the system's choice."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.ca_file, self.cert_file, self.key_file) if file)


def stamp(*files: str) -> Stamp:
    """OSError when one of them is not there."""
    return tuple(part for file in files for found in (os.stat(file),)
                 for part in (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size))  # fmt: skip


class Secrets:
    """Authorization headers by the files they come from. Nothing in here is ever shown: errors name the file alone."""

    def __init__(self) -> None:
        self._headers: dict[Auth, tuple[Stamp, bytes]] = {}

    def header(self, auth: Auth | None, *, again: bool = False) -> bytes:
        """The header line, empty without credentials; read anew when the file changed, or `again` whatever it looks like.

        A file that vanished or is empty for a moment is being replaced: what it held is used as long as it is accepted.
        ReadError when there is nothing to send.
        """
        if auth is None:
            return b""
        known = self._headers.get(auth)
        try:
            now = stamp(auth.file)
            if known is None or again or known[0] != now:
                known = self._headers[auth] = (now, _header(auth))
        except (OSError, ValueError) as error:
            if known is None:
                told = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
                raise ReadError(FailureReason.UNAUTHORIZED, f"{auth.file}: {told}") from None
        return known[1]

    def __repr__(self) -> str:
        return f"Secrets of {len(self._headers)} files"


def _header(auth: Auth) -> bytes:
    with open(auth.file, encoding="utf-8", errors="surrogateescape") as file:
        secret = file.read().strip()
    if not secret:
        raise ValueError("the file is empty")
    if auth.bearer_file:
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise ValueError("the file does not hold one line of plain characters")
        return f"Authorization: Bearer {secret}\r\n".encode()
    pair = f"{auth.username}:{secret}".encode(errors="surrogateescape")
    return b"Authorization: Basic " + base64.b64encode(pair) + b"\r\n"


@dataclass(slots=True)
class _Known:
    stamp: Stamp
    context: ssl.SSLContext
    serial: int = 1
    refused: Stamp = field(default=())


class Contexts:
    """TLS contexts by their settings. A serial number tells connections of a replaced one apart."""

    def __init__(self) -> None:
        self._known: dict[Tls, _Known] = {}
        self._making: defaultdict[Tls, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def context(self, tls: Tls) -> tuple[ssl.SSLContext, int]:
        """The context of the present files. Files that do not fit together are being replaced: the last good ones count.

        ReadError when there were none yet. Made in a thread, by one for all who wait: the system's certificates alone take many
        milliseconds to read.
        """
        async with self._making[tls]:
            return await self._present(tls)

    async def _present(self, tls: Tls) -> tuple[ssl.SSLContext, int]:
        known = self._known.get(tls)
        try:
            now = stamp(*tls.files)
            if known is None or now not in (known.stamp, known.refused):
                fresh = await asyncio.to_thread(make_context, tls)
                known = self._known[tls] = _Known(now, fresh, known.serial + 1 if known else 1)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if known is None:
                raise ReadError(FailureReason.TLS, f"certificate files cannot be used: {_plain(error)}") from error
            if not isinstance(error, FileNotFoundError):
                known.refused = stamp(*tls.files)
        return known.context, known.serial

    def serial(self, tls: Tls) -> int:
        """Number of the context in use, 0 when its files have changed since."""
        known = self._known.get(tls)
        try:
            now = stamp(*tls.files)
        except OSError:
            return known.serial if known else 0
        return known.serial if known is not None and now in (known.stamp, known.refused) else 0


def make_context(tls: Tls) -> ssl.SSLContext:
    """A client's context. OSError or ssl.SSLError for files that cannot be used."""
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file or None, password=_no_password)
    return context


def _no_password() -> str:
    """Without this a key that needs a password would ask for it at the terminal."""
    raise ValueError("the key is encrypted")


def _plain(error: Exception) -> str:
    name = getattr(error, "filename", None)
    return f"{name}: {error.strerror}" if name and isinstance(error, OSError) else str(error)
