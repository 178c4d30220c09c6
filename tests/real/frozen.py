"""The demo's metrics page, held still: served again and again, and compared with what a scraper made of it."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isclose
from urllib.parse import parse_qs, urlsplit

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.publish.prometheus import Format, choose_format

Series = frozenset[tuple[str, str]]
Samples = dict[Series, float]
ONLY_TEXT = "/only/text"
"""The path that has text whatever is asked for; all others have what the exporter would choose."""
FOREIGN_LABELS = frozenset({"job", "instance"})
"""What a scraper adds to every series; the page has neither."""


@dataclass(frozen=True, slots=True)
class FrozenPage:
    """One page in both formats at `address`; `answered` keeps which one each job got."""

    address: str
    pages: Mapping[Format, bytes]
    answered: dict[str, Format] = field(default_factory=dict)

    def samples(self, form: Format) -> Samples:
        """What the page says, read by the official Python parser."""
        read = read_openmetrics if form is Format.OPENMETRICS else read_text
        families = read(self.pages[form].decode())
        return collect((sample.name, sample.labels, sample.value) for family in families for sample in family.samples)

    def job(self, name: str, **more: object) -> dict[str, object]:
        """A scrape job on this page."""
        return {"job_name": name, "honor_labels": True, "params": {"job": [name]},
                "static_configs": [{"targets": [self.address]}], **more}  # fmt: skip


def collect(samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Samples:
    """Samples by name and labels; two of one series are an error.

    The value of `le` is a number: Prometheus 3 writes "1" as "1.0".
    """
    found: Samples = {}
    for name, labels, value in samples:
        kept = {key: text for key, text in labels.items() if text and key not in FOREIGN_LABELS}
        if "le" in kept:
            kept["le"] = str(float(kept["le"]))
        series = frozenset({**kept, "__name__": name}.items())
        assert series not in found, f"twice: {name} {labels}"
        found[series] = float(value)
    return found


def differences(page: Samples, stored: Samples, *, tolerance: float = 0.0) -> list[str]:
    """Series that one side lacks or that have another value, in words; `tolerance` is relative."""
    told = [f"lost: {dict(series)}" for series in page.keys() - stored.keys()]
    told += [f"invented: {dict(series)}" for series in stored.keys() - page.keys()]
    for series in page.keys() & stored.keys():
        if not isclose(page[series], stored[series], rel_tol=tolerance):
            told.append(f"{dict(series)}: {page[series]!r} became {stored[series]!r}")
    return sorted(told)


@contextmanager
def serve(pages: Mapping[Format, bytes]) -> Iterator[FrozenPage]:
    """Serve the page on a free loopback port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            form = Format.TEXT if address.path == ONLY_TEXT else choose_format(self.headers.get("Accept", ""))
            for job in parse_qs(address.query).get("job", []):
                frozen.answered[job] = form
            self.send_response(200)
            self.send_header("Content-Type", form.value)
            self.send_header("Content-Length", str(len(pages[form])))
            self.end_headers()
            self.wfile.write(pages[form])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        frozen = FrozenPage(f"127.0.0.1:{server.server_port}", pages)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield frozen
        finally:
            server.shutdown()
            thread.join()
