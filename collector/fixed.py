"""Numbers as integers of 2**-96, so that adding many is exact and in any order the same."""

_SCALE = 1 << 96


def to_fixed(value: float) -> int:
    """A finite float as an integer of 2**-96; exact for magnitudes from 2**-44 (6e-14) up."""
    return round(value * _SCALE)


def from_fixed(fixed: int, divisor: int = 1) -> float:
    """The float nearest to `fixed / divisor`."""
    return fixed / (_SCALE * divisor)
