"""Settings given in the environment and by flags, laid over what the file says: file, then environment, then flags."""

from collections.abc import Iterable, Mapping
from typing import Any

from exporter.schema import nearest, scalars

PREFIX = "LLM_FLEET_EXPORTER_"
FLAGS = frozenset(f"{PREFIX}{name}" for name in ("CONFIG", "LISTEN", "LOG_FORMAT", "ROLE"))
_OF_SIDECAR = f"{PREFIX}SIDECAR_"
"""Flags of the sidecar, which has no configuration."""
_OF_TESTS = frozenset(f"{PREFIX}{name}" for name in ("PARTS", "REQUIRE_PARTS"))
"""Where the real programs lie that the project's tests run beside it, and whether a missing one fails."""
_OF_KUBERNETES = (f"{PREFIX}SERVICE_", f"{PREFIX}PORT")
"""Kubernetes sets such variables in every container beside a service that is called llm-fleet-exporter."""


def variable(key: str) -> str:
    """Name of the environment variable for a key."""
    return PREFIX + key.replace(".", "_").upper()


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Values by key. ValueError for a variable with our prefix that means nothing."""
    known = {variable(key): key for key in scalars()}
    found: dict[str, Any] = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in FLAGS | _OF_TESTS or name.startswith((*_OF_KUBERNETES, _OF_SIDECAR)):
            continue
        if name not in known:
            raise ValueError(f"environment: {name}: unknown variable; {nearest(name, tuple(sorted({*known, *FLAGS})))}")
        found[known[name]] = _typed(f"environment: {name}", known[name], environment[name])
    return found


def from_flags(settings: Iterable[str]) -> dict[str, Any]:
    """Values by key from `KEY=VALUE` texts. ValueError for a key that is not known."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set: expected KEY=VALUE such as scrape.fast_interval=50ms, got {setting!r}")
        if key not in scalars():
            raise ValueError(f"--set {key}: unknown key; {nearest(key, tuple(scalars()))}")
        found[key] = _typed(f"--set {key}", key, value)
    return found


def _typed(where: str, key: str, text: str) -> Any:
    kind = scalars()[key]
    try:
        return kind(text)
    except ValueError as error:
        raise ValueError(f"{where}: expected a {'whole ' if kind is int else ''}number, got {text!r}") from error


def lay_over(data: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The file's data with these values instead of its own."""
    result = dict(data)
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if not section:
            present = result.get(name)
            result[name] = {**present, "name": value} if name == "cluster" and isinstance(present, dict) else value
            continue
        inside = result.get(section, {})
        if section == "cluster" and isinstance(inside, str):
            inside = {"name": inside}
        if isinstance(inside, dict):  # what else it may be is complained about where the file is checked
            result[section] = {**inside, name: value}
    return result
