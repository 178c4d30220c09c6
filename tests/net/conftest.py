"""What goes over sockets is tested on both loops: the plain one, and uvloop where it is installed."""

import asyncio
from collections.abc import Callable, Mapping

import pytest


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"plain": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return loops | {"uvloop": uvloop.new_event_loop}
