"""The installed command as a process of its own: run to its end, or served and talked to."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("llm-fleet-exporter"))
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a run ended."""

    code: int
    out: str
    err: str


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", **(more or {})}


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Done:
    """Run a command that talks to nobody."""
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=environment(env), stdin=subprocess.DEVNULL
    )
    return Done(done.returncode, done.stdout, done.stderr)


async def run_beside(*arguments: str, env: Mapping[str, str] | None = None) -> Done:
    """Run a command whose targets live in this loop."""
    process = await asyncio.create_subprocess_exec(
        COMMAND, *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env)
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@dataclass(slots=True)
class Serving:
    """A running `serve`: its base URL, and the lines it has logged."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    base: str = ""
    ended: bool = False

    async def line(self, *parts: str) -> str:
        """Wait for a logged line that holds all parts."""

        def found() -> str | None:
            return next((line for line in self.lines if all(part in line for part in parts)), None)

        async with self.news:
            await asyncio.wait_for(self.news.wait_for(lambda: found() is not None or self.ended), PATIENCE)
        line = found()
        assert line is not None, f"{parts} not among {self.lines}"
        return line

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def end(self, within: float = PATIENCE) -> int:
        return await asyncio.wait_for(self.process.wait(), within)

    async def listen(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            async with self.news:
                self.lines.append(raw.decode().rstrip("\n"))
                self.news.notify_all()
        async with self.news:
            self.ended = True
            self.news.notify_all()


@asynccontextmanager
async def serve(config: Path, *arguments: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Serving]:
    """Run `serve` on a free port until the block ends."""
    process = await asyncio.create_subprocess_exec(
        COMMAND, "serve", "--config", str(config), "--listen", "127.0.0.1:0", *arguments,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env),
    )  # fmt: skip
    serving = Serving(process)
    ears = asyncio.create_task(serving.listen())
    try:
        line = await serving.line("serving", "http://127.0.0.1:")
        match = re.search(r"http://127\.0\.0\.1:[0-9]+", line)
        assert match is not None
        serving.base = match[0]
        yield serving
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await ears
        assert process.stdout is not None
        await process.stdout.read()
