"""Whom the sidecar answers: bearer token and TLS from files that may be replaced while it runs."""

import hmac
import ssl
from contextlib import suppress
from dataclasses import dataclass

from collector.auth import Stamp, stamp


class Guard:
    """Compares tokens with the one in a file, read anew when it changes. ValueError or OSError for a file that cannot be used."""

    def __init__(self, bearer_file: str) -> None:
        self._file = bearer_file
        self._stamp: Stamp = ()
        self._token = b""
        if bearer_file:
            self._renew()
            if not self._token:
                raise ValueError(f"{bearer_file}: the file is empty")

    def allows(self, authorization: str) -> bool:
        """Whether a request with this header may be answered."""
        if not self._file:
            return True
        with suppress(OSError):  # being replaced: the last token counts
            self._renew()
        kind, _, token = authorization.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._token)

    def _renew(self) -> None:
        if (now := stamp(self._file)) != self._stamp:
            with open(self._file, "rb") as file:
                self._stamp, self._token = now, file.read().strip() or self._token


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """Our certificate, and whose clients may come ("" = anybody's)."""

    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.cert_file, self.key_file, self.client_ca_file) if file)


class ServerContext:
    """A server's TLS context whose certificates follow their files. ValueError or OSError for files that cannot be used."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self._stamp = stamp(*tls.files)
        self.context = self._loaded(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def renew(self) -> None:
        """Take over files that changed, for connections from now on; files that do not fit together yet are left alone."""
        with suppress(OSError, ValueError):
            if (now := stamp(*self._tls.files)) != self._stamp:
                # A certificate without its key would stay in the context that serves.
                self._loaded(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
                self._loaded(self.context)
                self._stamp = now

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.load_cert_chain(self._tls.cert_file, self._tls.key_file or None, password=_no_password)
        if self._tls.client_ca_file:
            context.load_verify_locations(self._tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")
