"""The file in which users set objectives, windows and thresholds; each mistake is named by file, key and what would be right."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from alerts.durations import seconds_of
from alerts.keys import SECTIONS, File, Override, Selector, Window
from alerts.ladders import ENGINES, check_bound
from alerts.model import alerts_of
from alerts.promql import check_pattern
from alerts.rules import GROUPS
from alerts.slo import DEFAULTS, BurnWindow, Change, LatencyObjective, Objective, Settings, Thresholds
from collector.naming import LEVEL_LABELS, find
from collector.signals import Level
from collector.strict_yaml import explain, nearest, read_yaml


class SettingsError(Exception):
    """The file cannot be used; the message names the file, the key and what would be right."""


def load_settings(path: Path) -> Settings:
    """Read and check a file. SettingsError if it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not a text file in UTF-8: {error}") from error
    return parse_settings(text, name=str(path))


def parse_settings(text: str, *, name: str = "settings") -> Settings:
    """Check a text; an empty one is the defaults."""
    try:
        data = read_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{name}: not valid YAML: {error}") from error
    try:
        return _build(msgspec.convert({} if data is None else data, File))
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name}: {explain(str(error), SECTIONS)}") from error
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from error


def _build(file: File) -> Settings:
    if not file.engines:
        raise ValueError(f"engines: expected at least one of {', '.join(ENGINES)}")
    for engine in file.engines:
        if engine not in ENGINES:
            raise ValueError(f"engines: {engine!r} is none of {', '.join(ENGINES)}; {nearest(engine, tuple(ENGINES))}")
    settings = Settings(
        objectives=tuple(_objectives(file)),
        windows=DEFAULTS.windows if file.windows is None else tuple(map(_window, range(len(file.windows)), file.windows)),
        budget_window=_at("budget_window", seconds_of, file.budget_window) and file.budget_window,
        thresholds=_thresholds(file),
        selector=_selector(file.selector),
        exporter_job=_named("exporter_job", file.exporter_job),
        changes={alert: _change(alert, given) for alert, given in file.alerts.items()},
    )
    _check_windows(settings)
    return settings


def _at(key: str, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _named(key: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"{key}: expected a name, got an empty text")
    return text


def _objectives(file: File) -> list[Objective]:
    found = []
    for default in DEFAULTS.objectives:
        asked = getattr(file.objectives, default.slug)
        if asked is not False:
            key = f"objectives.{default.slug}"
            found.append(_objective(key, default, {} if asked is True else _given(asked), file.engines))
    return found


def _given(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name in struct.__struct_fields__ if (value := getattr(struct, name)) is not None}


def _objective(key: str, default: Objective, given: Mapping[str, Any], engines: tuple[str, ...]) -> Objective:
    more = dict(given)
    if "objective" in more and not 0 < round(more["objective"], 9) < 1:  # the budget has nine places
        raise ValueError(f"{key}.objective: expected a share between 0 and 1 such as 0.99, got {more['objective']:.15g}")
    if more.get("minimum_events", 1) < 1:
        raise ValueError(f"{key}.minimum_events: expected 1 or more, got {more['minimum_events']}")
    if not isinstance(default, LatencyObjective):
        return replace(default, **more)
    text = more.pop("bound", None)
    bound = default.bound_seconds if text is None else _at(f"{key}.bound", _latency_seconds, text)
    _at(f"{key}.bound", lambda _: check_bound(default.signal, bound, engines), None)
    return replace(default, bound_seconds=bound, **more)


def _latency_seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)", text)
    if match is None:
        raise ValueError(f"expected a latency such as 100ms, 2.5s or 1m, got {text!r}")
    return float(f"{float(match[1]) * {'ms': 0.001, 's': 1.0, 'm': 60.0}[match[2]]:.9g}")


def _window(index: int, window: Window) -> BurnWindow:
    key = f"windows[{index}]"
    if not 0 < window.factor < math.inf:
        raise ValueError(f"{key}.factor: expected a number above 0, got {window.factor:g}")
    for name in ("long", "short"):
        _at(f"{key}.{name}", seconds_of, getattr(window, name))
    pending = _at(f"{key}.for", _wait, window.pending)
    return _at(key, lambda _: BurnWindow(window.long, window.short, window.factor, window.severity, pending), None)  # type: ignore[no-any-return]


def _wait(text: str) -> int:
    return 0 if text in ("0", "0s") else seconds_of(text)


def _check_windows(settings: Settings) -> None:
    if not settings.windows:
        raise ValueError("windows: expected at least one; leave the key out for the usual four")
    pairs = [(pair.long, pair.short) for pair in settings.windows]
    for index, pair in enumerate(settings.windows):
        if pairs.index((pair.long, pair.short)) < index:
            raise ValueError(f"windows[{index}]: {pair.long} with {pair.short} stands there already")
        if seconds_of(pair.long) > seconds_of(settings.budget_window):
            raise ValueError(f"windows[{index}].long: {pair.long} is longer than budget_window, {settings.budget_window}")
        for objective in settings.objectives:
            if pair.factor * objective.budget >= 1:
                budget = f"the budget of {objective.slug}, {objective.budget:g}"
                raise ValueError(f"windows[{index}].factor: {pair.factor:g} times {budget}, is 1 or more: it could never fire")


def _thresholds(file: File) -> Thresholds:
    given: dict[str, Any] = {name: getattr(file.thresholds, name) for name in file.thresholds.__struct_fields__}  # type: ignore[attr-defined]
    for name, value in given.items():
        key, open_ended = f"thresholds.{name}", name in ("saturation_ratio", "imbalance_ratio")
        if not 0 < value < math.inf:
            raise ValueError(f"{key}: expected a number above 0, got {value:g}")
        if name.endswith("_ratio") and not open_ended and value > 1:
            raise ValueError(f"{key}: expected a share of at most 1, got {value:g}")
    bounds = find("scrape_duration_seconds", Level.EXPORTER).ladder
    if given["slow_read_seconds"] not in bounds:
        raise ValueError(f"thresholds.slow_read_seconds: expected one of {', '.join(f'{bound:g}' for bound in bounds)}")
    return Thresholds(**given)


def _selector(selector: Selector) -> dict[str, str]:
    found = {label: text for label in LEVEL_LABELS[Level.POOL] if (text := getattr(selector, label))}
    for label, text in found.items():
        if text.startswith(("=~", "!~")):
            _at(f"selector.{label}", check_pattern, text[2:])
    return found


def _change(alert: str, given: Any) -> Change:
    known = tuple(dict.fromkeys(rule.name for rule in alerts_of(GROUPS)))
    if alert not in known:
        raise ValueError(f"alerts.{alert}: there is no such alert; {nearest(alert, known)}")
    override = _override(alert, given)
    if isinstance(override, bool):
        return Change(disabled=not override)
    waits = {name: None if (text := getattr(override, name)) is None else _at(f"alerts.{alert}.{key}", _wait, text)
             for name, key in (("pending", "for"), ("keep_firing", "keep_firing_for"))}  # fmt: skip
    return Change(pending_seconds=waits["pending"], keep_firing_seconds=waits["keep_firing"], severity=override.severity)


def _override(alert: str, given: Any) -> Override | bool:
    try:
        return msgspec.convert(given, Override | bool)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        told = explain(f"{what} - at `$.alerts[{alert}]{where or '`'}", SECTIONS)
        raise ValueError(told.replace(f"alerts[{alert}]", f"alerts.{alert}", 1)) from error
