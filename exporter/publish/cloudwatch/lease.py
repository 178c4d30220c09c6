"""One writer of several: who holds the lock of a file writes, the others stand by with all they need to go on.

The lock is the kernel's (flock), so that it ends with its holder however that ends, and no clocks are compared. It works
among processes that see the same volume: on one node, or on a shared one that keeps locks (NFS 4, EFS). The file holds a line
about the holder and the moment up to which everything was sent.
"""

import fcntl
import os
import socket
from contextlib import suppress
from typing import Protocol


class Lease(Protocol):
    """Whether this process is the one that writes."""

    def held(self) -> bool: ...
    def handed_over(self) -> float: ...
    def note(self, until: float) -> None: ...
    def release(self) -> None: ...


class Alone:
    """No lease: this process always writes."""

    def held(self) -> bool:
        return True

    def handed_over(self) -> float:
        return 0.0

    def note(self, until: float) -> None:
        pass

    def release(self) -> None:
        pass


class FileLease:
    """Held while the lock is ours and the file still the one of that name. OSError where it cannot be made or keeps no locks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._heard = 0.0

    def held(self) -> bool:
        """Hold the lease, or take it if it is free."""
        if self._file is not None:
            if self._same():
                return True
            self.release()
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._heard = _word(file)
            os.close(file)
            return False
        except OSError:
            os.close(file)
            raise
        self._file = file
        # Whoever held it may have taken the file away between our opening and locking it.
        if not self._same():
            self.release()
            return False
        return True

    def handed_over(self) -> float:
        """Unix time up to which the holder, or the one before us, sent what it counted; 0 when that is not known.

        As it was when we last looked, while another holds the file or if that is not its own any more.
        """
        return self._heard if self._file is None else _word(self._file) or self._heard

    def note(self, until: float) -> None:
        """Leave word for who comes next."""
        if self._file is not None:
            line = f"{socket.gethostname()}:{os.getpid()} {until:.3f}\n".encode()
            os.pwrite(self._file, line.ljust(128), 0)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _same(self) -> bool:
        """Whether the name still leads to the file that is locked: a deleted one can be locked by nobody else any more."""
        assert self._file is not None
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        mine = os.fstat(self._file)
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _word(file: int) -> float:
    with suppress(ValueError, IndexError):
        return float(os.pread(file, 256, 0).decode().split()[1])
    return 0.0
