"""One spelling for the address of a metrics page, so that one page is one target."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

_EXPECTED_URL = "expected a URL such as http://10.0.0.1:8000 or https://pod:8000/metrics"
_PORTS = {"http": 80, "https": 443}


def normal_url(text: str) -> str:
    """The URL of a metrics page in one spelling: port always, path /metrics by default. ValueError says what would be right."""
    if "@" in text.partition("?")[0]:
        raise ValueError("a URL must not hold a user, a password or any other @")
    try:
        if any(char.isspace() or not char.isprintable() for char in text):
            raise ValueError("no spaces")
        parts = urlsplit(text)
        address = _address(parts)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED_URL}, got {text!r}: {error}") from error
    if parts.fragment:
        raise ValueError(f"a URL must not hold a fragment (#{parts.fragment})")
    path = parts.path if parts.path not in ("", "/") else "/metrics"
    return parts._replace(netloc=address, path=path).geturl()


def _address(parts: SplitResult) -> str:
    """`host:port`, IPv6 in brackets and in its shortest form. ValueError says what is wrong."""
    if parts.scheme not in _PORTS:
        raise ValueError("the scheme is http or https")
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("the port is a number from 1 to 65535")
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        return f"[{ip_address(host)}]:{port}"
    if not re.fullmatch(r"[\w.-]+", host):
        raise ValueError("the host is a name or an IP address")
    return f"{host}:{port}"
