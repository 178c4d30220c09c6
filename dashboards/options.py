"""What whoever installs the boards may choose."""

import re
from dataclasses import dataclass

from alerts.promql import check_pattern

_DURATION = re.compile(r"\d+[smhd]")
_UID = re.compile(r"[A-Za-z0-9_-]{0,25}")
_MATCHER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(=~|!~|!=|=)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """ValueError, naming the option, for what Grafana or Prometheus would refuse.

    `matchers` are pairs of label and text with its operator, added to every selector: `("env", "=~prod|test")`. `docs` is
    where docs/dashboards.md is found; `uid_prefix` goes before the uid of each board and of its links. `logs` and `traces`
    are where a pod's are: URLs in which `$cluster`, `$namespace` and `$pod` stand for what is chosen; by default Grafana's own
    pages for Loki and Tempo.
    """

    docs: str = "docs/dashboards.md"
    uid_prefix: str = ""
    refresh: str = "30s"
    matchers: tuple[tuple[str, str], ...] = ()
    logs: str = ""
    traces: str = ""

    def __post_init__(self) -> None:
        if self.refresh and not _DURATION.fullmatch(self.refresh):
            raise ValueError(f"refresh {self.refresh!r} is no duration such as 30s or 1m (empty: never)")
        if not _UID.fullmatch(self.uid_prefix):
            raise ValueError(f"uid prefix {self.uid_prefix!r} is not up to 25 letters, digits, '-' and '_'")


DEFAULT = Options()


def matcher(text: str) -> tuple[str, str]:
    """`env=prod`, `env=~"a|b"` as label and text with operator. ValueError when it is neither."""
    found = _MATCHER.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no matcher such as env=prod or env=~prod|test")
    label, operator, value = found.groups()
    bare = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if operator in ("=~", "!~"):
        try:
            check_pattern(bare)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
    return label, operator + bare
