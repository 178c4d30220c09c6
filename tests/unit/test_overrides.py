"""File, then environment, then flags: who wins, and what a misspelled setting is told."""

from pathlib import Path

import pytest

from exporter.config import Config, ConfigError, load_config
from exporter.overrides import from_environment, variable
from exporter.schema import scalars

FILE = "cluster: {name: file, region: r}\nscrape: {fast_interval: 50ms, deadline: 1s}\npods: {max: 7}\n"


def load(tmp_path: Path, *settings: str, text: str = FILE, **environment: str) -> Config:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return load_config(
        path, environment={f"LLM_FLEET_EXPORTER_{name}": value for name, value in environment.items()}, settings=settings
    )


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, "scrape.fast_interval=70ms", SCRAPE_FAST_INTERVAL="60ms", SCRAPE_DEADLINE="900ms", PODS_MAX="8",
                  SATURATION_KV_CACHE_USAGE="0.9")  # fmt: skip
    assert (config.fast_interval, config.deadline, config.max_pods, config.full.kv_cache_usage) == (0.07, 0.9, 8, 0.9)
    assert config.cluster == "file"


@pytest.mark.parametrize(
    ("text", "name", "region"), [(FILE, "new", "r"), ("cluster: old\n", "new", ""), ("", "new", ""), ("window: 2m\n", "new", "")]
)
def test_the_cluster_is_named_in_every_form(tmp_path: Path, text: str, name: str, region: str) -> None:
    assert (load(tmp_path, text=text, CLUSTER="new").cluster, load(tmp_path, "cluster=new", text=text).region) == (name, region)
    assert load(tmp_path, "cluster.region=west", text=text, CLUSTER_NAME="new").region == "west"


OTLP = {"otlp.endpoint": "http://c:4318", "otlp.protocol": "grpc", "otlp.temporality": "delta", "otlp.compression": "gzip",
        "otlp.view": "gen_ai"}  # fmt: skip


def test_every_single_value_can_be_set(tmp_path: Path) -> None:
    values = {"str": "2m", "int": "3", "float": "0.5"}
    for key, kind in scalars().items():
        special = {"scrape.max_body": "1MiB", "scrape.down_after": "1h", "scrape.fast_interval": "10ms",
                   "cloudwatch.endpoint_url": "http://127.0.0.1:1", "cloudwatch.emf": "stdout", **OTLP}  # fmt: skip
        value = special.get(key, values[kind.__name__])
        more = () if key != "scrape.stale_after" else ("scrape.down_after=1h",)
        assert load(tmp_path, f"{key}={value}", *more) == load(
            tmp_path, *more, **{variable(key)[len("LLM_FLEET_EXPORTER_") :]: value}
        )


@pytest.mark.parametrize(
    ("settings", "environment", "told"),
    [
        (("scrape.fast_intervall=1s",), {}, "--set scrape.fast_intervall: unknown key; did you mean 'scrape.fast_interval'?"),
        (("scrape.window",), {}, "--set: expected KEY=VALUE such as scrape.fast_interval=50ms, got 'scrape.window'"),
        (("pods.max=many",), {}, "--set pods.max: expected a whole number, got 'many'"),
        (("static_targets=x",), {}, "--set static_targets: unknown key; "),
        ((), {"PODS_MAX": "1.5"}, "environment: LLM_FLEET_EXPORTER_PODS_MAX: expected a whole number, got '1.5'"),
        ((), {"WINDOWS": "1m"}, "environment: LLM_FLEET_EXPORTER_WINDOWS: unknown variable; did you mean "),
    ],
)  # fmt: skip
def test_a_setting_that_means_nothing_is_named(
    tmp_path: Path, settings: tuple[str, ...], environment: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *settings, **environment)
    assert str(caught.value).startswith(told)


def test_a_bad_value_is_named_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scrape\.deadline: expected a duration"):
        load(tmp_path, SCRAPE_DEADLINE="2")


def test_variables_that_kubernetes_sets_beside_a_service_are_not_ours(tmp_path: Path) -> None:
    config = load(tmp_path, SERVICE_HOST="10.0.0.1", SERVICE_PORT="9840", PORT="tcp://10.0.0.1:9840",
                  PORT_9840_TCP_ADDR="10.0.0.1", CONFIG="x", LISTEN="y", LOG_FORMAT="json")  # fmt: skip
    assert config == load(tmp_path)


def test_variables_of_the_projects_tests_are_no_settings() -> None:
    assert from_environment({"LLM_FLEET_EXPORTER_PARTS": "/parts", "LLM_FLEET_EXPORTER_REQUIRE_PARTS": "1"}) == {}
