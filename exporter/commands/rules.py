"""The flag that names what users set of the rules, and what is read from there."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.commands.options import FILE

if TYPE_CHECKING:
    from alerts.slo import Settings

RULES = click.option(
    "--config", "path", default=None, type=FILE, help="Objectives, thresholds and windows of the rules (YAML; docs/alerts.md)."
)


def read_settings(path: Path | None) -> "Settings":
    """What rules and boards go by: of the file, or what ships; a wrong file ends with exit code 2."""
    from alerts.settings import SettingsError, load_settings
    from alerts.slo import DEFAULTS

    try:
        return DEFAULTS if path is None else load_settings(path)
    except SettingsError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
