"""One page as a picker would read it: field by field what it takes, from which series, and what is wrong with that."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from collector.clock import Instant
from collector.model import Target
from collector.page import Page, read_page
from collector.read import Body
from collector.reasons import ReadError
from exporter.explain import understand_whole
from exporter.picker.dialects import DIALECTS, OWN, Dialect
from exporter.picker.reads import Read, page_faults, read_newest, read_number

_POLLS_PER_SECOND = 20
_NOW = Instant(0.0, 0.0)
_SEVERAL_PORTS = ("the pool has {} target ports, each an endpoint of its own to the picker, so all of them would show the sum of "
                  "the pod: run no sidecar for it, and let the picker read each port")  # fmt: skip
_KEEPS = "the picker keeps what it had, 0 at first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One field of the picker. `grade`: `ok`, `note`, or `wrong`, which makes it choose badly or log an error at each poll."""

    field: str
    family: str
    reads: str
    grade: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All fields of one page."""

    url: str
    engine: str
    dialect: str
    page_bytes: int
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        return all(one.grade != "wrong" for one in self.findings)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "good": self.good}


def lint(target: Target, body: Body, *, engine_type: str = "", ports: Sequence[int] = ()) -> Verdict:
    """What a picker makes of a page, by the pod's engine label (none = vllm) and the pool's ports. ReadError for no page."""
    page = read_page(body.content, body.content_type)
    dialect = DIALECTS.get(engine_type or "vllm", DIALECTS["vllm"])
    engine, ours = _ours(target, body)
    own = f"{OWN}state" in page.samples
    findings = [
        *_whole(body, own=own, ports=ports), *_label(engine_type, engine),
        _number("queue", dialect.waiting, page, ours.get("requests_waiting"), "an empty queue, the best there is"),
        _number("running", dialect.running, page, ours.get("requests_running"), "an idle pod"),
        _usage(dialect, page, ours),
        *_adapters(dialect, page), *_cache(dialect, page),
    ]  # fmt: skip
    return Verdict(url=target.url, engine=engine, dialect=engine_type if engine_type in DIALECTS else "vllm",
                   page_bytes=len(body.content), findings=tuple(findings))  # fmt: skip


def _ours(target: Target, body: Body) -> tuple[str, Mapping[str, float]]:
    try:
        reading = understand_whole(target, body, _NOW)
    except ReadError:
        return "", {}
    return reading.engine, reading.rows[target].gauges


def _whole(body: Body, *, own: bool, ports: Sequence[int]) -> Iterable[Finding]:
    for fault in page_faults(body.content):
        yield Finding(field="page", family="", reads="nothing", grade="wrong", why=fault)
    if own and len(ports) > 1:
        yield Finding(field="page", family="", reads="one page for all ports", grade="wrong",
                      why=_SEVERAL_PORTS.format(len(ports)))  # fmt: skip
    if not own:
        kib = len(body.content) * _POLLS_PER_SECOND / 1024
        yield Finding(field="page", family="", reads=f"{len(body.content):,} bytes", grade="note",
                      why=f"{kib:,.0f} KiB/s from this pod at a poll every 50 ms; a sidecar's page has about 2 KiB")  # fmt: skip


def _label(engine_type: str, engine: str) -> Iterable[Finding]:
    if engine_type and engine_type not in DIALECTS:
        yield Finding(field="engine label", family="", reads="as vllm", grade="note",
                      why=f"the picker has no mapping for {engine_type!r}, unless engineConfigs has one")  # fmt: skip
    elif engine and engine != (engine_type or "vllm") and engine in DIALECTS:
        yield Finding(field="engine label", family="", reads=f"as {engine_type or 'vllm'}", grade="wrong",
                      why=f"the page is of {engine}: label the pod {engine!r}")  # fmt: skip
    elif engine and engine not in DIALECTS:
        why = f"no picker knows {engine} by itself: take the mapping of 'render picker-config', or a sidecar"
        yield Finding(field="engine label", family="", reads=f"as {engine_type or 'vllm'}", grade="wrong", why=why)


def _number(field: str, spec: str, page: Page, ours: float | None, instead: str) -> Finding:
    read = read_number(page, spec)
    if read.value is None:
        return Finding(field=field, family=read.family, reads="nothing", grade="wrong",
                       why=f"{read.fault}: an error at each poll, and {_KEEPS}: {instead}")  # fmt: skip
    if read.fault:
        return Finding(field=field, family=read.family, reads=_shown(read.value), grade="wrong", why=read.fault)
    if ours is not None and read.value != ours:
        why = f"the first of {read.series} series ({_labels(read)}); the pod has {_shown(ours)}"
        return Finding(field=field, family=read.family, reads=_shown(read.value), grade="wrong", why=why)
    why = f"one of {read.series} series, equal by chance" if read.series > 1 else ""
    return Finding(field=field, family=read.family, reads=_shown(read.value), grade="note" if why else "ok", why=why)


def _usage(dialect: Dialect, page: Page, ours: Mapping[str, float]) -> Finding:
    found = _number("kv cache", dialect.kv_usage, page, ours.get("kv_cache_usage_max_ratio"), "an empty cache, the best score")
    read = read_number(page, dialect.kv_usage)
    if read.value is not None and not 0 <= read.value <= 1:
        return Finding(field=found.field, family=found.family, reads=found.reads, grade="wrong", why="not a share from 0 to 1")
    if read.labels and "stand_in" in read.labels:
        return Finding(field=found.field, family=found.family, reads=found.reads, grade="note",
                       why="a stand-in: the reserved share of the token budget, an upper bound of use")  # fmt: skip
    return found


def _adapters(dialect: Dialect, page: Page) -> Iterable[Finding]:
    if not dialect.adapters:
        return
    read = read_newest(page, dialect.adapters)
    if read.labels is None:
        why = "not on the page (LoRA is off): an error at each poll up to 1.5, silent from router 0.9 on"
        yield Finding(field="adapters", family=read.family, reads="nothing", grade="note", why=why)
        return
    running, waiting = (read.labels.get(f"{what}_lora_adapters", "") for what in ("running", "waiting"))
    alike = running and set(running.split(",")) == set(waiting.split(","))
    shown = f"running {running or 'none'}, waiting {waiting or 'none'}, max {read.labels.get('max_lora') or 'not told'}"
    why = "both labels are the same, so they tell activity: an idle adapter looks absent" if alike else ""
    yield Finding(field="adapters", family=read.family, reads=shown, grade="note" if alike else "ok", why=why)


def _cache(dialect: Dialect, page: Page) -> Iterable[Finding]:
    if not dialect.cache_info:
        return
    read = read_number(page, dialect.cache_info)
    told = read.labels or {}
    size, blocks = told.get(dialect.block_size_label, ""), told.get(dialect.blocks_label, "")
    bad = read.labels is None or any(text and not text.isdecimal() for text in (size, blocks))
    why = f"{read.fault or 'not a number'}: an error at each poll; only the prefix index is tuned by it" if bad else ""
    shown = f"block {size or 'not told'}, blocks {blocks or 'not told'}"
    yield Finding(field="cache", family=read.family, reads=shown, grade="note" if bad else "ok", why=why)


def _shown(value: float) -> str:
    return f"{value:.12g}"


def _labels(read: Read) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in (read.labels or {}).items() if name != "model_name") or "no labels"


def as_text(verdict: Verdict) -> list[tuple[str, str]]:
    """Lines for people, each with the name of its style."""
    styles = {"ok": "", "note": "dim", "wrong": "bold"}
    lines = [(f"{verdict.url}: {verdict.engine or 'no known engine'}, read as {verdict.dialect}", "bold")]
    for one in verdict.findings:
        lines.append(
            (f"  {one.grade:6} {one.field:13} {one.reads}" + (f"  ({one.family})" if one.family else ""), styles[one.grade])
        )
        if one.why:
            lines.append((f"         {one.why}", styles[one.grade]))
    return lines
