"""Everything between engines and people as real processes: exporters on a faulty fleet, Prometheus, Alertmanager, a webhook."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from alerts.alertmanager import example
from alerts.model import alerts_of
from alerts.render import write
from alerts.rules import groups
from alerts.settings import load_settings
from alerts.slo import Settings
from tests.real import programs
from tests.real.running import Running, running

SETTINGS = Path(__file__).with_name("slo.yaml")
# Judged sooner than by default, as the fleet lives faster.
SCRAPE = {"fast_interval": "500ms", "full_interval": "1s", "no_progress_after": "4s", "down_after": "4s", "warming_for": "5s"}


@contextmanager
def running_exporter(
    folder: Path, targets: Path, *, port: int, cluster: str = "east", scrape: Mapping[str, str] = SCRAPE
) -> Iterator[Running]:
    """An exporter of a cluster that follows a file of targets."""
    config = folder / f"exporter-{port}.yaml"
    config.write_text(
        yaml.safe_dump({"cluster": cluster, "scrape": dict(scrape), "file_targets": [str(targets)]}), encoding="utf-8"
    )
    command = [sys.executable, "-m", "exporter", "serve", "--config", str(config), "--listen", f"127.0.0.1:{port}"]
    with running(command, url=f"http://127.0.0.1:{port}", ready="/readyz", log=folder / f"exporter-{port}.log") as exporter:
        yield exporter


def render(folder: Path, settings: Settings | None = None) -> list[Path]:
    """The rule files of the test's own settings."""
    rules = folder / "rendered"
    write(rules, settings=settings or load_settings(SETTINGS))
    return sorted(rules.glob("*.yaml"))


def routing(hook: str) -> dict[str, Any]:
    """The shipped example for Alertmanager, its receivers at the hook, and waits that fit into a test."""
    config = example(alerts_of(groups(load_settings(SETTINGS))))
    for receiver in config["receivers"]:
        for one in receiver.get("webhook_configs", ()):
            one["url"] = f"{hook}/{receiver['name']}"
    for route in [config["route"], *config["route"]["routes"][0]["routes"]]:
        route["group_interval"] = "1s"
        route["group_wait"] = {"10s": "1s", "30s": "4s"}.get(route.get("group_wait", "10s"), "0s")
    return config


def job(exporters: Sequence[str], labels: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    """The scrape job of the README on these addresses, each with labels of its own."""
    groups = [{"targets": [address], "labels": dict((labels or {}).get(address, {}))} for address in exporters]
    return {"job_name": "llm-fleet", "honor_labels": True, "static_configs": groups}


def start_prometheus(exporters: dict[str, Any], folder: Path, alertmanager: str = "", settings: Settings | None = None) -> Any:
    """Prometheus 3 with the test's rules."""
    return programs.start_prometheus("3", [exporters], folder, alertmanager=alertmanager, rule_files=render(folder, settings))
