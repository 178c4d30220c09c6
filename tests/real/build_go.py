"""Builds a part from its Go modules, unless nothing that decides the program has changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.real.commands import CHECK_LIMIT_SECONDS, BuildError, run
from tests.real.parts import GoPart, cache_folder

BUILD_LIMIT_SECONDS = 45 * 60
DOWNLOAD_LIMIT_SECONDS = 10 * 60
# No cgo: the programs then run on any Linux of this architecture, and no C compiler is needed.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false", "GOWORK": "off"}


def build_go(part: GoPart, *, jobs: int) -> bool:
    """True when it was built, False when the one in the cache is still right; BuildError when it cannot be had."""
    stamp = cache_folder() / "stamps" / part.name
    inputs = _fingerprint(part)
    if part.program.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == inputs:
        return False
    _build(part, jobs=jobs)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(inputs, encoding="utf-8")
    return True


def check_pin(part: GoPart) -> None:
    """BuildError when parts.toml and the part's go.mod name different versions."""
    text = (part.source / "go.mod").read_text(encoding="utf-8")
    pin = re.search(rf"^(?:require)?\s+{re.escape(part.module)} (\S+)", text, re.MULTILINE)
    if pin is None or pin[1] != part.version:
        found = pin[1] if pin else "no version"
        raise BuildError(f"{part.folder}/go.mod has {found} of {part.module}, parts.toml has {part.version}")


def _fingerprint(part: GoPart) -> str:
    """Hash of everything that decides the program: the pins, the sources, the flags and the Go version."""
    check_pin(part)
    command = ["go", "env", "GOVERSION"]
    version = run(command, folder=part.source, limit_seconds=CHECK_LIMIT_SECONDS, variables=GO_ENVIRONMENT)
    # Those two say when it is built, not how.
    pins = {key: value for key, value in asdict(part).items() if key not in ("tier", "install")}
    digest = hashlib.sha256(json.dumps([pins, version.stdout, GO_ENVIRONMENT], sort_keys=True).encode())
    for path in sorted(part.source.glob("*")):
        if path.name in ("go.mod", "go.sum") or path.suffix == ".go":
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build(part: GoPart, *, jobs: int) -> None:
    """Builds beside the old program and replaces it only once the new one has run."""
    part.program.parent.mkdir(parents=True, exist_ok=True)
    fresh = part.program.with_name(f".{part.name}.{os.getpid()}")
    linker = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in part.variables)])
    flags = ["-p", str(jobs), "-tags", ",".join(part.tags), "-ldflags", linker, "-o", str(fresh)]
    with tempfile.TemporaryDirectory() as scratch:
        if part.placeholders:
            flags.append(f"-modfile={_fill_placeholders(part, folder=Path(scratch))}")
        command = ["go", "build", *flags, part.package]
        try:
            run(command, folder=part.source, limit_seconds=BUILD_LIMIT_SECONDS, variables=GO_ENVIRONMENT)
            run([str(fresh), *part.check], folder=fresh.parent, limit_seconds=CHECK_LIMIT_SECONDS)
            fresh.replace(part.program)
        finally:
            fresh.unlink(missing_ok=True)


def _fill_placeholders(part: GoPart, *, folder: Path) -> Path:
    """Copies the part's module, adds the empty files, and returns a go.mod that points to the copy.

    A copy, because Go lets nobody put files into its module cache, by an overlay neither.
    """
    command = ["go", "mod", "download", "-json", part.module]
    download = run(command, folder=part.source, limit_seconds=DOWNLOAD_LIMIT_SECONDS, variables=GO_ENVIRONMENT)
    module = folder / "module"
    shutil.copytree(json.loads(download.stdout)["Dir"], module, copy_function=shutil.copyfile)
    for directory, _, _ in os.walk(module):
        os.chmod(directory, 0o755)  # the module cache is read-only, and so is its copy
    for name in part.placeholders:
        (module / name).parent.mkdir(parents=True, exist_ok=True)
        (module / name).touch()
    modfile = folder / "go.mod"
    pins = (part.source / "go.mod").read_text(encoding="utf-8")
    modfile.write_text(f"{pins}\nreplace {part.module} => {json.dumps(str(module))}\n", encoding="utf-8")
    shutil.copyfile(part.source / "go.sum", folder / "go.sum")
    return modfile
