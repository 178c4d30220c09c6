"""Every board there is, in the order in which one goes down into detail."""

from alerts.slo import DEFAULTS, Settings
from dashboards.adapters import adapters
from dashboards.cluster import cluster
from dashboards.exporter import exporter
from dashboards.model import Board
from dashboards.picker import picker
from dashboards.pod import pod
from dashboards.pool import pool
from dashboards.slo import slo


def boards(settings: Settings) -> tuple[Board, ...]:
    """The boards with the limits and objectives that the rules have by the same settings."""
    return tuple(board(settings) for board in (cluster, pool, pod, adapters, picker, slo, exporter))


BOARDS: tuple[Board, ...] = boards(DEFAULTS)
"""The boards that ship."""
