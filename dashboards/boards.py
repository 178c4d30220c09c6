"""Every board there is."""

from dashboards.model import Board
from dashboards.pool import POOL

BOARDS: tuple[Board, ...] = (POOL,)
