"""A running `serve` follows its configuration and its target files; a bad one changes nothing and is said."""

import json
import signal
from pathlib import Path

from tests.cli.process import run, run_beside, serve
from tests.cli.test_commands import write
from tests.cli.test_serve import QUICK, get
from tests.net.scripted import answer, say, serving

SUCCESS = "llm_exporter_config_last_reload_successful"
SOURCE = 'llm_exporter_target_source_last_read_successful{source="targets.json"}'


async def value(base: str, name: str) -> str:
    page = (await get(base, "/metrics"))[2].decode()
    return next(line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(name))


async def urls(base: str) -> set[str]:
    return {one["address"] for one in json.loads((await get(base, "/picker/v1/endpoints"))[2])["endpoints"]}


async def test_a_changed_file_is_taken_over_and_a_bad_one_is_not(tmp_path: Path) -> None:
    async with serving(say(answer())) as one, serving(say(answer())) as two:
        path = Path(write(tmp_path, one.url, scrape=QUICK))
        async with serve(path) as process:
            await process.line("state changed", one.url)
            assert await value(process.base, SUCCESS) == "1.0"
            write(tmp_path, one.url, scrape="{}\nscrap: {}")
            await process.line("configuration not reloaded", "did you mean 'scrape'?")
            assert await value(process.base, SUCCESS) == "0.0"
            assert await urls(process.base) == {f"127.0.0.1:{one.port}"}
            write(tmp_path, one.url, two.url, scrape=QUICK)
            await process.line("configuration reloaded")
            await process.line("state changed", two.url)
            assert await value(process.base, SUCCESS) == "1.0"
            assert await urls(process.base) == {f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port}"}
            process.signal()
            assert await process.end(within=5.0) == 0


async def test_sighup_reads_the_file_also_when_it_looks_the_same(tmp_path: Path) -> None:
    async with serving(say(answer())) as one, serve(Path(write(tmp_path, one.url, scrape=QUICK))) as process:
        process.signal(signal.SIGHUP)
        await process.line("configuration reloaded")
        (tmp_path / "fleet.yaml").unlink()
        process.signal(signal.SIGHUP)
        await process.line("configuration not reloaded", "cannot be read")
        assert await value(process.base, SUCCESS) == "0.0"
        process.signal()
        assert await process.end(within=5.0) == 0


async def test_other_intervals_and_limits_are_taken_over(tmp_path: Path) -> None:
    async with serving(say(answer())) as one:
        path = Path(write(tmp_path, one.url, scrape="{fast_interval: 2s, stale_after: 5m, down_after: 5m}"))
        async with serve(path) as process:
            await process.line("state changed", one.url)
            write(tmp_path, one.url, scrape="{fast_interval: 10ms, deadline: 200ms, max_body: 16B}")
            await process.line("reason=body_too_large")


async def test_target_files_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"

    def targets(*ports: int) -> None:
        file.write_text(
            json.dumps([{"targets": [f"127.0.0.1:{port}" for port in ports], "labels": {"pool": "p", "pod": "tiny-0"}}])
        )

    async with serving(say(answer())) as one, serving(say(answer())) as two:
        targets(one.port)
        path = tmp_path / "fleet.yaml"
        path.write_text(f"cluster: c\nscrape: {QUICK}\nfile_targets: [targets.json]\n")
        async with serve(path) as process:
            assert "targets=1" in await process.line("serving")
            await process.line("state changed", one.url)
            file.write_text('[{"targets": ["127.0.')
            await process.line("targets cannot be read", "not valid JSON")
            assert await value(process.base, SOURCE) == "0.0"
            assert await urls(process.base) == {f"127.0.0.1:{one.port}"}
            targets(one.port, two.port)
            await process.line("state changed", two.url)
            page = (await get(process.base, "/metrics"))[2].decode()
            assert 'llm_pod_requests_running{cluster="c",namespace="default",pool="p",pod="tiny-0"} 6\n' in page
            assert f"{SOURCE} 1.0" in page
            targets(two.port)
            while await urls(process.base) != {f"127.0.0.1:{two.port}"}:
                pass
            page = (await get(process.base, "/metrics"))[2].decode()
            assert 'llm_pod_requests_running{cluster="c",namespace="default",pool="p",pod="tiny-0"} 3\n' in page
            assert f'address="127.0.0.1:{one.port}"' not in page, "a target that went leaves no series"


async def test_environment_and_flags_reach_every_command(tmp_path: Path) -> None:
    path = write(tmp_path)
    done = run("check-config", path, "--set", "scrape.fast_interval=70ms", env={"LLM_FLEET_EXPORTER_CLUSTER": "over"})
    assert (done.code, done.err) == (0, "")
    assert "cluster over, 0 targets in 0 pools, read every 70ms" in done.out
    done = run("check-config", path, env={"LLM_FLEET_EXPORTER_CLUTSER": "over"})
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'LLM_FLEET_EXPORTER_CLUSTER'?" in done.err
    assert run("once", "--output", "json", env={"LLM_FLEET_EXPORTER_CONFIG": path}).code == 0


async def test_once_says_which_target_file_cannot_be_read_and_reads_the_rest(tmp_path: Path) -> None:
    async with serving(say(answer())) as one:
        (tmp_path / "a.json").write_text(json.dumps([{"targets": [f"127.0.0.1:{one.port}"], "labels": {"pool": "p"}}]))
        (tmp_path / "b.json").write_text("[")
        (tmp_path / "fleet.yaml").write_text("cluster: c\nfile_targets: ['*.json']\n")
        done = await run_beside("once", "--config", str(tmp_path / "fleet.yaml"))
    assert done.code == 1
    assert "fresh" in done.out
    assert done.err.startswith(f"{tmp_path}/b.json: not valid JSON: ")
    assert done.err.count("\n") == 1


def test_check_config_looks_into_target_files_and_notes_what_may_surprise(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("cluster: c\nscrape: {deadline: 3s}\nfile_targets: ['*.json']\n")
    (tmp_path / "a.json").write_text('[{"targets": ["h:1", "h:2"], "labels": {"pool": "p"}}]')
    done = run("check-config", str(path))
    assert done.code == 0
    assert "2 targets in 1 pools" in done.out
    assert "note: scrape.deadline (3s) is not shorter than scrape.stale_after (3s)" in done.out
    (tmp_path / "b.json").write_text('[{"targets": ["h:2"], "labels": {"pool": "p"}}]')
    done = run("check-config", str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"{tmp_path}/b.json[0].targets[0]: http://h:2/metrics stands already at {tmp_path}/a.json[0].targets[1]; "
                        "a target belongs to one place\n")  # fmt: skip
