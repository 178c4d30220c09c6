"""KV-cache blocks of one engine, with the shared prefixes that its prefix cache keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Prefix:
    blocks: int
    users: int


class BlockPool:
    """Blocks are used (by live requests), evictable (a cached prefix that nobody uses) or free; the three add
    up to `capacity`.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.evictable = 0
        self._prefixes: dict[str, _Prefix] = {}

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return self.capacity - self.used - self.evictable

    def take(self, blocks: int) -> bool:
        """Take blocks for a request, evicting cached prefixes (least recently used first); False when even
        that is not enough.
        """
        if blocks > self.free + self.evictable:
            return False
        while self.free < blocks:
            self._evict_one()
        self.used += blocks
        return True

    def give(self, blocks: int) -> None:
        """Give back blocks that a request had for itself."""
        if blocks > self.used:
            raise ValueError("more blocks given back than taken")
        self.used -= blocks

    def attach(self, name: str) -> int:
        """Use a cached prefix: its number of blocks, 0 when it is not cached."""
        prefix = self._prefixes.pop(name, None)
        if prefix is None:
            return 0
        self._prefixes[name] = prefix
        if prefix.users == 0:
            self.evictable -= prefix.blocks
            self.used += prefix.blocks
        prefix.users += 1
        return prefix.blocks

    def publish(self, name: str, blocks: int) -> bool:
        """Turn blocks that a request had for itself into a cached prefix that it uses; False when there is
        one already.
        """
        if name in self._prefixes or blocks == 0:
            return False
        self._prefixes[name] = _Prefix(blocks, 1)
        return True

    def detach(self, name: str) -> None:
        """End one use of a prefix; it stays cached until its room is needed."""
        prefix = self._prefixes[name]
        prefix.users -= 1
        if prefix.users == 0:
            self.used -= prefix.blocks
            self.evictable += prefix.blocks

    def _evict_one(self) -> None:
        name = next(name for name, prefix in self._prefixes.items() if prefix.users == 0)
        self.evictable -= self._prefixes.pop(name).blocks
