"""What went wrong elsewhere: each case once, as it would meet this program."""

import asyncio
import json
import os
import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from collector.auth import Auth, Contexts, Tls
from collector.clock import SystemClock
from collector.http import Client, open_fetch
from collector.model import Failure, Reading, Target
from collector.read import read
from collector.reasons import FailureReason
from collector.signals import Lane
from exporter.app import Scraping
from exporter.config import Config, load_config, parse_config
from exporter.hub import Hub
from exporter.publish.prometheus import Format, render
from tests.make import at, reading, values
from tests.make import target as make_target
from tests.net.scripted import answer, hang, say, serving
from tests.net.test_fetch import MIB, closed_port, target

DESCRIPTORS = Path("/proc/self/fd")


async def look(client: Client, one: Target) -> Reading | Failure:
    return await read(one, Lane.FULL, fetch=client, clock=SystemClock())


async def until(hub: Hub) -> None:
    """Wait until every target was tried."""
    for _ in range(2000):
        if not hub.untried():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(hub.untried())


async def scrape(config: Config) -> Hub:
    """Read all targets of a configuration, those in its files too, until each was tried."""
    hub = Hub(config, SystemClock())
    async with open_fetch(deadline_seconds=config.deadline, max_body=config.max_body) as client:
        scraping = Scraping(hub, client, hub.clock)
        scraping.configure(config)
        try:
            await hub.roster.settled()
            await until(hub)
        finally:
            scraping.stop()
    return hub


async def test_a_netrc_entry_does_not_replace_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password other\ndefault login me password other\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "token").write_text("mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with serving(say(answer())) as server, open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
        one = replace(target(server.url), auth=Auth(bearer_file=str(tmp_path / "token")))
        assert isinstance(await look(client, one), Reading)
    sent = [line for line in server.requests[0].split("\r\n") if line.lower().startswith("authorization")]
    assert sent == ["Authorization: Bearer mine"]


async def test_a_pod_with_one_open_port_of_eight_is_up_and_says_which_are_not(tmp_path: Path) -> None:
    async with serving(say(answer())) as server:
        ports = [server.port, *(closed_port() for _ in range(7))]
        file = tmp_path / "targets.json"
        file.write_text(
            json.dumps([{"targets": [f"127.0.0.1:{port}" for port in ports], "labels": {"pool": "p", "pod": "tiny-0"}}])
        )
        (tmp_path / "fleet.yaml").write_text(
            "cluster: c\nscrape: {fast_interval: 20ms, full_interval: 40ms}\nfile_targets: [targets.json]\n"
        )
        hub = await scrape(load_config(tmp_path / "fleet.yaml"))
        page, _ = render(hub.snapshot(), Format.TEXT, max_pods=10)
        own = hub.own.render(Format.TEXT)
    labels = 'cluster="c",namespace="default",pool="p",pod="tiny-0"'
    assert f'llm_pod_state{{{labels},state="fresh"}} 1\n' in page
    assert f"llm_pod_requests_running{{{labels}}} 3\n" in page
    assert f'llm_pod_targets{{{labels},state="fresh"}} 1\n' in page
    assert f'llm_pod_targets{{{labels},state="down"}} 7\n' in page
    assert page.count("llm_pod_state{") == 6, "one pod"
    up = {line.partition('address="127.0.0.1:')[2].partition('"')[0]: line[-3:] for line in own.splitlines()
          if line.startswith("llm_exporter_target_up{")}  # fmt: skip
    assert up == {str(port): "1.0" if port == server.port else "0.0" for port in ports}


def test_ten_thousand_pods_make_a_bounded_page() -> None:
    targets = tuple(make_target(f"p{number}", f"pool-{number % 5}") for number in range(10_000))
    hub = Hub(parse_config("cluster: c").with_targets(targets), SystemClock())
    for one in targets:
        hub.take(reading(one, values(requests_running=1.0, requests_waiting=0.0, kv_cache_usage_ratio=0.5), at(0)))
    snapshot = hub.snapshot()
    begun = time.process_time()
    page, samples = render(snapshot, Format.TEXT, max_pods=hub.max_pods)
    spent = time.process_time() - begun
    assert page.count("llm_pod_info{") == 500
    assert samples < 500 * 30 + 6 * 200
    assert len(page) < 4 * MIB
    assert spent < 2.0
    assert "llm_pool_pods" in page


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors under /proc")
async def test_a_tls_server_that_never_shakes_hands_costs_the_deadline_and_no_descriptor() -> None:
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        one = replace(target(f"https://127.0.0.1:{deaf.getsockname()[1]}/metrics"), tls=Tls(insecure=True))
        counts = []
        async with open_fetch(deadline_seconds=0.03, max_body=MIB) as client:
            for _ in range(30):
                outcome = await look(client, one)
                assert isinstance(outcome, Failure)
                assert outcome.reason is FailureReason.TIMEOUT
                await asyncio.sleep(0)
                counts.append(len(os.listdir(DESCRIPTORS)))
    assert min(counts[-10:]) - min(counts[:10]) <= 2, "sockets that are closing come and go; what stays is a leak"


async def test_many_targets_behind_one_authority_read_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    import ssl

    def count(_: Tls) -> ssl.SSLContext:
        nonlocal made
        made += 1
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr("collector.auth.make_context", count)
    contexts = Contexts()
    found = await asyncio.gather(*(contexts.context(Tls()) for _ in range(50)))
    assert made == 1
    assert len({id(context) for context, _ in found}) == 1


async def test_a_pod_that_comes_later_does_not_make_the_process_less_ready() -> None:
    async with serving(say(answer())) as one, serving(hang) as two:
        hub = Hub(parse_config("cluster: c").with_targets((target(one.url),)), SystemClock())
        assert hub.untried() == [one.url]
        async with open_fetch(deadline_seconds=5.0, max_body=MIB) as client:
            hub.take(await look(client, target(one.url)))
        assert hub.untried() == []
        hub.watch((target(one.url), target(two.url)))
        assert hub.untried() == []
