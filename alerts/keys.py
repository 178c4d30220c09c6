"""Every key that may stand in the settings file, with its type; None leaves what ships."""

from dataclasses import MISSING, fields
from typing import Any

import msgspec

from alerts.slo import DEFAULTS, Severity, Thresholds


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Latency(_Strict, frozen=True):
    bound: str | None = None
    objective: float | None = None
    minimum_events: int | None = None


class Availability(_Strict, frozen=True):
    objective: float | None = None
    minimum_events: int | None = None


class Objectives(_Strict, frozen=True):
    ttft: Latency | bool = True
    itl: Latency | bool = True
    e2e: Latency | bool = True
    availability: Availability | bool = True


class Window(_Strict, frozen=True, rename={"pending": "for"}):
    long: str
    short: str
    factor: float
    severity: Severity = Severity.TICKET
    pending: str = "2m"


class Override(_Strict, frozen=True, rename={"pending": "for", "keep_firing": "keep_firing_for"}):
    pending: str | None = None
    keep_firing: str | None = None
    severity: Severity | None = None


Limits = msgspec.defstruct(
    "Limits",
    [(field.name, field.type, field.default) for field in fields(Thresholds) if field.default is not MISSING],
    frozen=True,
    forbid_unknown_fields=True,
)


class Selector(_Strict, frozen=True):
    cluster: str = ""
    namespace: str = ""
    pool: str = ""


class File(_Strict, frozen=True):
    engines: tuple[str, ...] = ("vllm", "sglang")
    selector: Selector = Selector()
    exporter_job: str = DEFAULTS.exporter_job
    objectives: Objectives = Objectives()
    windows: list[Window] | None = None
    budget_window: str = DEFAULTS.budget_window
    thresholds: Limits = Limits()  # type: ignore[valid-type]
    alerts: dict[str, Any] = {}
    """Of Override or bool, read one by one: msgspec does not say under which key of a mapping a mistake stands."""


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": File, "selector": Selector, "objectives": Objectives, "thresholds": Limits, "windows[]": Window, "alerts[]": Override,
    "objectives.ttft": Latency, "objectives.itl": Latency, "objectives.e2e": Latency, "objectives.availability": Availability,
}  # fmt: skip
