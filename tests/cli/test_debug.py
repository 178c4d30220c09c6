"""/debug/target: what is known of a pod and where it comes from, for this machine or with the token only."""

import json
from pathlib import Path

import pytest

from exporter.debug import allowed
from tests.cli.process import run_beside, serve
from tests.cli.test_commands import write
from tests.cli.test_serve import QUICK, get
from tests.net import engines
from tests.net.scripted import Server, answer, say, serving


async def test_a_pod_is_explained_from_its_page_of_this_moment(tmp_path: Path) -> None:
    async with (
        serving(engines.vllm()) as one, serving(say(answer(b"", "503 Loading"))) as two,
        serve(Path(write(tmp_path, one.url, two.url, scrape=QUICK))) as process,
    ):  # fmt: skip
        await process.line("state changed", "state=fresh", one.url)
        await process.line("reason=http_status", two.url)
        pod = f"127.0.0.1:{one.port}"
        for name in (pod, one.url):
            status, headers, body = await get(process.base, f"/debug/target?pod={name}")
            assert (status, headers["content-type"].partition(";")[0]) == (200, "application/json")
            (target,) = json.loads(body)["targets"]
            assert (target["pod"], target["state"], target["engine"], target["failure"]) == (pod, "fresh", "vllm", None)
            signals = {signal["signal"]: signal for signal in target["page"]["signals"]}
            running = signals["requests_running"]
            assert running["lines"][0].startswith("vllm:num_requests_running{")
            assert running["published"]["llm_pod_requests_running"] == running["value"]
            assert signals["adapters_waiting"]["absent"]
        (target,) = json.loads((await get(process.base, f"/debug/target?pod={two.url}"))[2])["targets"]
        assert target["failure"]["reason"] == target["page"]["failure"]["reason"] == "http_status"
        assert (await get(process.base, "/debug/target?pod=nobody"))[0] == 404
        for query in ("", "?pod=a&pod=b", "?name=a", "?pod=a&x=1"):
            assert (await get(process.base, f"/debug/target{query}"))[0] == 400


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_look(peer: str) -> None:
    assert allowed(peer, "", "")


@pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", None, "unix"])
def test_others_may_not_without_the_token(peer: str | None, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    for authorization in ("", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "secret", "Bearer sécret"):
        assert not allowed(peer, authorization, str(file))
        assert not allowed(peer, authorization, "")
    assert allowed("10.0.0.1", "Bearer secret", str(file))
    assert allowed("10.0.0.1", "bearer secret", str(file))
    file.write_text("")
    assert not allowed("10.0.0.1", "Bearer ", str(file)), "an empty file opens nothing"
    assert not allowed("10.0.0.1", "Bearer secret", str(tmp_path / "none"))


async def test_probe_and_explain_as_json(tmp_path: Path) -> None:
    async with serving(engines.sglang()) as server:
        probed = await run_beside("probe", server.url, "--output", "json")
        explained = await run_beside("explain", server.url, "--output", "json")
    assert (probed.code, probed.err) == (explained.code, explained.err) == (0, "")
    assert json.loads(probed.out)["version"] == "0.5.23"
    signals = {one["signal"]: one for one in json.loads(explained.out)["signals"]}
    assert signals["requests_waiting"]["alias"] == "num_queue_reqs"


async def test_explain_says_why_a_page_cannot_be_read(tmp_path: Path) -> None:
    async with serving(say(answer(b"<html>"))) as server:
        done = await run_beside("explain", server.url)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{server.url}: not_metrics: ")


@pytest.mark.parametrize(
    "arguments",
    [("probe", "h:1"), ("probe", "http://me:SECRET@h:1"), ("explain", "tiny-0"), ("init", "ftp://h"),
     ("probe", "http://h:1", "--bearer-file", "/none"),
     ("probe", "http://h:1", "--deadline", "5"), ("top", "--config", "CONFIG", "--every", "2"),
     ("top", "--config", "CONFIG", "--times", "0")],
)  # fmt: skip
async def test_wrong_usage_is_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = write(tmp_path)
    done = await run_beside(*(config if one == "CONFIG" else one for one in arguments))
    assert (done.code, done.out) == (2, "")
    assert "Error: " in done.err
    assert "SECRET" not in done.err


async def test_top_prints_one_object_a_line(tmp_path: Path) -> None:
    async with serving(engines.vllm()) as server:
        done = await run_beside(
            "top", "--config", write(tmp_path, server.url), "--times", "2", "--every", "10ms", "--output", "json"
        )
    assert (done.code, done.err) == (0, "")
    looks = [json.loads(line) for line in done.out.splitlines()]
    assert [one["targets"][0]["state"] for one in looks] == ["fresh", "fresh"]
    assert looks[0]["at"] <= looks[1]["at"]


async def test_top_ends_with_ctrl_c(tmp_path: Path) -> None:
    import asyncio
    import signal

    from tests.cli.process import COMMAND, environment

    async with serving(engines.vllm()) as server:
        process = await asyncio.create_subprocess_exec(COMMAND, "top", "--config", write(tmp_path, server.url), "--every", "10ms",
                                                       stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                                                       env=environment())  # fmt: skip
        assert process.stdout is not None
        for _ in range(6):
            await asyncio.wait_for(process.stdout.readline(), 30)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 10)
    assert (process.returncode, err) == (0, b"")


async def test_the_key_of_an_engine_is_in_no_output_of_ours(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(engines.KEY)
    seen: list[Server] = []
    async with serving(engines.locked()) as server:
        seen.append(server)
        path = tmp_path / "fleet.yaml"
        path.write_text(
            f"cluster: c\nscrape: {QUICK}\nstatic_targets:\n- {{pool: p, urls: ['{server.url}'], auth: {{bearer_file: key}}}}\n"
        )
        async with serve(path, "--log-format", "json") as process:
            await process.line('"state": "fresh"')
            pages = [(await get(process.base, where))[2] for where in ("/metrics", "/", "/picker/v1/endpoints",
                     f"/debug/target?pod={server.url}")]  # fmt: skip
            (tmp_path / "key").write_text("another-key")
            await process.line('"reason": "unauthorized"')
            lines = list(process.lines)
    assert any(engines.KEY in request for request in seen[0].requests)
    for secret in (engines.KEY, "another-key"):
        assert not any(secret.encode() in page for page in pages)
        assert not any(secret in line for line in lines)
