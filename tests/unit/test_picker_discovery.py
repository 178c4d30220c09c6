"""endpoints.yaml: what a picker's file discovery reads, replaced in one step, and never emptied by our own start."""

import logging
import os
from pathlib import Path

import pytest
import yaml

from exporter.config import ConfigError, parse_config
from exporter.endpoints import Keeper
from exporter.hub import Hub
from exporter.picker import discovery
from exporter.picker.discovery import Unwritable, listing, replace_file
from tests.conftest import FakeClock
from tests.make import at, failure, reading, state, target, values

CONFIG = """
cluster: c
static_targets:
  - {pool: chat, namespace: serving, urls: ["http://10.0.0.1:8000", "http://10.0.0.1:8001", "http://10.0.0.2:8000"]}
  - {pool: other, namespace: serving, urls: ["http://10.0.0.9:8000"]}
picker: {endpoints_files: [{pool: chat, namespace: serving, path: endpoints.yaml}]}
"""
POOL = ("serving", "chat")


def test_entries_are_what_the_picker_takes() -> None:
    one = target("llama-0", url="http://10.0.0.1:8000/metrics")
    core = state(one)
    core.absorb(reading(one, values(requests_running=1), at(0)))
    found = listing(core.endpoints(at(0)), POOL)
    assert yaml.safe_load(found.text) == {"endpoints": [
        {"name": "llama-0-8000", "namespace": "serving", "address": "10.0.0.1", "port": "8000",
         "labels": {"llm-d.ai/engine-type": "vllm"}}]}  # fmt: skip
    assert 'port: "8000"' in found.text, "a text, not a number"


def test_pods_that_are_down_or_about_to_go_are_left_out_and_silent_ones_stay() -> None:
    pods = [target("a", url="http://10.0.0.1:1/metrics"), target("b", url="http://10.0.0.2:1/metrics", terminating=True),
            target("c", url="http://10.0.0.3:1/metrics"), target("d", url="http://[::1]:1/metrics"),
            target("e", url="http://pod.local:1/metrics")]  # fmt: skip
    core = state(*pods)
    core.absorb(failure(pods[0], at(0)))
    found = listing(core.endpoints(at(0)), POOL)
    assert [one["address"] for one in yaml.safe_load(found.text)["endpoints"]] == ["10.0.0.3"]
    assert found.left_out == ("[::1]:1", "pod.local:1")


def test_names_are_unique_and_a_file_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [target(f"10.0.{i // 50}.{i % 50}:8000", url=f"http://10.0.{i // 50}.{i % 50}:8000/metrics") for i in range(100)]
    names = [one["name"] for one in yaml.safe_load(listing(state(*many).endpoints(at(0)), POOL).text)["endpoints"]]
    assert len(set(names)) == 100
    assert yaml.safe_load(listing([], POOL).text) == {"endpoints": []}
    monkeypatch.setattr(discovery, "MOST_BYTES", 5000)
    with pytest.raises(Unwritable, match="100 endpoints"):
        listing(state(*many).endpoints(at(0)), POOL)


def test_odd_names_are_read_as_they_are() -> None:
    one = target('a "b": \\ é #\n-', url="http://10.0.0.1:8000/metrics")
    (entry,) = yaml.safe_load(listing(state(one).endpoints(at(0)), POOL).text)["endpoints"]
    assert entry["name"] == one.pod + "-8000"


def test_the_file_is_replaced_in_one_step_and_only_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.yaml"
    assert replace_file(path, "one")
    before = path.stat().st_ino
    assert not replace_file(path, "one")
    assert path.stat().st_ino == before
    with path.open() as reader:
        assert replace_file(path, "two")
        assert reader.read() == "one", "a reader never sees half of it"
    assert (path.read_text(), os.listdir(tmp_path)) == ("two", ["endpoints.yaml"])
    assert path.stat().st_mode & 0o777 == 0o644
    with pytest.raises(OSError, match=r"."):
        replace_file(tmp_path / "none" / "x.yaml", "x")


async def test_the_file_follows_the_targets(tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub(parse_config(CONFIG, folder=tmp_path), clock)
    keeper, path = Keeper(), tmp_path / "endpoints.yaml"
    keeper.keep(hub)
    assert [(one["address"], one["port"]) for one in yaml.safe_load(path.read_text())["endpoints"]] == [
        ("10.0.0.1", "8000"), ("10.0.0.1", "8001"), ("10.0.0.2", "8000")]  # fmt: skip
    hub.take(failure(hub.state.tracks["http://10.0.0.2:8000/metrics"].target, clock.now()))
    keeper.keep(hub)
    assert len(yaml.safe_load(path.read_text())["endpoints"]) == 2
    hub.watch(())
    with caplog.at_level(logging.WARNING):
        keeper.keep(hub)
        keeper.keep(hub)
    assert [vars(record)["facts"]["trouble"] for record in caplog.records] == ["no target of serving/chat is known"], "said once"
    assert yaml.safe_load(path.read_text()) == {"endpoints": []}
    caplog.clear()
    path.unlink()
    path.mkdir()
    with caplog.at_level(logging.WARNING):
        keeper.keep(hub)
        keeper.keep(hub)
    assert [record.getMessage() for record in caplog.records] == ["endpoints file"], "said once"


@pytest.mark.parametrize(("picker", "message"), [
    ("{endpoints_files: [{pool: '', path: e.yaml}]}", "picker.endpoints_files[0]: expected the names"),
    ("{endpoints_files: [{pool: p, path: e.json}]}", "picker.endpoints_files[0].path: expected a file that ends in .yaml"),
    ("{endpoints_files: [{pool: p, path: e.yaml}, {pool: q, path: e.yaml}]}", "picker.endpoints_files[1].path: 'e.yaml' stands"),
    ("{endpoints_files: [{pool: p, paths: e.yaml}]}", "did you mean 'path'"),
])  # fmt: skip
def test_mistakes_are_named(picker: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(f"cluster: c\npicker: {picker}")
    assert message in str(caught.value)
