"""Numbers as integers of 2**-96, so that adding many is exact and in any order the same."""

from math import inf

_SCALE = 1 << 96
_WHOLE_FROM = float(1 << 200)
"""From here on a float has no fraction, and times the scale it may be beyond what a float can hold."""


def to_fixed(value: float) -> int:
    """A finite float as an integer of 2**-96; exact for magnitudes from 2**-44 (6e-14) up."""
    return round(value * _SCALE) if abs(value) < _WHOLE_FROM else int(value) * _SCALE


def from_fixed(fixed: int, divisor: int = 1) -> float:
    """The float nearest to `fixed / divisor`; infinite where none can hold it."""
    try:
        return fixed / (_SCALE * divisor)
    except OverflowError:
        return inf if fixed > 0 else -inf
