"""The living demo, pushed: through a Collector into Prometheus 3 by OTLP and into VictoriaMetrics by remote write.

Every query of every board and every rule has to answer there as it does where pages are scraped.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.real import programs
from tests.real.choosing import chosen_all
from tests.real.conftest import DEMO_SPEED, NewFolder
from tests.real.promapi import value, vector
from tests.real.running import Running, free_port, program, running, wait_until
from tests.real.test_boards import SILENT, Asked, Board, targets, unfed

pytestmark = [pytest.mark.real, pytest.mark.real_heavy]
ENOUGH_SECONDS = 25


@dataclass(frozen=True, slots=True)
class Path:
    """Both stores at the end of the path, and the exporter at its beginning."""

    prometheus: Running
    victoria: Running
    exporter: Running


@pytest.fixture(scope="module")
def path(victoria: Running, tmp_path_factory: NewFolder) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("path")
    (folder / "prometheus").mkdir()
    otlp, page, own = free_port(), free_port(), free_port()
    with programs.start_prometheus("3", [], folder / "prometheus", flags=["--web.enable-otlp-receiver"]) as prometheus:
        config = programs.write_yaml(folder / "otelcol.yaml", {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{otlp}"}}}},
            "exporters": {
                "prometheus": {"endpoint": f"127.0.0.1:{page}"},
                "otlp_http": {"metrics_endpoint": f"{prometheus.url}/api/v1/otlp/v1/metrics"},
                "prometheus_remote_write": {"http": {"endpoint": f"{victoria.url}/api/v1/write"}, "disable_scope_info": True},
            },
            "service": {
                "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["prometheus", "otlp_http",
                                                                               "prometheus_remote_write"]}},
                "telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1",
                                                                                            "port": own}}}}]}},
            },
        })  # fmt: skip
        port = free_port()
        demo = [sys.executable, "-m", "exporter", "demo", "--listen", f"127.0.0.1:{port}", "--speed", str(DEMO_SPEED),
                "--set", f"otlp.endpoint=http://127.0.0.1:{otlp}", "--set", "otlp.protocol=grpc",
                "--set", "otlp.interval=1s"]  # fmt: skip
        with (
            running(
                [program("otelcol"), f"--config={config}"], url=f"http://127.0.0.1:{page}", ready="/metrics", log=folder / "c"
            ),
            running(demo, url=f"http://127.0.0.1:{port}", ready="/readyz", log=folder / "demo") as exporter,
        ):
            enough = 'count_over_time(llm_cluster_requests_running{cluster="demo",job="demo/llm-fleet-exporter"}[10m])'
            wait_until(lambda: (value(prometheus, enough) or 0) >= ENOUGH_SECONDS, 90, f"{ENOUGH_SECONDS} pushes")
            yield Path(prometheus, victoria, exporter)


@pytest.mark.parametrize("store", ["prometheus", "victoria"])
def test_every_query_of_every_board_returns_data(store: str, path: Path, boards: Mapping[str, Board]) -> None:
    """Recorded series are made by rules, which Prometheus evaluates here and VictoriaMetrics does not."""
    asked, empty = Asked(getattr(path, store)), []
    for uid, board in boards.items():
        chosen = chosen_all(asked.store, board)
        for title, expression in targets(board):
            if store == "victoria" and ":llm_" in expression:
                continue
            if not asked.finds(expression, chosen) and not unfed(expression) and (uid, title) not in SILENT:
                empty.append((uid, title, expression))
    assert not empty


def test_rules_are_healthy_and_the_recorded_ones_return_data(path: Path) -> None:
    groups = path.prometheus.get("/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    assert recorded
    assert not [name for name in sorted(recorded) if not vector(path.prometheus, name)]


def test_the_push_counts_itself_and_loses_nothing(path: Path) -> None:
    page = path.exporter.get("/metrics").text
    lines = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith("llm_exporter_sink")
    }
    assert lines['llm_exporter_sink_batches_total{outcome="dropped",sink="otlp"}'] == 0
    assert lines['llm_exporter_sink_points_sent_total{sink="otlp"}'] > 10_000
    assert not [name for name, number in lines.items() if "failures" in name or ("rejected" in name and number)]
    assert value(path.prometheus, 'llm_exporter_sink_batches_total{outcome="sent",sink="otlp"}')
