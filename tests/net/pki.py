"""Certificates for tests: authorities, servers and clients, made by openssl."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str) -> None:
    if OPENSSL is None:
        pytest.skip("needs openssl to make certificates")
    subprocess.run([OPENSSL, *arguments], check=True, capture_output=True)


class Authority:
    """Signs certificates; `file` is what those who trust it are given."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        usage = "keyUsage=critical,keyCertSign,cRLSign"
        self.file, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl("req", "-x509", *_CURVE, "-days", "2", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", usage, "-keyout", str(self._key), "-out", str(self.file))  # fmt: skip

    def issue(self, name: str, *, alternatives: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """Certificate and key of a server or client."""
        certificate, key, request = (self.folder / f"{name}-{self.name}.{kind}" for kind in ("pem", "key", "csr"))
        more = self.folder / f"{name}.ext"
        more.write_text(f"subjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n")
        _openssl("req", "-new", *_CURVE, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial",
                 "-days", "2", "-extfile", str(more), "-out", str(certificate))  # fmt: skip
        return certificate, key


def server_context(certificate: Path, key: Path, *, trusts: Path | None = None) -> ssl.SSLContext:
    """A server's context; with `trusts` it insists on a client certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if trusts is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusts)
    return context
