"""What a single look finds out, against servers that answer as the recorded engines did, and which flag it names."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.auth import Auth
from collector.clock import SystemClock
from collector.http import open_fetch
from collector.model import Target
from exporter.config import parse_config
from exporter.probe import Probe, as_text, probe
from exporter.starter import pool_name, write_starter
from tests.net import engines
from tests.net.scripted import Script, answer, hang, say, serving
from tests.net.test_fetch import closed_port, target


async def look(script: Script, *, key_file: Path | None = None, deadline: float = 5.0) -> Probe:
    async with serving(script) as server, open_fetch(deadline_seconds=deadline, max_body=1 << 24) as client:
        one: Target = target(server.url)
        if key_file is not None:
            one = replace(one, auth=Auth(bearer_file=str(key_file)))
        return await probe(one, client, SystemClock())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(engines.KEY)
    return file


async def test_a_vllm_is_known_by_name_version_and_model() -> None:
    found = await look(engines.vllm())
    assert (found.engine, found.version, found.model, found.failure) == ("vllm", "0.32.0", "tiny-llama", "")
    assert found.fast_lane == "short answers"
    assert {"requests_running", "kv_cache_usage_ratio", "time_to_first_token_seconds"} <= set(found.found)
    assert not set(found.found) & found.missing.keys()
    assert found.missing["adapters_waiting"] == "lora_requests_info is on the page, but does not tell it"
    assert found.missing["kv_cache_reserved_ratio"] == "vllm has no source for it"
    assert "vllm:num_requests_swapped" in found.missing["requests_swapped"]


async def test_a_vllm_without_statistics_is_told_the_flag() -> None:
    found = await look(engines.vllm_without_statistics())
    assert (found.engine, found.version, found.failure) == ("vllm", "0.32.0", "no_known_families")
    assert "--disable-log-stats" in found.advice[0]
    assert not found.advice[0].startswith("if")


async def test_an_sglang_tells_its_version_beside_its_loads() -> None:
    found = await look(engines.sglang())
    assert (found.engine, found.version, found.fast_lane, found.advice) == ("sglang", "0.5.23", "short answers", ())


async def test_an_sglang_without_metrics_is_told_the_flag() -> None:
    found = await look(engines.sglang_without_metrics())
    assert (found.engine, found.version, found.failure) == ("sglang", "0.5.23", "not_found")
    assert found.advice == ("start it with --enable-metrics, without it there is no metrics page",)


async def test_an_sglang_with_a_key_gives_its_page_and_asks_for_the_key_for_the_rest(key_file: Path) -> None:
    without = await look(engines.sglang(key=True))
    assert (without.engine, without.version, without.fast_lane) == ("sglang", "", "whole pages")
    assert "--bearer-file" in without.advice[0]
    found = await look(engines.sglang(key=True), key_file=key_file)
    assert (found.version, found.fast_lane, found.advice) == ("0.5.23", "short answers", ())


async def test_an_sglang_without_metrics_behind_a_key_is_a_guess_that_says_so(key_file: Path) -> None:
    found = await look(engines.sglang_without_metrics(key=True))
    assert (found.engine, found.failure) == ("", "not_found")
    assert found.advice[0].startswith("if this is SGLang: start it with --enable-metrics")
    assert "other paths answer 401" in found.advice[1]
    known = await look(engines.sglang_without_metrics(key=True), key_file=key_file)
    assert (known.engine, known.version) == ("sglang", "0.5.23")


async def test_an_old_sglang_is_known_by_its_models() -> None:
    found = await look(engines.engine({"/v1/models": engines.MODELS}))
    assert (found.engine, found.version) == ("sglang", "")


async def test_a_tgi_is_known_by_its_info() -> None:
    found = await look(engines.tgi())
    assert (found.engine, found.version, found.fast_lane) == ("tgi", "3.3.7", "whole pages")
    assert found.missing["kv_cache_usage_ratio"] == "tgi has no source for it"


async def test_a_page_behind_a_key_asks_for_it(key_file: Path) -> None:
    found = await look(engines.locked())
    assert (found.failure, len(found.advice)) == ("unauthorized", 1)
    assert "--bearer-file" in found.advice[0]
    assert (await look(engines.locked(), key_file=key_file)).engine == "vllm"


@pytest.mark.parametrize(
    ("script", "failure", "advice"),
    [(hang, "timeout", "is the engine up"), (say(answer(b"<html>", headers={"Content-Type": "text/html"})), "not_metrics",
      "the path of"),
     (say(answer(b"", "302 Found", {"Location": "http://login.invalid/"})), "redirect", "the path of"),
     (say(answer(b"", "500 Oh")), "http_status", "")],
)  # fmt: skip
async def test_other_failures_are_named_with_what_helps(script: Script, failure: str, advice: str) -> None:
    found = await look(script, deadline=0.3 if script is hang else 5.0)
    assert found.failure == failure
    assert " ".join(found.advice).startswith(advice)


async def test_lines_for_people_hold_every_part() -> None:
    lines = "\n".join(as_text(await look(engines.sglang_without_metrics())))
    assert "engine       sglang 0.5.23" in lines
    assert "failure      not_found: HTTP status 404" in lines
    assert "advice       start it with --enable-metrics" in lines


# --- a configuration to start from ----------------------------------------------------------------------------------------------


async def test_a_starter_is_a_good_configuration_with_a_pool_for_each_model() -> None:
    async with (
        serving(engines.vllm()) as one, serving(engines.tgi()) as two,
        open_fetch(deadline_seconds=5.0, max_body=1 << 24) as client,
    ):  # fmt: skip
        urls = [one.url, two.url, f"http://127.0.0.1:{closed_port()}/metrics"]
        probes = [await probe(target(url), client, SystemClock()) for url in urls]
    text = write_starter(probes, cluster="it's mine")
    config = parse_config(text)
    assert config.cluster == "it's mine"
    assert {one.url: one.pool for one in config.targets} == {urls[0]: "tiny-llama", urls[1]: "bloom-560m", urls[2]: "unknown"}
    assert "# vllm 0.32.0" in text
    assert "# refused when asked: cannot connect: Connection refused" in text
    assert parse_config(write_starter([], cluster="c")).targets


@pytest.mark.parametrize(
    ("model", "pool"),
    [("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b-instruct"), ("a b/ü!c", "c"), ("///", "unknown"), ("x" * 99, "x" * 63)],
)
def test_a_pool_is_named_after_its_model(model: str, pool: str) -> None:
    assert pool_name(model) == pool


@pytest.mark.parametrize("nasty", ["a\nb: c", "# x", "'; drop", "\x1b[2J", "yes", "5", "&a *b", "{x}"])
def test_nothing_that_an_engine_says_changes_the_meaning_of_a_starter(nasty: str) -> None:
    found = Probe(url="http://h:1/metrics", engine="vllm", version=nasty, model=nasty, failure="", missing={})
    bad = Probe(url="http://h:2/metrics", failure="other", detail=nasty, missing={}, advice=(nasty,))
    config = parse_config(write_starter([found, bad], cluster="c"))
    assert len(config.targets) == 2
