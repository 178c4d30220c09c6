"""An EndpointPickerConfig for a pool: where its load is read, how it is scored, and how old it may be. Pure.

Sources: the configuration of llm-d-router 0.10 and of gateway-api-inference-extension 1.5 with their charts' defaults.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml

from collector.model import Target
from collector.picking import KV_CACHE, LORA, PREFIX, QUEUE, RUNNING
from collector.scoring import Full
from collector.signals import PICKER_WEIGHTS
from exporter.picker.dialects import DIALECTS, LABELS
from exporter.units import show_duration

PROFILES: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "default": PICKER_WEIGHTS,
    "chat-latency": {QUEUE: 3.0, KV_CACHE: 2.0, PREFIX: 3.0, LORA: 1.0},
    "batch-throughput": {QUEUE: 1.0, KV_CACHE: 3.0, PREFIX: 2.0, RUNNING: 1.0},
})  # fmt: skip
"""Scorers and weights. Chat waits for its first token, so queues weigh most and adapters are not swapped; batch wants full pods
and no preemption."""

PICKERS = ("router", "gaie")
"""llm-d-router 0.10, and the last picker of gateway-api-inference-extension, 1.5."""

_VERSIONS = {"router": "llm-d.ai/v1alpha1", "gaie": "inference.networking.x-k8s.io/v1alpha1"}
_SOURCE, _EXTRACTOR, _DETECTOR = "metrics-data-source", "core-metrics-extractor", "utilization-detector"
_POLLS_UNTIL_STALE = 4
_LEAST_STALE_SECONDS = 0.2
_LEAST_SHOWN_STALE_SECONDS = 2.0
_TGI = {
    "name": "tgi", "queuedRequestsSpec": "tgi_queue_size", "runningRequestsSpec": "tgi_batch_current_size",
    "kvUsageSpec": "", "loraSpec": "", "cacheInfoSpec": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the configuration is to be. `sidecar_port` 0: the picker reads the engines itself."""

    picker: str = "router"
    profile: str = "default"
    sidecar_port: int = 0
    sidecar_path: str = "/picker"
    refresh_seconds: float = 0.05


class Unfit(ValueError):
    """The pool cannot be fed like that; the message says why and what would be right."""


def bundle(pool: tuple[str, str], targets: Sequence[Target], engines: Collection[str], wish: Wish, full: Full) -> str:
    """The file for one pool (namespace, name), with the flags that belong to it in its head. Unfit when it cannot be."""
    if wish.sidecar_port:
        _check_ports(pool, targets)
    weights = PROFILES[wish.profile]
    plugins: list[dict[str, Any]] = [
        _source(wish),
        _extractor(engines, wish),
        *({"type": name} for name in weights),
        _detector(wish, full),
    ]
    config = {
        "apiVersion": _VERSIONS[wish.picker],
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": [{"name": "default", "plugins": [
            {"pluginRef": name, "weight": _plain(weight)} for name, weight in weights.items()]}],
        "dataLayer": {"sources": [{"pluginRef": _SOURCE, "extractors": [{"pluginRef": _EXTRACTOR}]}]},
        **_saturation(wish),
    }  # fmt: skip
    head = "".join(f"# {line}\n" for line in _head(pool, engines, wish))
    return head + yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=120)


def _check_ports(pool: tuple[str, str], targets: Sequence[Target]) -> None:
    by_host: dict[str, set[str]] = {}
    for target in targets:
        host, _, port = target.address.rpartition(":")
        by_host.setdefault(target.uid or host, set()).add(port)
    several = {host: ports for host, ports in by_host.items() if len(ports) > 1}
    if several:
        host, ports = min(several.items())
        raise Unfit(f"{pool[0]}/{pool[1]}: {host} has {len(ports)} ports, each an endpoint of its own to the picker, and a "
                    "sidecar shows one page for all of them; leave out --sidecar-port for this pool")  # fmt: skip


def _source(wish: Wish) -> dict[str, Any]:
    """Without a name: the picker knows its source by the instance's name, and would add a second one beside a renamed one."""
    where: dict[str, Any] = {"scheme": "http", "path": wish.sidecar_path if wish.sidecar_port else "/metrics"}
    if wish.sidecar_port and wish.picker == "router":
        where["port"] = wish.sidecar_port
    return {"type": _SOURCE, "parameters": where}


def _extractor(engines: Collection[str], wish: Wish) -> dict[str, Any]:
    """Behind a sidecar all pods speak one dialect. Read directly, SGLang needs the gauges that its newer versions print, and TGI
    a mapping of its own, without any use of the KV cache."""
    configs = []
    if not wish.sidecar_port:
        configs += [_sglang()] if "sglang" in engines else []
        configs += [_TGI] if "tgi" in engines else []
    known = [name for name in sorted(engines) if name in DIALECTS or name == "tgi"]
    default = "vllm" if wish.sidecar_port or len(known) != 1 else known[0]
    parameters: dict[str, Any] = {"defaultEngine": default, **({"engineConfigs": configs} if configs else {})}
    return {"type": _EXTRACTOR, "parameters": parameters}


def _sglang() -> dict[str, str]:
    names = DIALECTS["sglang"]
    return {"name": "sglang", "queuedRequestsSpec": names.waiting, "runningRequestsSpec": names.running,
            "kvUsageSpec": names.kv_usage, "loraSpec": "", "cacheInfoSpec": "", "cacheBlockSizeSpec": names.block_size,
            "cacheNumBlocksSpec": names.blocks}  # fmt: skip


def _detector(wish: Wish, full: Full) -> dict[str, Any]:
    stale = max(_LEAST_STALE_SECONDS, _POLLS_UNTIL_STALE * wish.refresh_seconds)
    return {"type": _DETECTOR, "parameters": {"queueDepthThreshold": round(full.requests_waiting),
            "kvCacheUtilThreshold": full.kv_cache_usage, "metricsStalenessThreshold": show_duration(stale)}}  # fmt: skip


def _saturation(wish: Wish) -> dict[str, Any]:
    """The place of the detector moved under flow control in the router; both take the one of its default name."""
    return {"saturationDetector": {"pluginRef": _DETECTOR}} if wish.picker == "gaie" else {}


def _head(pool: tuple[str, str], engines: Collection[str], wish: Wish) -> list[str]:
    shown = max(_LEAST_SHOWN_STALE_SECONDS, _POLLS_UNTIL_STALE * wish.refresh_seconds)
    flags = [f"--refresh-metrics-interval={show_duration(wish.refresh_seconds)}",
             f"--metrics-staleness-threshold={show_duration(shown)}"]  # fmt: skip
    if wish.sidecar_port and wish.picker == "gaie":
        flags.append(f"--model-server-metrics-port={wish.sidecar_port}")
    lines = [f"Pool {pool[0]}/{pool[1]}, {', '.join(sorted(engines)) or 'no engine seen'}; profile {wish.profile}.",
             f"Flags of the picker: {' '.join(flags)}"]  # fmt: skip
    if wish.sidecar_port:
        lines.append("Sidecars in all pods; where a pod has an engine label, its sidecar's --names says the same.")
    elif engines:
        lines.append(f"Pods need the label {LABELS[wish.picker]}: {' or '.join(sorted(engines))}.")
    if "tgi" in engines:
        remedy = "Start its sidecars with --kv-stand-in." if wish.sidecar_port else "A sidecar has a stand-in."
        lines.append(f"TGI tells no use of its KV cache: its pods always look empty to that scorer. {remedy}")
    return lines


def _plain(weight: float) -> float | int:
    return int(weight) if weight.is_integer() else weight
