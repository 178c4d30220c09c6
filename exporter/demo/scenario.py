"""The fleet that the demo shows: nine pods in four pools, traffic that moves, and one fault of each kind
every ten minutes.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.demo.config import A100, H100, L40S, EngineConfig
from exporter.demo.load import Burst, Mix, Wave
from exporter.demo.plan import Fault, FleetPlan, PodPlan, PoolPlan

LLAMA = EngineConfig("vllm", "meta-llama/Llama-3.3-70B-Instruct", H100, num_blocks=3400, max_queue=200)
ADAPTERS = ("billing-v3", "legal-v1", "sql-v7", "support-v2")
LORA = EngineConfig("vllm", "meta-llama/Llama-3.1-8B-Instruct", A100, num_blocks=2600, adapters=ADAPTERS, max_loras=2)
QWEN = EngineConfig("sglang", "Qwen/Qwen3-32B", H100, block_size=1, num_blocks=56_000, max_num_seqs=56)
MISTRAL = EngineConfig("tgi", "mistralai/Mistral-Small-24B-Instruct", A100, block_size=1, num_blocks=44_000, max_queue=128)

# Round robin over unequal accelerators: the slow ones saturate while the fast ones idle.
LLAMA_POOL = PoolPlan(
    "llama-70b",
    (
        PodPlan("llama-70b-h100-0", replace(LLAMA, draft_tokens=3, acceptance=0.6)),
        PodPlan("llama-70b-a100-0", replace(LLAMA.on(A100), num_blocks=2800)),
        PodPlan("llama-70b-a100-1", replace(LLAMA.on(A100), num_blocks=2400), ranks=2),
        PodPlan("llama-70b-l40s-0", replace(LLAMA.on(L40S), num_blocks=1700)),
    ),
    Wave(5.6, swing=0.45, period_seconds=240.0, burst=Burst(180.0, 70.0, 25.0, 1.9)),
    routing="round_robin",
)
QWEN_POOL = PoolPlan(
    "qwen-32b",
    (PodPlan("qwen-32b-0", QWEN), PodPlan("qwen-32b-1", QWEN)),
    Wave(7.5, swing=0.5, period_seconds=300.0, phase=0.3, burst=Burst(210.0, 120.0, 20.0, 2.2)),
    Mix(prompt_tokens=420, output_tokens=140, prefix_share=0.75, prefix_tokens=384),
)
MISTRAL_POOL = PoolPlan(
    "mistral-24b",
    (PodPlan("mistral-24b-0", MISTRAL),),
    Wave(2.1, swing=0.6, period_seconds=200.0, phase=0.6, burst=Burst(260.0, 40.0, 20.0, 2.0)),
)
ASSISTANTS_POOL = PoolPlan(
    "assistants",
    (PodPlan("assistants-0", LORA), PodPlan("assistants-1", LORA)),
    Wave(4.2, swing=0.5, period_seconds=270.0, phase=0.8),
    Mix(prompt_tokens=380, output_tokens=130, adapters=ADAPTERS),
    namespace="assistants",
)

TEN_MINUTES = 600.0

FAULTS = (
    Fault("llama-70b-a100-0", "kill", at=90.0, seconds=35.0, every_seconds=TEN_MINUTES),
    Fault("assistants-1", "hang", at=200.0, seconds=30.0, every_seconds=TEN_MINUTES),
    Fault("qwen-32b-1", "freeze", at=310.0, seconds=50.0, every_seconds=TEN_MINUTES),
    Fault("mistral-24b-0", "slow", at=440.0, seconds=60.0, every_seconds=TEN_MINUTES, factor=2.5),
    Fault("assistants-0", "fail", at=530.0, seconds=40.0, every_seconds=TEN_MINUTES),
)

DEMO = FleetPlan((LLAMA_POOL, QWEN_POOL, MISTRAL_POOL, ASSISTANTS_POOL), FAULTS)
