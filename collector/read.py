"""The seam between bytes and signals: target, lane, now to a reading or a failure."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from collector.clock import Clock, Instant
from collector.engines import ENGINES
from collector.engines.spec import Engine, Lookup
from collector.extract import extract
from collector.model import Failure, Reading, Target
from collector.page import Page, read_page
from collector.reasons import FailureReason, ReadError
from collector.signals import COVERS, Lane

_log = logging.getLogger(__name__)
_WANTED = frozenset[str]().union(*(engine.wanted() for engine in ENGINES.values()))


@dataclass(frozen=True, slots=True)
class Body:
    """What a GET brought back."""

    content: bytes
    content_type: str
    framed: bool = True
    """False where the length of the answer was not told, so that it may have been cut off."""


class Fetch(Protocol):
    """One GET of the target's page, or of `path` on the same server; ReadError says why not."""

    def __call__(self, target: Target, path: str = "") -> Awaitable[Body]: ...


Read = Callable[[Target, Lane], Awaitable[Reading | Failure]]
"""The seam itself, as the scraping loop sees it."""


async def read(target: Target, lane: Lane, *, fetch: Fetch, clock: Clock) -> Reading | Failure:
    """Fetch and understand one page; never raises for what a target does."""
    begun = clock.now()
    try:
        body = await fetch(target)
        at = clock.now()
        return understand(target, lane, body, at=at, duration_seconds=at.mono - begun.mono)
    except ReadError as error:
        why = error
    except Exception as error:
        _log.exception("page broke the reader: target=%s", target.url)
        why = ReadError(FailureReason.OTHER, f"the page broke the reader: {type(error).__name__}: {error}")
    at = clock.now()
    return Failure(target=target, lane=lane, at=at, reason=why.reason, detail=why.detail, duration_seconds=at.mono - begun.mono)


def understand(target: Target, lane: Lane, body: Body, *, at: Instant, duration_seconds: float = 0.0) -> Reading:
    """A page's reading; ReadError when it is no metrics page or holds nothing of a known engine."""
    page = read_page(body.content, body.content_type, wanted=_WANTED)
    engine, lookup = recognise(page, declared=target.engine)
    values = extract(engine, lookup, COVERS[lane])
    return Reading(target=target, lane=lane, at=at, engine=engine.name, rows={target: values}, duration_seconds=duration_seconds,
                   oddities=dict(page.oddities), unknown_families=engine.unknown(page), whole=body.framed)  # fmt: skip


def recognise(page: Page, *, declared: str = "") -> tuple[Engine, Lookup]:
    """The engine whose families are on the page: the declared one, else the first that finds its own."""
    candidates = [ENGINES[declared]] if declared in ENGINES else list(ENGINES.values())
    for engine in candidates:
        if (lookup := engine.look(page)) is not None:
            return engine, lookup
    names = ", ".join(engine.name for engine in candidates)
    raise ReadError(FailureReason.NO_KNOWN_FAMILIES, f"a metrics page without any family of {names}")
