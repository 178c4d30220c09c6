"""Every board there is, in the order in which one goes down into detail."""

from dashboards.adapters import ADAPTERS
from dashboards.cluster import CLUSTER
from dashboards.exporter import EXPORTER
from dashboards.model import Board
from dashboards.pod import POD
from dashboards.pool import POOL
from dashboards.slo import SLO

BOARDS: tuple[Board, ...] = (CLUSTER, POOL, POD, ADAPTERS, SLO, EXPORTER)
