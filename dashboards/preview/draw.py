"""Draws every board with Grafana's components over a real Prometheus that scrapes the demo: one picture each.

    python -m dashboards.preview.draw [--out DIR] [--board UID ...] [--minutes N] [--prometheus URL]

The exit status is 1 when a panel is empty or wrong, 2 when something needed is missing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from dashboards.preview.bundle import bundle
from dashboards.preview.verdict import faults, remarks
from tests.real.commands import BuildError
from tests.real.parts import python_folder, read_catalogue
from tests.real.programs import start_prometheus
from tests.real.running import Running, free_port, running
from tests.real.test_boards import SILENT, targets, unfed

ROOT = Path(__file__).parents[2]
BOARDS = ROOT / "dashboards" / "generated"
NEEDED = ("prometheus", "chromium", "playwright")
SCRAPE_SECONDS = 5
"""What the data source is told; Prometheus scrapes every second here, and shows less noise than that."""
VIEWS = {"": (1600, {}), "-open": (1600, {"open": "1"}), "-narrow": (1000, {"open": "1"})}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws what the command line asks for, prints what is wrong, and returns the exit status."""
    options = _parse(arguments)
    if missing := list(_missing()):
        print("\n".join(missing), file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with _store(options) as store:
        try:
            page = bundle()
        except BuildError as error:
            print(f"the preview cannot be built: {error}", file=sys.stderr)
            return 2
        _wait_for_history(options)
        with _served(page) as base:
            shots = _drawn(options, base=base, store=store)
    silent = {uid: declared(json.loads((BOARDS / f"{uid}.json").read_text(encoding="utf-8"))) for uid in options.board}
    wrong = [fault for shot in shots for fault in faults(Path(shot["picture"]).stem, shot, silent[shot["board"]])]
    for remark in remarks(shots):
        print(f"Prometheus remarks: {remark}", file=sys.stderr)
    print("\n".join(wrong) or f"nothing is empty or wrong; pictures in {options.out}")
    return 1 if wrong else 0


def _missing() -> Iterator[str]:
    for part in map(read_catalogue().part, NEEDED):
        if part.program is None or not part.program.is_file():
            yield f"{part.name} is missing: {part.install}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = sorted(path.stem for path in BOARDS.glob("*.json"))
    parser = argparse.ArgumentParser(description="Draw the boards with Grafana's components over a real Prometheus.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "preview", help="folder of the pictures")
    parser.add_argument("--board", nargs="+", choices=known, default=known, metavar="UID", help=f"some of: {', '.join(known)}")
    parser.add_argument(
        "--minutes", type=int, default=11, help="how much the pictures span; each fault of the demo comes every ten"
    )
    parser.add_argument("--prometheus", metavar="URL", help="draw what this one has instead of starting the demo")
    options = parser.parse_args(arguments)
    options.began = time.monotonic()
    return options


@contextmanager
def _store(options: argparse.Namespace) -> Iterator[str]:
    """URL of a Prometheus with history: the one named, or one of our own that scrapes the demo while it runs."""
    if options.prometheus:
        yield options.prometheus.rstrip("/")
        return
    with tempfile.TemporaryDirectory() as folder, _demo(Path(folder)) as demo:
        job = {"job_name": "llm-fleet", "honor_labels": True, "static_configs": [{"targets": [demo.address]}]}
        with start_prometheus("3", [job], Path(folder)) as prometheus:
            yield prometheus.url


@contextmanager
def _demo(folder: Path) -> Iterator[Running]:
    port = free_port()
    command = [sys.executable, "-m", "exporter", "demo", "--listen", f"127.0.0.1:{port}"]
    with running(command, url=f"http://127.0.0.1:{port}", ready="/readyz", log=folder / "demo.log") as demo:
        yield demo


def _wait_for_history(options: argparse.Namespace) -> None:
    missing = 0.0 if options.prometheus else options.began + 60 * options.minutes - time.monotonic()
    if missing > 0:
        print(f"Prometheus gathers history for another {missing / 60:.0f} min", file=sys.stderr, flush=True)
        time.sleep(missing)


class _Quiet(SimpleHTTPRequestHandler):
    """Files of the page; the boards under `boards/`."""

    def translate_path(self, path: str) -> str:
        if path.startswith("/boards/"):
            return str(BOARDS / Path(path.partition("?")[0]).name)
        return super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        """Nothing: the browser's report names what it missed."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes a page hangs up in the middle of its last files: nothing to tell."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def _served(page: Path) -> Iterator[str]:
    with _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(page))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _drawn(options: argparse.Namespace, *, base: str, store: str) -> list[dict[str, Any]]:
    """Takes the pictures: the shots with what became of them."""
    asked = {"prometheus": store, "scrape": SCRAPE_SECONDS, "from": f"now-{options.minutes}m", "to": "now"}
    return _taken(
        [
            {
                "board": uid,
                "url": f"{base}/?{urlencode({'board': uid, **asked, **more})}",
                "width": width,
                "picture": str(options.out / f"{uid}{ending}.png"),
            }
            for uid in options.board
            for ending, (width, more) in VIEWS.items()
        ]
    )


def declared(board: Mapping[str, Any]) -> set[str]:
    """Titles of panels that may be empty: they tell why themselves, or ask for what the demo has not."""
    shown = [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", ()))]
    queried = [panel for panel in shown if panel.get("targets")]
    return {
        panel["title"]
        for panel in queried
        if (board["uid"], panel["title"]) in SILENT or all(unfed(expression) for _, expression in targets({"panels": [panel]}))
    }


def _taken(shots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    catalogue = read_catalogue()
    command = [
        str(python_folder() / "bin" / "python"),
        str(Path(__file__).with_name("shoot.py")),
        str(catalogue.part("chromium").program),
    ]
    done = subprocess.run(command, input=json.dumps(shots), stdout=subprocess.PIPE, text=True, check=True)
    taken: list[dict[str, Any]] = json.loads(done.stdout)
    return taken


if __name__ == "__main__":
    sys.exit(main())
