"""What a client says it takes or has: weights of Accept and Accept-Encoding, tags of If-None-Match."""

import re


def weights(header: str) -> dict[str, float]:
    """Weight by name, in lower case; 0 refuses, a name that is listed twice keeps its higher weight."""
    found: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if name:
            found[name] = max(found.get(name, 0.0), _weight(parameters))
    return found


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def matches(header: str, tag: str) -> bool:
    """Whether an If-None-Match header names an entity tag: `*`, or a list of tags, of which a weak one is as good here."""
    return header.strip() == "*" or tag.removeprefix("W/") in re.findall(r'"[^"]*"', header)
