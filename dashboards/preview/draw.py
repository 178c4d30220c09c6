"""Draws every board with Grafana's components over a real Prometheus that scrapes the demo.

    python -m dashboards.preview.draw [--out DIR] [--board UID ...] [--minutes N] [--prometheus URL] [--for-docs]

The exit status is 1 when a panel is empty or wrong, 2 when something needed is missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from dashboards.preview.bundle import bundle
from dashboards.preview.history import Store, gathered
from dashboards.preview.page import BOARDS, served
from dashboards.preview.verdict import faults, remarks
from tests.real.commands import BuildError
from tests.real.parts import python_folder, read_catalogue
from tests.real.test_boards import SILENT, targets, unfed

ROOT = Path(__file__).parents[2]
NEEDED = ("prometheus", "chromium", "playwright")
SCRAPE_SECONDS = 5
"""What the data source is told; our own Prometheus scrapes every second, and so shows rates over 20 s and not 4."""

VIEWS = {"": (1600, {}), "-open": (1600, {"open": "1"}), "-narrow": (1000, {"open": "1"})}
DOCS_WIDTH = 1400
DOCS_CHOICES = {
    "llm-pool": {"var-pool": "llama-70b"},
    "llm-pod": {"var-cluster": "demo", "var-namespace": "serving", "var-pool": "llama-70b", "var-pod": "llama-70b-a100-0"},
    "llm-adapters": {"var-pool": "assistants"},
}
"""As one comes to these boards, by a link from another."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws what the command line asks for, prints what is wrong, and returns the exit status."""
    options = _parse(arguments)
    if missing := list(_missing()):
        print("\n".join(missing), file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    running = nullcontext(Store(options.prometheus, ready_at=0.0)) if options.prometheus else gathered(options.minutes)
    with running as store:
        try:
            page = bundle()
        except BuildError as error:
            print(f"the preview cannot be built: {error}", file=sys.stderr)
            return 2
        store.wait()
        with served(page) as base:
            shots = _taken(list(_shots(options, base=base, store=store)))
    return _told(shots, options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = sorted(path.stem for path in BOARDS.glob("*.json"))
    parser = argparse.ArgumentParser(description="Draw the boards with Grafana's components over a real Prometheus.")
    parser.add_argument("--out", type=Path, help="folder of the pictures: build/preview, or docs/pictures")
    parser.add_argument("--board", nargs="+", choices=known, default=known, metavar="UID", help=f"some of: {', '.join(known)}")
    parser.add_argument(
        "--minutes", type=int, default=11, help="how much the pictures span; each fault of the demo comes every ten"
    )
    parser.add_argument("--prometheus", metavar="URL", help="draw what this one has instead of starting the demo")
    parser.add_argument("--for-docs", action="store_true", help="one small picture a board, with one pool or pod chosen")
    options = parser.parse_args(arguments)
    options.out = options.out or ROOT / ("docs/pictures" if options.for_docs else "build/preview")
    return options


def _missing() -> Iterator[str]:
    for part in map(read_catalogue().part, NEEDED):
        if part.program is None or not part.program.is_file():
            yield f"{part.name} is missing: {part.install}"


def _shots(options: argparse.Namespace, *, base: str, store: Store) -> Iterator[dict[str, Any]]:
    asked = {"prometheus": store.url, "scrape": SCRAPE_SECONDS, "from": f"now-{options.minutes}m", "to": "now"}
    for uid in options.board:
        views = {"": (DOCS_WIDTH, DOCS_CHOICES.get(uid, {}))} if options.for_docs else VIEWS
        for ending, (width, more) in views.items():
            url = f"{base}/?{urlencode({'board': uid, **asked, **more})}"
            yield {"board": uid, "url": url, "width": width, "picture": str(options.out / f"{uid}{ending}.png")}


def _taken(shots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The shots with what became of them."""
    shoot, chromium = Path(__file__).with_name("shoot.py"), read_catalogue().part("chromium").program
    command = [str(python_folder() / "bin" / "python"), str(shoot), str(chromium)]
    done = subprocess.run(command, input=json.dumps(shots), stdout=subprocess.PIPE, text=True, check=True)
    taken: list[dict[str, Any]] = json.loads(done.stdout)
    return taken


def _told(shots: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> int:
    for remark in remarks(shots):
        print(f"Prometheus remarks: {remark}", file=sys.stderr)
    silent = {uid: declared(json.loads((BOARDS / f"{uid}.json").read_text(encoding="utf-8"))) for uid in options.board}
    wrong = [fault for shot in shots for fault in faults(Path(shot["picture"]).stem, shot, silent[shot["board"]])]
    print("\n".join(wrong) or f"nothing is empty or wrong; pictures in {options.out}")
    if options.for_docs and shutil.which("pngquant"):
        pictures = [shot["picture"] for shot in shots]
        subprocess.run(["pngquant", "--force", "--skip-if-larger", "--strip", "--ext", ".png", "128", *pictures], check=False)
    return 1 if wrong else 0


def declared(board: Mapping[str, Any]) -> set[str]:
    """Titles of panels that may be empty: they tell why themselves, or ask for what the demo has not."""
    shown = [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", ()))]
    return {
        panel["title"]
        for panel in shown
        if panel.get("targets")
        and ((board["uid"], panel["title"]) in SILENT or all(unfed(expression) for _, expression in targets({"panels": [panel]})))
    }


if __name__ == "__main__":
    sys.exit(main())
