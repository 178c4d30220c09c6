"""What Grafana does with the choices above a board before it sends a query: lists them, and writes them into it."""

import re
from collections.abc import Mapping
from typing import Any

from tests.real.running import Running

MACROS = {"$__rate_interval": "15s", "$__range": "60s", "$__interval": "5s"}
Variable = Mapping[str, Any]


def written(expression: str, chosen: Mapping[str, str]) -> str:
    """The expression with Grafana's own and the board's variables written out."""
    for name, value in {**MACROS, **{f"${name}": value for name, value in chosen.items()}}.items():
        expression = re.sub(rf"{re.escape(name)}\b", lambda _, value=value: value, expression)  # type: ignore[misc]
    return expression


def listed(store: Running, variable: Variable, chosen: Mapping[str, str]) -> list[str]:
    """The values that a variable offers when the ones before it are chosen."""
    if variable["type"] == "custom":
        return [option["value"] for option in variable["options"]]
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
    assert found, variable["query"]
    values = store.get(f"/api/v1/label/{found[2]}/values", **{"match[]": written(found[1], chosen)}).json()["data"]
    return [value for value in values if value]


def chosen_all(store: Running, board: Mapping[str, Any]) -> dict[str, str]:
    """Everything at All; where a variable has no word for it, all its values."""
    chosen: dict[str, str] = {}
    for variable in _asked(board):
        values = listed(store, variable, chosen)
        assert values, f"{variable['name']} has no values"
        if variable["type"] == "custom":
            chosen[variable["name"]] = variable["current"]["value"]
        else:
            chosen[variable["name"]] = variable.get("allValue") or f"({'|'.join(map(escaped, values))})"
    return chosen


def chosen_one(store: Running, board: Mapping[str, Any], liked: Mapping[str, str]) -> dict[str, str]:
    """Each variable at one value: the liked one where it is offered, else the first."""
    chosen: dict[str, str] = {}
    for variable in _asked(board):
        values = listed(store, variable, chosen)
        assert values, f"{variable['name']} has no values beside {chosen}"
        wanted = liked.get(variable["name"], "")
        value = wanted if wanted in values else values[0]
        chosen[variable["name"]] = value if variable["type"] == "custom" else escaped(value)
    return chosen


def escaped(value: str) -> str:
    """A value as Grafana writes it into a regular expression within a string of PromQL."""
    return re.sub(r"[\\$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value)


def _asked(board: Mapping[str, Any]) -> list[Variable]:
    return [variable for variable in board["templating"]["list"] if variable["type"] != "datasource"]
