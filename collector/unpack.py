"""The body of an answer as it comes in: unpacked piece by piece, and never longer than its cap."""

import zlib

from collector.reasons import FailureReason, ReadError

PACKINGS = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_PACKING = zlib.MAX_WBITS | 32  # gzip or zlib, whichever the first bytes say


class Plain:
    """A body that is sent as it is. ReadError when it grows beyond the cap of `most` bytes."""

    __slots__ = ("_most", "_parts", "_size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            raise ReadError(FailureReason.BODY_TOO_LARGE, f"more than {self._most} bytes")
        self._parts.append(data)

    def whole(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Packed:
    """A packed body, which may be several gzip members one after another. The cap holds before and after unpacking."""

    __slots__ = ("_came", "_inflate", "_most", "_parts")

    def __init__(self, most: int) -> None:
        self._most = most
        self._inflate = zlib.decompressobj(wbits=_ANY_PACKING)
        self._parts = bytearray()
        self._came = 0

    def take(self, data: bytes) -> None:
        self._came += len(data)
        try:
            while data:
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(wbits=_ANY_PACKING)
                self._parts += self._inflate.decompress(data, self._most + 1 - len(self._parts))
                if max(len(self._parts), self._came) > self._most:
                    raise ReadError(FailureReason.BODY_TOO_LARGE, f"more than {self._most} bytes after unpacking")
                data = self._inflate.unused_data
        except zlib.error as error:
            raise ReadError(FailureReason.MALFORMED, f"packed body cannot be read: {error}") from error

    def whole(self) -> bytes:
        if not self._inflate.eof:
            raise ReadError(FailureReason.CONNECTION_LOST, "packed body ends early")
        return bytes(self._parts)
