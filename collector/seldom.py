"""Tracebacks, but not a flood of them: one a minute for each place in the code where something breaks."""

import traceback
from dataclasses import dataclass, field

_PLACES_AT_MOST = 256


@dataclass(slots=True)
class Seldom:
    """Says whether a fault is worth its traceback now. `seconds`: how long the same place stays quiet."""

    seconds: float = 60.0
    _told: dict[tuple[str, str, int], float] = field(default_factory=dict)

    def worth(self, error: BaseException, now: float) -> bool:
        frames = traceback.extract_tb(error.__traceback__)
        place = (type(error).__name__, frames[-1].filename, frames[-1].lineno or 0) if frames else (type(error).__name__, "", 0)
        if (last := self._told.get(place)) is not None and now - last < self.seconds:
            return False
        if len(self._told) >= _PLACES_AT_MOST:
            self._told.clear()
        self._told[place] = now
        return True
