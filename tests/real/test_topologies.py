"""One exporter, two shards, a pair, a rolling restart, on the same fleet at the same time: the rules give one answer."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from alerts.settings import load_settings
from tests.real.faulty_fleet import FaultyFleet, running_fleet
from tests.real.promapi import vector
from tests.real.running import Running, free_port, wait_until
from tests.real.watched import SETTINGS, job, running_exporter, start_prometheus

pytestmark = [pytest.mark.real, pytest.mark.real_heavy]

CLUSTERS = ("one", "shards", "pair", "rolling")
# While a pair changes hands, nobody reads for a moment; and nine processes on a busy machine are late now and then.
SCRAPE = {"fast_interval": "2s", "full_interval": "2s", "deadline": "8s", "stale_after": "10s", "down_after": "12s",
          "no_progress_after": "10s", "warming_for": "5s"}  # fmt: skip
QUICK = load_settings(SETTINGS)
OUTAGES = (
    "LLMPoolReportingLow",
    "LLMPoolNoReportingPods",
    "LLMClusterSilent",
    "LLMClusterNoReportingPods",
    "LLMClusterReportingLow",
)
LATER = {name: replace(QUICK.changes[name], pending_seconds=20) for name in OUTAGES}
PATIENT = replace(QUICK, thresholds=replace(QUICK.thresholds, stale_seconds=25), changes={**QUICK.changes, **LATER})
# Standing still they are the same for all; the weights of shards round in the last digits.
STILL = ("pool:llm_pods_known:sum", "pool:llm_pods_reporting:sum", "pool:llm_reporting:ratio", "pool:llm_saturation:ratio",
         "pool:llm_kv_cache_usage:ratio", "pool:llm_requests_running:sum", "pool:llm_requests_waiting:sum")  # fmt: skip
# Read at moments of their own, and a restart loses what came about while nobody read.
MOVING = {"pool:llm_slo_total:increase5m": 0.35, "pool:llm_slo_error:ratio5m": 0.2}


MOVES = "max(changes(pool:llm_saturation:ratio[15s])) > 0 or max(changes(pool:llm_requests_running:sum[15s])) > 0"
FIRED = 'ALERTS{alertstate="firing", level=~"pod|pool|cluster", alertname!="LLMPodStuck"}'


@dataclass(slots=True)
class Topologies:
    """The exporters of each cluster by name, and their files of targets."""

    folder: Path
    fleet: FaultyFleet
    ports: dict[str, int] = field(default_factory=dict)
    running: dict[str, ExitStack] = field(default_factory=dict)

    def start(self, name: str, part: slice) -> None:
        """Start `cluster-place` with a part of the targets."""
        targets = self.fleet.write(self.folder / f"{name}.json", part)
        stack = self.running[name] = ExitStack()
        cluster = name.partition("-")[0]
        stack.enter_context(running_exporter(self.folder, targets, cluster=cluster, port=self.ports[name], scrape=SCRAPE))

    def stop(self, name: str) -> None:
        self.running.pop(name).close()


EXPORTERS = ("one-0", "shards-0", "shards-1", "pair-0", "pair-1", "rolling-0", "rolling-1")
ALL, NONE = slice(None), slice(0, 0)


@pytest.fixture
def topologies(tmp_path: Path) -> Iterator[Topologies]:
    with running_fleet() as fleet:
        found = Topologies(tmp_path, fleet, {name: free_port() for name in EXPORTERS})
        try:
            # Every other pod, so that each pool is in both shards.
            for name, part in (("one-0", ALL), ("shards-0", slice(0, None, 2)), ("shards-1", slice(1, None, 2)), ("pair-0", ALL),
                               ("pair-1", NONE), ("rolling-0", ALL)):  # fmt: skip
                found.start(name, part)
            yield found
        finally:
            for name in list(found.running):
                found.stop(name)


@pytest.fixture
def prometheus(topologies: Topologies, tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "prometheus").mkdir()
    addresses = {name: f"127.0.0.1:{port}" for name, port in topologies.ports.items()}
    shards = {addresses[f"shards-{shard}"]: {"shard": str(shard)} for shard in (0, 1)}
    jobs = job(list(addresses.values()), shards)
    with start_prometheus(jobs, tmp_path / "prometheus", settings=PATIENT) as prometheus:
        yield prometheus


def by_cluster(prometheus: Running, expression: str) -> dict[str, dict[Mapping[str, str], float]]:
    found: dict[str, dict[Mapping[str, str], float]] = {cluster: {} for cluster in CLUSTERS}
    for one in vector(prometheus, expression):
        labels = {name: text for name, text in one["metric"].items() if name not in ("cluster", "__name__")}
        found[one["metric"]["cluster"]][str(sorted(labels.items()))] = float(one["value"][1])  # type: ignore[index]
    return found


def test_all_topologies_give_one_answer(topologies: Topologies, prometheus: Running) -> None:
    fleet = topologies.fleet
    enough = 'count(pool:llm_slo_total:increase5m{slo="ttft"} > 20) >= 20'
    wait_until(lambda: vector(prometheus, enough), 60, "traffic of all pools in all clusters")

    fleet.do("kill", "dying-0")
    fleet.do("fail", "failing-0", "failing-1")
    fleet.do("freeze", "frozen-0")
    topologies.stop("pair-0")
    fleet.write(topologies.folder / "pair-1.json", ALL)
    topologies.stop("rolling-0")
    topologies.start("rolling-1", ALL)
    everywhere = " and ".join(
        f'(count(ALERTS{{alertname="{name}", alertstate="firing", level=~"pod|pool"}}) == 4)'
        for name in ("LLMPodMetricsStale", "LLMPoolErrorRateHigh", "LLMPodStuck", "LLMPoolReportingLow")
    )
    wait_until(lambda: vector(prometheus, everywhere), 60, "the same four alerts in four clusters")
    for name in ("steady-0", "steady-1", "full-0", "full-1", "dying-1", "failing-0", "failing-1", "frozen-1"):
        fleet.do("freeze", name)

    wait_until(lambda: not vector(prometheus, MOVES), 90, "standing still")
    # Pods of the last freeze stand still for each exporter from another moment on.
    ever = by_cluster(prometheus, f"max_over_time({FIRED}[5m])")
    assert ever["one"]
    for cluster in CLUSTERS[1:]:
        assert ever[cluster].keys() == ever["one"].keys(), cluster
    for name in STILL:
        answers = by_cluster(prometheus, name)
        assert len(answers["one"]) == 5, name
        for cluster in CLUSTERS[1:]:
            assert answers[cluster] == pytest.approx(answers["one"], rel=1e-9), (name, cluster)
    for name, tolerance in MOVING.items():
        answers = by_cluster(prometheus, name)
        for cluster in CLUSTERS[1:]:
            for labels, value in answers["one"].items():
                off = abs(answers[cluster][labels] - value)
                assert off <= (tolerance * value if "total" in name else tolerance), (name, cluster, labels)
    down = vector(prometheus, 'ALERTS{alertname="LLMExporterDown", alertstate="firing"}')
    gone = {f"127.0.0.1:{topologies.ports[name]}" for name in ("pair-0", "rolling-0")}
    assert {one["metric"]["instance"] for one in down} == gone
