"""The catalogue of parts agrees with what pins them; runs without any part."""

import re
from pathlib import Path

import pytest

from tests.real.build_go import check_pin
from tests.real.commands import BuildError
from tests.real.parts import REQUIREMENTS, TIERS, GoPart, cache_folder, read_catalogue

CATALOGUE = read_catalogue()


@pytest.mark.parametrize("part", CATALOGUE.go, ids=lambda part: part.name)
def test_go_parts_have_the_version_that_the_catalogue_names(part: GoPart) -> None:
    check_pin(part)
    assert part.tier in TIERS


def test_another_version_is_found_out() -> None:
    part = CATALOGUE.go[0]
    fields = {name: getattr(part, name) for name in GoPart.__slots__} | {"version": "v9.9.9"}
    with pytest.raises(BuildError, match=r"parts\.toml has v9\.9\.9"):
        check_pin(GoPart(**fields))


def test_names_of_parts_are_unique() -> None:
    names = [part.name for part in CATALOGUE.parts]
    assert len(names) == len(set(names))


def test_requirements_have_hashes_and_no_address() -> None:
    text = REQUIREMENTS.read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==\S+.* \\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pins) == sum("==" in line and not line.startswith(" ") for line in text.splitlines())
    assert {part.distribution for part in CATALOGUE.python} <= set(pins)
    assert "://" not in text
    assert "index" not in text


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("LLM_FLEET_EXPORTER_PARTS", raising=False)
    assert cache_folder() == Path("/somewhere/llm-fleet-exporter/parts")
    monkeypatch.setenv("LLM_FLEET_EXPORTER_PARTS", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")
