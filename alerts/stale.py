"""Files of an earlier run that this one did not write: a rule file that stays is loaded, and its alerts go on."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path


def stale(folders: Iterable[Path], headers: tuple[str, ...], written: Collection[Path]) -> Iterator[Path]:
    """Files right in the folders that begin with one of our headers and were not written; links are none of them."""
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path not in written and path.is_file() and not path.is_symlink() and _begins(path, headers):
                yield path


def _begins(path: Path, headers: tuple[str, ...]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(max(len(header.encode()) for header in headers)).startswith(tuple(one.encode() for one in headers))
    except OSError:  # what cannot be read is not known to be ours
        return False
