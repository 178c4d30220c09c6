"""The end of the process: asked for by a signal, orderly if that is possible, certain in any case."""

import asyncio
import logging
import os
import signal
import threading
from types import FrameType

from exporter.log import say

_log = logging.getLogger(__name__)
_NUMBERS = (signal.SIGTERM, signal.SIGINT)
LATEST_AFTER_SECONDS = 4.0


def stop_on_signal() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; a second one ends the process at once.

    What hangs beyond the loop's reach (a thread in a dead file system, a reader who does not read) is left behind in time.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heed(_number: int, _frame: FrameType | None) -> None:
        for number in _NUMBERS:
            signal.signal(number, signal.SIG_DFL)
        watchdog = threading.Timer(LATEST_AFTER_SECONDS, _leave)
        watchdog.daemon = True
        watchdog.start()
        loop.call_soon_threadsafe(stop.set)

    for number in _NUMBERS:
        signal.signal(number, heed)
    return stop


def _leave() -> None:
    say(_log, logging.WARNING, "something did not end in time and was left behind")
    os._exit(0)
