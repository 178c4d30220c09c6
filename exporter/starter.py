"""A configuration to start from: the URLs of a person, asked once what they are, with comments on what else there is."""

import re
from collections import defaultdict
from collections.abc import Sequence

from exporter.probe import Probe

_HEAD = """\
# Configuration of llm-fleet-exporter. Check it: llm-fleet-exporter check-config FILE
# Run it: llm-fleet-exporter serve --config FILE
# Every key: docs/configuration.md

cluster: {cluster}                    # or {{name: ..., region: us-east-1}}

# scrape:                             # the defaults
#   fast_interval: 1s                 # the endpoint picker's signals
#   full_interval: 5s                 # everything
#   deadline: 2s                      # connection, headers and body together
#   stale_after: 3s                   # no good sample for so long: load values are withdrawn

"""
_TAIL = """
# file_targets: ["targets/*.json"]    # Prometheus file_sd, followed while running; label pool is required
"""
_EXAMPLE = '    urls: ["http://10.0.0.11:8000", "http://10.0.0.12:8000"]'


def write_starter(probes: Sequence[Probe], *, cluster: str) -> str:
    """YAML with one pool for each model that the URLs serve; those that did not say so are in a pool of their own."""
    pools: dict[str, list[Probe]] = defaultdict(list)
    for one in probes:
        pools[pool_name(one.model) if one.model else "unknown"].append(one)
    lines = ["static_targets:"]
    for name, members in sorted(pools.items()):
        models = {one.model for one in members if one.model}
        lines += [f"  - pool: {_quoted(name)}" + (f"                  # {_comment(', '.join(sorted(models)))}" if models else ""),
                  "    namespace: default", "    urls:"]  # fmt: skip
        lines += [f"      - {_quoted(one.url)}{_note(one)}" for one in members]
        lines += [f"    # {hint}" for hint in _hints(members)]
    if not probes:
        lines += ["  - pool: llama-70b", "    namespace: default", _EXAMPLE]
    lines += ["    # auth: {bearer_file: /var/run/secrets/engine/token}",
              "    # tls: {ca_file: /etc/engine/ca.pem}               # for https",
              "    # accelerator: H100", "    # cost_tier: on-demand"]  # fmt: skip
    return _HEAD.format(cluster=_quoted(cluster)) + "\n".join(lines) + "\n" + _TAIL


def pool_name(model: str) -> str:
    """A name for the pool of a model: what follows the last slash, in the characters of Kubernetes names."""
    short = re.sub(r"[^a-z0-9.-]+", "-", model.rstrip("/").rpartition("/")[2].lower()).strip("-.")
    return short[:63] or "unknown"


def _note(one: Probe) -> str:
    if one.failure:
        return f"        # {one.failure} when asked: {_comment(one.detail)}"
    return f"        # {_comment(f'{one.engine} {one.version}')}"


def _hints(members: Sequence[Probe]) -> list[str]:
    return [_comment(hint) for hint in dict.fromkeys(hint for one in members if one.failure for hint in one.advice)]


def _comment(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else "?" for char in text).split())


def _quoted(text: str) -> str:
    """As a YAML scalar: bare where that can only be this text."""
    bare = re.fullmatch(r"[a-z][a-z0-9-]*", text) and text not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    return text if bare else "'" + text.replace("'", "''") + "'"
