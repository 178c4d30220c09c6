"""Our page in a real browser: drawn, renewed in place, and asking nobody but us."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.real.parts import SOURCES, python_folder
from tests.real.running import Running, output_of, program

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def seen(demo: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Chromium made of the demo's page, and where the picture is."""
    chromium, _ = program("chromium"), program("playwright")
    picture = tmp_path_factory.mktemp("browser") / "page.png"
    python = str(python_folder() / "bin" / "python")
    told = output_of([python, str(SOURCES / "browser.py"), chromium, f"{demo.url}/", str(picture)], within_seconds=120)
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found | {"picture": picture}


def test_the_page_shows_every_pod_and_pool(seen: dict[str, Any], demo: Running) -> None:
    pods = {one["pod"] for one in demo.get("/picker/v1/endpoints").json()["endpoints"]}
    shown = {row.split()[0] for row in seen["rows"] if row.strip()}
    assert len(pods) == 9
    assert pods <= shown
    assert "Pools" in seen["headings"]
    assert not seen["wide"]


def test_the_page_renews_itself_without_a_complaint_and_asks_only_us(seen: dict[str, Any], demo: Running) -> None:
    assert seen["complaints"] == []
    assert len(seen["requests"]) >= 2
    assert all(url.startswith((demo.url, "data:")) for url in seen["requests"])
    assert not seen["title"].startswith("(no answer)")


def test_the_picture_holds_the_whole_page(seen: dict[str, Any]) -> None:
    picture: Path = seen["picture"]
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width >= 1400
    assert height >= 400
    assert len(content) > 20_000
