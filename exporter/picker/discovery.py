"""`endpoints.yaml` for pickers without Kubernetes: our targets in the form of llm-d-router's file discovery, replaced whole."""

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

from collector.signals import State
from collector.snapshot import Endpoint
from exporter.picker.dialects import LABELS

MOST_BYTES = 1 << 20
"""A picker refuses a larger file."""


class Unwritable(ValueError):
    """The file cannot be what a picker reads; the message says why."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The file's text, and the addresses that it had to leave out since a picker takes IPv4 numbers alone."""

    text: str
    left_out: tuple[str, ...]


def listing(endpoints: Iterable[Endpoint], pool: tuple[str, str]) -> Listing:
    """Endpoints of one pool (namespace, name) that may serve: neither down nor about to go. Unwritable if too many."""
    entries: list[str] = []
    left_out: list[str] = []
    for one in endpoints:
        if one.target.pool_key != pool or one.state in (State.DOWN, State.TERMINATING):
            continue
        parts = urlsplit(one.target.url)
        try:
            entries.append(_entry(one, str(IPv4Address(parts.hostname or "")), str(parts.port)))
        except ValueError:
            left_out.append(one.target.address)
    text = "endpoints:\n" + "".join(sorted(entries)) if entries else "endpoints: []\n"
    if len(text.encode()) > MOST_BYTES:
        raise Unwritable(f"{len(entries)} endpoints make more than the {MOST_BYTES} bytes that a picker reads")
    return Listing(text, tuple(left_out))


def _entry(one: Endpoint, address: str, port: str) -> str:
    """Texts are quoted as JSON does, which YAML reads, since a general writer would hold up the loop."""
    fields = {"name": _name(one), "namespace": one.target.namespace, "address": address, "port": port}
    lines = [f"{name}: {json.dumps(text)}" for name, text in fields.items()]
    if one.engine:
        lines.append(f"labels: {{{json.dumps(LABELS['router'])}: {json.dumps(one.engine)}}}")
    return "- " + "\n  ".join(lines) + "\n"


def _name(one: Endpoint) -> str:
    """Unique within the file: pods may have several ports, and static targets have no pods."""
    pod, address = one.target.pod, one.target.address
    return pod.replace(":", "-") if pod == address else f"{pod}-{address.rpartition(':')[2]}"


def replace_file(path: Path, text: str) -> bool:
    """Put the text in the file's place in one step; False when it says so already. OSError when it cannot be written."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True
