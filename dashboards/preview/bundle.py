"""The program that draws boards, made of npm packages outside the source tree."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.real.commands import run
from tests.real.parts import cache_folder

HERE = Path(__file__).parent
PINS = ("package.json", "package-lock.json", ".npmrc")
PAGE = ("index.html", "vite.config.js", "src")
LIMIT_SECONDS = 15 * 60


def bundle() -> Path:
    """Folder of the page, installed and built again where pins or sources changed; BuildError when it cannot be had."""
    folder = cache_folder() / "preview"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*PINS, *PAGE):
        _copy(HERE / name, folder / name)
    _once(folder, "pins", PINS, ("npm", "ci"))
    _once(folder, "page", (*PINS, *PAGE), ("npm", "exec", "vite", "build"))
    return folder / "dist"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _once(folder: Path, name: str, inputs: Iterable[str], command: tuple[str, ...]) -> None:
    stamp, content = folder / f"{name}.stamp", _digest(folder / one for one in inputs)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == content:
        return
    stamp.unlink(missing_ok=True)
    run(command, folder=folder, limit_seconds=LIMIT_SECONDS)
    stamp.write_text(content, encoding="utf-8")


def _digest(paths: Iterable[Path]) -> str:
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name}\n".encode() + file.read_bytes())
    return whole.hexdigest()
