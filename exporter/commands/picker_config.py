"""`render picker-config`: what an endpoint picker is told of each pool."""

import sys
from pathlib import Path

import click

from exporter.commands.options import CONFIG, OUT, SET, load
from exporter.commands.result import report, run
from exporter.units import parse_duration

_PICKERS_FLOOR_SECONDS = 0.05


@click.command("picker-config")
@CONFIG
@SET
@OUT
@click.option("--picker", type=click.Choice(["router", "gaie"]), default="router", show_default=True,
              help="llm-d-router 0.10, or the picker of gateway-api-inference-extension 1.5.")  # fmt: skip
@click.option("--profile", type=click.Choice(["default", "chat-latency", "batch-throughput"]), default="default",
              show_default=True, help="Scorers and their weights.")  # fmt: skip
@click.option("--sidecar-port", type=click.IntRange(1, 65535), default=None, help="Port of the sidecars; without one the picker "
              "reads the engines.")  # fmt: skip
@click.option("--sidecar-path", default="/picker", show_default=True, help="Where a sidecar's page stands.")
@click.option("--refresh", default="50ms", show_default=True, help="Pause between two polls of the picker.")
def render_picker_config(
    path: Path, settings: tuple[str, ...], out: Path, picker: str, profile: str, sidecar_port: int | None, sidecar_path: str,
    refresh: str,
) -> None:  # fmt: skip
    """Write an EndpointPickerConfig for each pool of the configuration; engines that are not declared are looked at."""
    from exporter.picker.bundle import Unfit, Wish
    from exporter.single import picker_configs

    config = load(path, settings)
    try:
        seconds = parse_duration(refresh)
    except ValueError as error:
        raise click.UsageError(f"--refresh: {error}") from error
    if seconds < _PICKERS_FLOOR_SECONDS:
        raise click.UsageError(f"--refresh: a picker polls every 50ms at most, got {refresh}")
    wish = Wish(
        picker=picker, profile=profile, sidecar_port=sidecar_port or 0, sidecar_path=sidecar_path, refresh_seconds=seconds
    )
    try:
        files, unseen = run(picker_configs(config, wish))
    except Unfit as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    if not files:
        raise click.UsageError(f"{path}: no targets, so no pool to write for")

    def write() -> list[Path]:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
        return [out / name for name in files]

    report(write, out)
    for pool in unseen:
        click.echo(f"{pool}: no engine answered and none is declared; check its file", err=True)
    sys.exit(1 if unseen else 0)
