"""What is worth a log line: a pod's change of state, a new reason of failure. Repeats are counted, not printed."""

from collections.abc import Iterable
from dataclasses import dataclass

from collector.signals import REPORTING, State
from collector.snapshot import Endpoint


@dataclass(frozen=True, slots=True)
class Change:
    """One line: what changed, for better or worse, and the facts beside it."""

    message: str
    worse: bool
    facts: dict[str, str]


@dataclass(slots=True)
class _Known:
    state: State
    reason: str
    attempts: int = 0


class Changes:
    """Remembers the last state and reason of each target."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def tried(self, key: str) -> None:
        """Count an attempt at a target."""
        if (known := self._known.get(key)) is not None:
            known.attempts += 1

    def note(self, endpoints: Iterable[Endpoint]) -> list[Change]:
        """Changes since the last call; targets that went are forgotten, untried ones are no news."""
        changes: list[Change] = []
        present: dict[str, _Known] = {}
        for endpoint in endpoints:
            if endpoint.sampled_at is None and endpoint.failure is None:
                continue
            reason = str(endpoint.failure.reason) if endpoint.failure else ""
            known = self._known.get(endpoint.target.key)
            if known is not None and (known.state, known.reason) == (endpoint.state, reason):
                present[endpoint.target.key] = known
                continue
            present[endpoint.target.key] = _Known(endpoint.state, reason)
            changes.append(_describe(endpoint, known, reason))
        self._known = present
        return changes


def _describe(endpoint: Endpoint, known: _Known | None, reason: str) -> Change:
    target = endpoint.target
    facts = {"namespace": target.namespace, "pool": target.pool, "pod": target.pod, "url": target.url, "state": endpoint.state}
    if known is not None:
        facts |= {"before": known.state, "attempts_before": str(known.attempts)}
    if endpoint.failure is not None:
        facts |= {"reason": reason, "detail": endpoint.failure.detail}
    message = "state changed" if known is None or known.state != endpoint.state else "reason changed"
    worse = bool(reason) or endpoint.state not in REPORTING or endpoint.state is State.NO_PROGRESS
    return Change(message, worse, facts)
