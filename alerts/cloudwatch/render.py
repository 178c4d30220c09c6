"""The CloudFormation templates as files."""

from collections.abc import Collection, Iterator
from pathlib import Path

from alerts.cloudwatch.model import Tells, everything
from alerts.cloudwatch.stack import HEADER, as_text
from alerts.cloudwatch.template import templates
from alerts.slo import DEFAULTS, Settings
from alerts.stale import stale


def write(out: Path, settings: Settings = DEFAULTS, tells: Tells = everything) -> list[Path]:
    """Write `<name>.template.yaml` of each into `out`, made if missing, and return the paths. Same rules, same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, template in templates(settings, tells).items():
        path = out / f"{name}.template.yaml"
        path.write_text(as_text(template), encoding="utf-8")
        written.append(path)
    return written


def left_over(out: Path, written: Collection[Path]) -> Iterator[Path]:
    """Templates of ours from other settings."""
    return stale((out,), (HEADER,), written)
