"""Metrics pages as vLLM, SGLang and TGI print them, rendered from simulated engines."""

from __future__ import annotations

from exporter.demo.pages import sglang, tgi, vllm
from exporter.demo.pages.text import Page
from exporter.demo.process import Process

__all__ = ["Page", "page_of"]

_PAGES = {"vllm": vllm.page, "sglang": sglang.page, "tgi": tgi.page}


def page_of(process: Process) -> Page:
    """The page of a process, prepared once; `render` it as often as it is asked for."""
    return _PAGES[process.lead.config.kind](process)
