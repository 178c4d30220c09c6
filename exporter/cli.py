"""The command line: results on stdout, complaints on stderr, exit code 0 done, 1 failed at its work, 2 wrong usage."""

import os
import sys
from typing import Any

import click

from exporter import __version__
from exporter.commands.cloudwatch import cloudwatch
from exporter.commands.cloudwatch_alarms import alarms
from exporter.commands.cloudwatch_boards import dashboards
from exporter.commands.configuring import check_config, init
from exporter.commands.lint import lint
from exporter.commands.looking import explain, once, probe, top
from exporter.commands.picker_config import render_picker_config
from exporter.commands.process import demo, serve
from exporter.commands.render import render


class _Commands(click.Group):
    """Says in one line when a result cannot be written: a full disk is no fault of ours."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                sys.stdout.flush()
        except OSError as error:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            click.echo(f"cannot write the result: {error.strerror or error}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="llm-fleet-exporter")
def main() -> None:
    """Signals of vLLM, SGLang and TGI pods, pools and clusters, for Prometheus, Grafana and the endpoint picker."""


for command in (serve, once, check_config, probe, explain, init, top, demo, render, lint, cloudwatch):
    main.add_command(command)
cloudwatch.add_command(dashboards)
cloudwatch.add_command(alarms)
render.add_command(render_picker_config)
