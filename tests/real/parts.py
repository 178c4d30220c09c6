"""The real programs that the tests run against: what parts.toml says, and where they lie on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent
REQUIREMENTS = SOURCES / "python" / "requirements.txt"
TIERS = ("ci", "full")


@dataclass(frozen=True, slots=True)
class GoPart:
    """A program built from Go modules.

    `variables` are string variables that the linker sets; `placeholders` are files that the program embeds
    and its module does not carry, such as a web interface: they are built in empty.
    """

    name: str
    folder: str
    module: str
    version: str
    package: str
    tags: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    check: tuple[str, ...]
    tier: str
    placeholders: tuple[str, ...] = ()
    install: str = "make real-parts"

    @property
    def source(self) -> Path:
        return SOURCES / self.folder

    @property
    def program(self) -> Path:
        return cache_folder() / "bin" / self.name


@dataclass(frozen=True, slots=True)
class PythonPart:
    """A program that a package from PyPI brings, in the virtual environment that all such parts share.

    `library` is the import name of a package without a program: the part is then the Python that can import it.
    """

    name: str
    distribution: str
    library: str = ""
    install: str = "make real-parts"

    @property
    def program(self) -> Path | None:
        if self.library and not any(python_folder().glob(f"lib/python*/site-packages/{self.library}")):
            return None
        return python_folder() / "bin" / ("python" if self.library else self.name)


@dataclass(frozen=True, slots=True)
class PackagedPart:
    """A program that is only looked for; `command` is a name on PATH, or a path where names clash.

    `package` is the Debian package to ask for the version where the program itself does not tell.
    """

    name: str
    command: str
    check: tuple[str, ...]
    install: str
    package: str = ""

    @property
    def program(self) -> Path | None:
        # A virtual environment's programs count even when it has not been activated.
        beside = str(Path(sys.executable).parent)
        found = shutil.which(self.command, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
        return Path(found) if found else None


Part = GoPart | PythonPart | PackagedPart


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A program that was wanted and cannot be had."""

    name: str
    module: str
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All of parts.toml, in its order."""

    go: tuple[GoPart, ...]
    python: tuple[PythonPart, ...]
    packaged: tuple[PackagedPart, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.go, *self.python, *self.packaged)

    def part(self, name: str) -> Part:
        """The part of that name; KeyError when parts.toml has none."""
        return {part.name: part for part in self.parts}[name]


def read_catalogue(path: Path = SOURCES / "parts.toml") -> Catalogue:
    """Reads parts.toml; a missing or unknown key raises TypeError or KeyError."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Catalogue(
        go=tuple(_go_part(row) for row in table["go"]),
        python=tuple(PythonPart(**row) for row in table["python"]),
        packaged=tuple(PackagedPart(**{**row, "check": tuple(row["check"])}) for row in table["packaged"]),
        left_out=tuple(LeftOut(**row) for row in table["left_out"]),
    )


def cache_folder() -> Path:
    """The folder outside the source tree that keeps the parts."""
    if named := os.environ.get("LLM_FLEET_EXPORTER_PARTS"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "llm-fleet-exporter" / "parts"


def python_folder() -> Path:
    """The virtual environment of the parts from PyPI."""
    return cache_folder() / "python"


def _go_part(row: dict[str, Any]) -> GoPart:
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    part = GoPart(**{**row, **lists, "variables": tuple(sorted(row["variables"].items()))})
    if part.tier not in TIERS:
        raise ValueError(f"{part.name}: tier {part.tier!r} is none of {', '.join(TIERS)}")
    return part
