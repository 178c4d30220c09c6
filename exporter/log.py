"""Structured logs on stderr: `key=value` text, or one JSON object a line."""

import json
import logging
import sys
import time
from typing import Any

_FACTS = "facts"


def set_up(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send all loggers to stderr in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Text())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # A request that is no HTTP is its client's trouble; what breaks in an answer of ours, exporter.server logs itself.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    # Tells at each start where it found credentials.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    # Warns at each attempt, with a trace; what came of the attempt, its sink says once.
    logging.getLogger("botocore.credentials").setLevel(logging.ERROR)
    logging.captureWarnings(True)


def say(logger: logging.Logger, level: int, message: str, **facts: Any) -> None:
    """One event with its facts."""
    logger.log(level, message, extra={_FACTS: facts})


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={_quoted(value)}" for name, value in getattr(record, _FACTS, {}).items())
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return f"{_time(record)} {record.levelname.lower()} {record.getMessage()}{facts}{trace}"


def _quoted(value: Any) -> str:
    text = str(value)
    plain = text and text.isprintable() and not set(text) & set(' "=')
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage(),
                 **getattr(record, _FACTS, {})}  # fmt: skip
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)
