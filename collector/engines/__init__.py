"""The engines that are known; adding one is a file here, its recorded pages and their goldens."""

from collector.engines.sglang import SGLANG
from collector.engines.spec import Engine
from collector.engines.tgi import TGI
from collector.engines.vllm import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG, TGI)}
