"""Photographs pages of the preview in headless Chromium. Runs in the environment of the parts from PyPI.

shoot.py CHROMIUM < shots

`shots` is a JSON list of {"url", "width", "picture"} and more; printed is the same list with what became of each shot.
"""

import json
import sys
from typing import Any

from playwright.sync_api import Browser, sync_playwright

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update")
SETTLED_WITHIN_MS = 60_000
CHARTS_APPEAR_MS = 700
TALLEST = 12_000
ICON_NOISE = "LoggerRegistry"


def main(chromium: str) -> None:
    shots = json.load(sys.stdin)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        print(
            json.dumps(
                [{**shot, **taken(browser, url=shot["url"], width=shot["width"], picture=shot["picture"])} for shot in shots]
            )
        )
        browser.close()


def taken(browser: Browser, *, url: str, width: int, picture: str) -> dict[str, Any]:
    """The page's own report, what the browser complained of, and which requests left this machine."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    abroad: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda request: None if request.url.startswith(("http://127.0.0.1", "data:", "blob:")) else abroad.append(request.url),
    )
    page.goto(url, wait_until="load")
    try:
        page.wait_for_function("window.preview?.settled()", timeout=SETTLED_WITHIN_MS)
        page.set_viewport_size({"width": width, "height": min(page.evaluate("window.preview.height()"), TALLEST)})
        page.wait_for_timeout(CHARTS_APPEAR_MS)
        page.wait_for_function("window.preview.settled()", timeout=SETTLED_WITHIN_MS)
        report = page.evaluate("window.preview.report()")
    except Exception as error:
        report = None
        complaints.append(str(error))
    page.screenshot(path=picture)
    page.close()
    return {"report": report, "complaints": [one for one in complaints if ICON_NOISE not in one], "abroad": abroad}


if __name__ == "__main__":
    main(*sys.argv[1:])
