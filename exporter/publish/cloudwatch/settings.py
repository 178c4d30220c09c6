"""The `cloudwatch` section: what stands in it is checked, and signals are resolved to names by level. Loads nothing heavy."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from collector.naming import CLOUDWATCH_SIGNALS
from collector.signals import SIGNALS, Kind, Level
from exporter import schema
from exporter.units import parse_duration, show_duration

LEVELS = tuple(level for level in Level if level is not Level.EXPORTER)
DEFAULT_LEVELS = tuple(level for level in LEVELS if level is not Level.POD)
SHORT_PERIODS = (1.0, 5.0, 10.0, 30.0)
_KNOWN = {name: row for name, row in SIGNALS.items() if row.kind is not Kind.INFO}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How CloudWatch is fed. `emf` is empty, `stdout`, or the agent's `tcp://host:port`."""

    namespace: str
    period: float
    wanted: Mapping[Level, frozenset[str]]
    max_pods: int
    max_metrics: int
    max_queued_requests: int
    region: str = ""
    endpoint_url: str = ""
    lease_file: str = ""
    emf: str = ""
    emf_log_group: str = ""

    @property
    def resolution(self) -> int:
        """StorageResolution in seconds: 60, or 1 for what CloudWatch calls high resolution."""
        return 60 if self.period >= 60 else 1

    def sample_interval(self, full_interval: float) -> float:
        """Seconds between two samples: as often as everything is read, and at least once a period."""
        return min(max(full_interval, 1.0), self.period)


def check(section: schema.CloudWatch, folder: Path) -> Settings:
    """Settings from the section. ValueError names the key and what would be right."""
    period = _period(section.period)
    _check_namespace(section.namespace)
    for key in ("max_pods", "max_metrics", "max_queued_requests"):
        if (number := getattr(section, key)) < 1:
            raise ValueError(f"cloudwatch.{key}: expected 1 or more, got {number}")
    _check_url("endpoint_url", section.endpoint_url, ("http", "https"))
    if section.emf != "stdout":
        _check_url("emf", section.emf, ("tcp",))
    if section.emf and (section.endpoint_url or section.region):
        raise ValueError("cloudwatch.emf: nothing is sent to the API then, so region and endpoint_url have no meaning")
    if not re.fullmatch(r"[.\-_/#A-Za-z0-9]{1,512}", section.emf_log_group):
        raise ValueError(f"cloudwatch.emf_log_group: expected letters, digits and . - _ / #, got {section.emf_log_group!r}")
    return Settings(
        namespace=section.namespace, period=period, wanted=_wanted(section), max_pods=section.max_pods,
        max_metrics=section.max_metrics, max_queued_requests=section.max_queued_requests, region=section.region,
        endpoint_url=section.endpoint_url, lease_file=os.path.join(folder, section.lease_file) if section.lease_file else "",
        emf=section.emf, emf_log_group=section.emf_log_group,
    )  # fmt: skip


def notes(settings: Settings, full_interval: float) -> Iterator[str]:
    """What is allowed and yet may surprise."""
    if settings.period < full_interval:
        yield (f"cloudwatch.period ({show_duration(settings.period)}) is shorter than scrape.full_interval "
               f"({show_duration(full_interval)}): counters and histograms move only in some of the periods")  # fmt: skip
    if Level.POD in settings.wanted:
        yield (f"cloudwatch.levels: each pod is metrics of its own, billed for every hour in which it lives; at most "
               f"{settings.max_pods} pods an hour are written")  # fmt: skip


def _period(written: object) -> float:
    try:
        period = parse_duration(written)
    except ValueError as error:
        raise ValueError(f"cloudwatch.period: {error}") from error
    if period not in SHORT_PERIODS and (period % 60 or period > 3600):
        raise ValueError(f"cloudwatch.period: expected 1s, 5s, 10s, 30s or whole minutes up to 1h, got {written!r}")
    return period


def _check_namespace(name: str) -> None:
    if not re.fullmatch(r"[.\-_/#:A-Za-z0-9]{1,255}", name) or name.startswith(("AWS/", ":")):
        raise ValueError("cloudwatch.namespace: expected 1 to 255 letters, digits and . - _ / # :, neither beginning with 'AWS/' "
                         f"nor with a colon, got {name!r}")  # fmt: skip


def _check_url(key: str, url: str, schemes: Sequence[str]) -> None:
    if not url:
        return
    if "@" in url.partition("?")[0]:
        raise ValueError(f"cloudwatch.{key}: a URL must not hold a user, a password or any other @")
    try:
        parts = urlsplit(url)
        host = re.fullmatch(r"[\w.:-]+", parts.hostname or "")
        good = parts.scheme in schemes and host and (parts.port or "tcp" not in schemes)
    except ValueError:
        good = False
    if not good:
        example = {"tcp": "stdout, or the agent's socket such as tcp://127.0.0.1:25888"}.get(
            schemes[0], "a URL such as https://host"
        )
        raise ValueError(f"cloudwatch.{key}: expected {example}, got {url!r}")


def _wanted(section: schema.CloudWatch) -> dict[Level, frozenset[str]]:
    levels = [_level(index, name) for index, name in enumerate(section.levels)] or list(DEFAULT_LEVELS)
    names = set(_matching("signals", section.signals)) if section.signals else set(CLOUDWATCH_SIGNALS)
    names -= set(_matching("without", section.without))
    if not names:
        raise ValueError("cloudwatch.without: nothing is left to send")
    wanted = {level: frozenset(name for name in names if level in SIGNALS[name].levels) for level in levels}
    if not any(wanted.values()):
        raise ValueError(f"cloudwatch.signals: none of them is known of a {' or a '.join(levels)}; docs/metrics.md tells of what")
    return wanted


def _level(index: int, name: str) -> Level:
    if name not in LEVELS:
        raise ValueError(f"cloudwatch.levels[{index}]: expected {' or '.join(LEVELS)}, got {name!r}")
    return Level(name)


def _matching(key: str, patterns: Iterable[str]) -> Iterator[str]:
    for index, pattern in enumerate(patterns):
        found = [name for name in _KNOWN if fnmatchcase(name, pattern)]
        if not found:
            near = get_close_matches(pattern, _KNOWN, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else "docs/metrics.md lists them"
            raise ValueError(f"cloudwatch.{key}[{index}]: no signal is called {pattern!r}; {hint}")
        yield from found


DEFAULTS = check(schema.CloudWatch(), Path())
"""What an empty section means."""
