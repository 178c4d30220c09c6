"""Opens a page in headless Chromium and prints as JSON what a reader gets. Runs in the environment of the parts from PyPI.

browser.py CHROMIUM URL SCREENSHOT
"""

import json
import sys

from playwright.sync_api import sync_playwright

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update")
RENEWED_WITHIN_MS = 15_000


def main(chromium: str, url: str, screenshot: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        requests: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url, wait_until="load")
        page.evaluate("document.querySelector('main').dataset.first = 'yes'")
        page.screenshot(path=screenshot, full_page=True)
        page.wait_for_function("document.querySelector('main').dataset.first !== 'yes'", timeout=RENEWED_WITHIN_MS)
        found = {
            "title": page.title(),
            "headings": page.locator("h1, h2").all_inner_texts(),
            "rows": page.locator("table tr").all_inner_texts(),
            "wide": page.evaluate("document.documentElement.scrollWidth > innerWidth"),
            "requests": requests,
            "complaints": complaints,
        }
        browser.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
