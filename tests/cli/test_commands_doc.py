"""docs/commands.md: every command is there, and prints what stands there.

`--update-golden` writes what was printed into the page, where it is shown whole.
"""

import asyncio
import contextlib
import re
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import click
import pytest

from exporter.cli import main
from tests.cli.process import COMMAND, environment
from tests.net import engines
from tests.net.scripted import Script, Server, serving
from tests.net.test_fetch import closed_port

DOC = Path(__file__).parents[2] / "docs" / "commands.md"
BLOCK = re.compile(r"```console( [^\n]*)?\n\$ (llm-fleet-exporter [^\n]*)\n(.*?)```", re.DOTALL)
BLOCKS = [(match[2], match[1] or "", match[3]) for match in BLOCK.finditer(DOC.read_text(encoding="utf-8"))]
SERVERS = {18000: engines.vllm, 18001: engines.sglang, 18002: engines.sglang_without_metrics,
           18003: engines.vllm_without_statistics, 18004: engines.locked}  # fmt: skip
"""Ports of the page, as many digits as those that the system hands out, and what answers there."""


@pytest.fixture
async def ports() -> AsyncIterator[dict[str, str]]:
    """Addresses of the page and true ones."""
    by_port: dict[int, Script] = {}

    async def script(server: Server, writer: asyncio.StreamWriter) -> None:
        await by_port[server.port](server, writer)

    async with AsyncExitStack() as stack:
        opened = sorted([(await stack.enter_async_context(serving(script))).port for _ in SERVERS])  # in the order of the page
        by_port |= {port: engine() for port, engine in zip(opened, SERVERS.values(), strict=True)}
        true = dict(zip((*SERVERS, 18009), (*opened, closed_port()), strict=True))
        yield {f"127.0.0.1:{shown}": f"127.0.0.1:{port}" for shown, port in true.items()}


@pytest.fixture
def folder(tmp_path: Path, ports: dict[str, str]) -> Path:
    example = re.search(r"```yaml\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    fleet = example[1]
    files = {"fleet.yaml": fleet, "one.yaml": fleet.replace(', "http://127.0.0.1:18001"', ""),
             "failing.yaml": fleet.replace("18001", "18002"), "misspelled.yaml": fleet.replace("urls", "url")}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(translate(text, ports))
    (tmp_path / "key.txt").write_text(engines.KEY)
    return tmp_path


def translate(text: str, names: dict[str, str]) -> str:
    for one, other in names.items():
        text = text.replace(one, other)
    return text


def as_shown(text: str, ports: dict[str, str]) -> str:
    """True output as the page shows it: its addresses, a fixed time."""
    text = translate(text, {true: shown for shown, true in ports.items()})
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T12:00:00.000Z", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b(?!\.)", "12:00:00", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def fits(expected: str, printed: str) -> bool:
    """Whether the output is as expected; a line `...` stands for any number of lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(parts), printed) is not None


def test_the_wildcard_can_fail() -> None:
    assert fits("a\n...\nd\n", "a\nb\nc\nd\n")
    assert not fits("a\n...\nd\n", "a\nb\nc\n")
    assert not fits("a\n", "a\nb\n")


def test_every_command_is_shown() -> None:
    shown = {command.split()[1] for command, _, _ in BLOCKS}
    assert shown == set(main.list_commands(click.Context(main)))


@pytest.mark.parametrize(
    ("command", "how", "expected"), BLOCKS, ids=[f"{number}-{block[0].split()[1]}" for number, block in enumerate(BLOCKS)]
)
async def test_the_output_is_as_shown(
    command: str, how: str, expected: str, ports: dict[str, str], folder: Path, request: pytest.FixtureRequest
) -> None:
    arguments = shlex.split(translate(command, ports))[1:]
    if "serve" in how:
        code, printed = await run_and_end(arguments, folder, ports, lines=expected.count("\n") - expected.count("stopping"))
    else:
        code, printed = await run(arguments, folder)
    printed = as_shown(printed, ports)
    if request.config.getoption("--update-golden") and "\n...\n" not in expected and expected != printed:
        text = DOC.read_text(encoding="utf-8")
        DOC.write_text(text.replace(f"$ {command}\n{expected}```", f"$ {command}\n{printed}```", 1), encoding="utf-8")
        expected = printed
    assert fits(expected, printed), printed
    assert code == int(re.sub(r"\D", "", how) or 0)


async def run(arguments: list[str], folder: Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        COMMAND, *arguments, cwd=folder, env=environment(), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, (out + err).decode()


async def run_and_end(arguments: list[str], folder: Path, ports: dict[str, str], *, lines: int) -> tuple[int, str]:
    """Run what does not end by itself until it has printed so many lines, then end it. Its port becomes that of the page."""
    process = await asyncio.create_subprocess_exec(
        COMMAND, *arguments, "--listen", "127.0.0.1:0", cwd=folder, env=environment(), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    printed: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while len(printed) < lines:
                printed.append((await process.stdout.readline()).decode())
    process.send_signal(signal.SIGTERM)
    rest = (await process.stdout.read()).decode()
    code = await asyncio.wait_for(process.wait(), 10)
    text = "".join(printed) + rest
    if (bound := re.search(r"(?:url=|page +)http://(127\.0\.0\.1:\d+)", text)) is not None:
        ports["127.0.0.1:9840"] = bound[1]
    return code, text
