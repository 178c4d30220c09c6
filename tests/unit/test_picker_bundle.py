"""The picker's configuration: the traps of its loader, engines read directly, and what cannot be fed."""

import socket
from dataclasses import replace
from typing import Any

import pytest
import yaml
from click import Choice

from collector.scoring import Full
from exporter.commands.picker_config import render_picker_config
from exporter.config import parse_config
from exporter.picker.bundle import PICKERS, PROFILES, Unfit, Wish, bundle
from exporter.single import picker_configs
from tests.make import target

POOL = ("serving", "chat")
PODS = [target("a"), target("b")]


def made(engines: set[str] = frozenset({"vllm"}), **wish: Any) -> dict[str, Any]:  # type: ignore[assignment]
    return yaml.safe_load(bundle(POOL, PODS, engines, Wish(**wish), Full()))  # type: ignore[no-any-return]


def plugin(config: dict[str, Any], kind: str) -> dict[str, Any]:
    (one,) = (plugin for plugin in config["plugins"] if plugin["type"] == kind)
    return one  # type: ignore[no-any-return]


@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_reference_has_its_plugin_and_none_is_renamed(picker: str, profile: str) -> None:
    config = made(picker=picker, profile=profile, sidecar_port=9841)
    kinds = [one["type"] for one in config["plugins"]]
    assert len(set(kinds)) == len(kinds)
    assert not any("name" in one for one in config["plugins"]), "a renamed source is scraped twice"
    used = {one["pluginRef"] for one in config["schedulingProfiles"][0]["plugins"]}
    source = config["dataLayer"]["sources"][0]
    used |= {source["pluginRef"], *(one["pluginRef"] for one in source["extractors"])}
    assert used <= set(kinds)


def test_the_default_is_the_charts() -> None:
    weights = {one["pluginRef"]: one["weight"] for one in made()["schedulingProfiles"][0]["plugins"]}
    assert weights == {"queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3}


def test_a_sidecar_is_read_at_its_port_and_path() -> None:
    router = made(sidecar_port=9841)
    assert router["apiVersion"] == "llm-d.ai/v1alpha1"
    assert plugin(router, "metrics-data-source")["parameters"] == {"scheme": "http", "path": "/picker", "port": 9841}
    assert "engineConfigs" not in plugin(router, "core-metrics-extractor")["parameters"]
    gaie = made(sidecar_port=9841, picker="gaie")
    assert gaie["apiVersion"] == "inference.networking.x-k8s.io/v1alpha1"
    assert "port" not in plugin(gaie, "metrics-data-source")["parameters"], "it has no such key"
    text = bundle(POOL, PODS, {"vllm"}, Wish(sidecar_port=9841, picker="gaie"), Full())
    assert "--model-server-metrics-port=9841" in text.splitlines()[1]


def test_engines_that_are_read_directly_get_their_mappings() -> None:
    config = made({"vllm", "sglang", "tgi"})
    extractor = plugin(config, "core-metrics-extractor")["parameters"]
    by_name = {one["name"]: one for one in extractor["engineConfigs"]}
    assert by_name["sglang"]["cacheBlockSizeSpec"] == "sglang:page_size"
    assert by_name["sglang"]["cacheInfoSpec"] == "", (
        "its labels are gone since 0.5.12, and a missing family is an error at each poll"
    )
    assert (by_name["tgi"]["queuedRequestsSpec"], by_name["tgi"]["kvUsageSpec"]) == ("tgi_queue_size", "")
    assert extractor["defaultEngine"] == "vllm"
    assert plugin(made({"sglang"}), "core-metrics-extractor")["parameters"]["defaultEngine"] == "sglang"
    assert "llm-d.ai/engine-type: sglang or vllm" in bundle(POOL, PODS, {"vllm", "sglang"}, Wish(), Full())


@pytest.mark.parametrize(("refresh", "detector", "shown"), [(0.05, "200ms", "2s"), (0.25, "1s", "2s"), (1.0, "4s", "4s")])
def test_staleness_fits_the_pause_between_polls(refresh: float, detector: str, shown: str) -> None:
    config = made(refresh_seconds=refresh)
    assert plugin(config, "utilization-detector")["parameters"]["metricsStalenessThreshold"] == detector
    text = bundle(POOL, PODS, set(), Wish(refresh_seconds=refresh), Full())
    assert f"--metrics-staleness-threshold={shown}" in text


def test_a_pod_with_several_ports_gets_no_sidecar() -> None:
    ranks = [target("a", port=8000, uid="u"), target("a", port=8001, uid="u")]
    with pytest.raises(Unfit, match=r"serving/chat: u has 2 ports.*leave out --sidecar-port"):
        bundle(POOL, ranks, {"vllm"}, Wish(sidecar_port=9841), Full())
    same_host = [target(url="http://10.0.0.1:8000/metrics"), target(url="http://10.0.0.1:8001/metrics")]
    with pytest.raises(Unfit, match=r"10\.0\.0\.1 has 2 ports"):
        bundle(POOL, same_host, {"vllm"}, Wish(sidecar_port=9841), Full())
    assert bundle(POOL, ranks, {"vllm"}, Wish(), Full())


@pytest.mark.parametrize(("pools", "why"), [((("a-b", "c"), ("a", "b-c")), "another pool"), ((("a", "meta/llama"),), "no name")])
async def test_no_pool_loses_its_file(pools: tuple[tuple[str, str], ...], why: str) -> None:
    placed = tuple(replace(target(f"p{index}"), namespace=namespace, pool=pool, engine="vllm")
                   for index, (namespace, pool) in enumerate(pools))  # fmt: skip
    with pytest.raises(Unfit, match=why):
        await picker_configs(parse_config("cluster: c").with_targets(placed), Wish())


async def test_a_pool_whose_engine_nobody_tells_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        silent = target("a", url=f"http://127.0.0.1:{held.getsockname()[1]}/metrics")
        known = replace(target("b", "other"), engine="vllm")
        files, unseen = await picker_configs(parse_config("cluster: c").with_targets((silent, known)), Wish())
    assert sorted(files) == ["serving-chat.yaml", "serving-other.yaml"]
    assert unseen == ["serving/chat"]


def test_the_command_offers_every_picker_and_profile() -> None:
    offered = {
        option.name: list(option.type.choices) for option in render_picker_config.params if isinstance(option.type, Choice)
    }
    assert offered == {"picker": list(PICKERS), "profile": list(PROFILES)}
