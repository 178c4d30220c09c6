"""What an engine's counter gained between two looks at it. Pure.

The rules: a counter that fell began anew; one that is first met counts only when it is known to have begun under our eyes;
what came about in a gap, or before the first look, is not published but handed back as discarded.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from collector.ladders import RawHistogram, difference, fell
from collector.reasons import DiscardReason

Amount = TypeVar("Amount")


@dataclass(frozen=True, slots=True)
class Look:
    """Circumstances of a sample.

    `born`: the process is known to be younger than our last look. `watched`: the last covering look at the target lacked
    the series. `gap`: the last look is too long ago to publish what came since. `unstable`: several servers seem to answer
    behind one address, so that no two samples belong together.
    """

    born: bool = False
    watched: bool = False
    gap: bool = False
    unstable: bool = False


@dataclass(frozen=True, slots=True)
class Gain(Generic[Amount]):
    """What a sample adds: an amount, and why it is not to be published, if so."""

    amount: Amount
    discarded: DiscardReason | None


def _verdict(look: Look, *, met: bool) -> DiscardReason | None:
    if look.unstable:
        return DiscardReason.UNSTABLE
    if look.gap:
        return DiscardReason.GAP
    return None if met or look.born or look.watched else DiscardReason.FIRST_SAMPLE


def count_gain(before: int | None, now: int, look: Look) -> Gain[int]:
    """Gain of a plain counter; `before` None when the series was never met."""
    fresh = before is None or look.born or now < before
    return Gain(now if fresh or before is None else now - before, _verdict(look, met=before is not None))


def histogram_gain(before: RawHistogram | None, now: RawHistogram, look: Look) -> Gain[RawHistogram]:
    """Gain of a histogram series; all its buckets begin anew together.

    Other bounds without a new process are a page that lost some: nothing tells what came since, so it is a first sample.
    """
    met = before is not None and before.bounds == now.bounds
    fresh = before is None or look.born or fell(before, now)
    changed = Look(born=look.born, gap=look.gap, unstable=look.unstable) if before is not None and not met else look
    return Gain(now if fresh or before is None else difference(before, now), _verdict(changed, met=met))
