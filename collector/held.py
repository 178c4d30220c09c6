"""The state at one moment, as any thread may read it: the loop goes on and changes nothing in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from collector.caps import FirstOnes
from collector.clock import Instant
from collector.health import Limits
from collector.scoring import Full
from collector.sight import Sight
from collector.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """All that a cut is made of. Pods by (namespace, pool, UID or name); pools by (namespace, pool), with their model."""

    at: Instant
    cluster: str
    info: Mapping[str, str]
    sights: tuple[Sight, ...]
    pods: Mapping[tuple[str, str, str], Totals]
    pools: Mapping[tuple[str, str], tuple[Totals, str]]
    totals: Totals
    limits: Limits
    full: Full
    adapter_names: FirstOnes
