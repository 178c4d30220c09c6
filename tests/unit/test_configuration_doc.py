"""docs/configuration.md lists every key with its default, and no other."""

import re
from pathlib import Path

import msgspec

from exporter.config import parse_config
from exporter.schema import SECTIONS, keys

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_.\[\]]+)` \| ([^|]*?) \|", TEXT, re.MULTILINE))


def test_every_key_is_listed_and_every_listed_key_exists() -> None:
    assert ROWS.keys() == keys().keys()


def test_the_listed_defaults_are_the_true_ones() -> None:
    plain = {key: default for key, default in keys().items() if isinstance(default, str | int | float) and default != ""}
    written = {key: f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
               for key, value in plain.items()}  # fmt: skip
    assert {key: ROWS[key] for key in written} == {key: f"`{value}`" for key, value in written.items()}


def test_what_must_be_given_is_said_to_be_required() -> None:
    required = {key for key, default in keys().items() if default is msgspec.NODEFAULT}
    assert {key for key, default in ROWS.items() if default == "required"} == required


def test_the_examples_are_good() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert blocks
    for block in blocks:
        parse_config(block)


def test_the_table_of_sections_is_whole() -> None:
    """A struct that no section names would have keys without documentation."""
    structs = {field.type for struct in SECTIONS.values() for field in msgspec.structs.fields(struct)}
    named = {kind for kind in structs if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    assert named <= set(SECTIONS.values())
