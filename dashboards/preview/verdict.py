"""What a drawn board's report says against it. Pure: reports in, sentences out."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

Report = Mapping[str, Any]


def faults(uid: str, shot: Report, allowed: Collection[str] = ()) -> Iterator[str]:
    """One sentence for each fault of a picture; `allowed` are titles of panels that may be empty."""
    report = shot["report"]
    if report is None:
        yield f"{uid}: not drawn: {'; '.join(shot['complaints'])}"
        return
    yield from (f"{uid}: {panel['title']}: {fault}" for panel in report["panels"] for fault in _of_panel(panel, allowed))
    yield from (f"{uid}: a drawing broke: {fault}" for fault in report["faults"])
    yield from (f"{uid}: {asked['query']}: {'; '.join(asked['said'])}" for asked in report["asked"])
    yield from (f"{uid}: nothing to choose for {choice['name']}" for choice in report["choices"] if not choice["values"])
    yield from (f"{uid}: the page asked for {url}" for url in shot["abroad"])


def _of_panel(panel: Report, allowed: Collection[str]) -> Iterator[str]:
    yield from panel["errors"]
    if not panel["known"]:
        yield f"the preview cannot draw a {panel['type']}"
    elif panel["isEmpty"] and not panel["errors"] and panel["title"] not in allowed:
        yield "no data"
