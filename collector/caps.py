"""A bound on label values that clients make: the first ones for the life of the process, the rest is `other`."""

from collections.abc import Iterable

OTHER = "other"


class FirstOnes:
    """Admits values until `most` of them are known."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.refused = 0
        self._known: set[str] = set()

    def admit(self, values: Iterable[str]) -> None:
        """Take note of values; those that come when there is no more room are counted and stay `other`."""
        for value in values:
            if value in self._known:
                continue
            if len(self._known) < self.most:
                self._known.add(value)
            else:
                self.refused += 1

    def shown(self, value: str) -> str:
        """The value itself, or `other` when too many came before it."""
        return value if value in self._known else OTHER
