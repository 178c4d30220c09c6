"""YAML as data, stricter than the library: keys are text and stand once, merging cannot explode, every mistake is one line
that names the key.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if not node.value.isascii() and any("\ud800" <= character <= "\udfff" for character in node.value):
            raise yaml.constructor.ConstructorError(None, None, "half a character (a lone surrogate)", node.start_mark)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag not in (_TEXT, _MERGE):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
            if key.value in lines:
                found = f"key {key.value!r} stands twice, first on line {lines[key.value]}"
                raise yaml.constructor.ConstructorError(None, None, found, key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        super().flatten_mapping(node)
        node.value = list({key.value: (key, value) for key, value in node.value}.values())


def read_yaml(text: str) -> Any:
    """The one document of a text. ValueError says where it breaks and why."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The library lets these slip through for a value that is no date or number of its tag.
        raise ValueError(f"a value cannot be read: {error}") from error


_WORDS = {"array": "a list", "bool": "true or false", "float": "a number", "int": "a whole number", "null": "nothing",
          "object": "keys with values", "str": "text"}  # fmt: skip


def explain(message: str, sections: Mapping[str, type[msgspec.Struct]]) -> str:
    """msgspec's message with the key first, in words, and the nearest known key where one is unknown.

    `sections`: which keys may stand where; `[]` is any place of a list, or any key.
    """
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        struct = sections[re.sub(r"\[[^]]*\]", "[]", key)]
        return f"{key + '.' if key else ''}{unknown[1]}: unknown key; {nearest(unknown[1], struct.__struct_encode_fields__)}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"{key + '.' if key else ''}{missing[1]}: missing; it is required"
    words = re.sub("`([^`]*)`", lambda match: " or ".join(_WORDS.get(kind, kind) for kind in match[1].split(" | ")), what)
    return f"{key or 'file'}: {words[:1].lower()}{words[1:]}"


def nearest(name: str, known: tuple[str, ...]) -> str:
    """A hint for who misspelled a name."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
