"""From a fault in the fleet to somebody's pager: the right alerts and only those, inhibited ones not, and how long it takes."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real import programs
from tests.real.faulty_fleet import FaultyFleet, running_fleet
from tests.real.promapi import vector
from tests.real.running import Running, free_port, wait_until
from tests.real.watched import job, routing, running_exporter, start_prometheus
from tests.real.webhook import Hook, running_hook

pytestmark = pytest.mark.real
PATIENCE_SECONDS = 45.0
What = tuple[str, str]

# What each fault must and may cause; anything else is a false alarm. A stuck or slow pod holds requests, so that its queue
# may or may not have grown enough by the end.
MUST: dict[str, set[What]] = {
    "kill": {("LLMPodMetricsStale", "dying-0"), ("LLMPoolReportingLow", "dying")},
    "freeze": {("LLMPodStuck", "frozen-0")},
    "slow": {("LLMPoolSaturated", "full"), ("LLMPodQueueLong", "full-0"), ("LLMPodQueueLong", "full-1"),
             ("LLMPoolTTFTBudgetBurn", "full")},
    "fail": {("LLMPoolErrorRateHigh", "failing"), ("LLMPoolAvailabilityBudgetBurn", "failing")},
}  # fmt: skip
MAY: set[What] = {
    ("LLMPodQueueLong", "frozen-0"), ("LLMPoolSaturated", "frozen"), ("LLMPoolImbalanced", "frozen"),
    ("LLMPoolITLBudgetBurn", "full"), ("LLMPoolE2EBudgetBurn", "full"), ("LLMFleetWatchdog", ""),
    ("LLMPoolTTFTBudgetBurn", "frozen"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watched:
    """A fleet under watch."""

    fleet: FaultyFleet
    hook: Hook
    prometheus: Running
    alertmanager: Running
    exporters: ExitStack


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    port = free_port()
    for name in ("prometheus", "alertmanager"):
        (tmp_path / name).mkdir()
    with (
        running_hook() as hook,
        running_fleet() as fleet,
        programs.start_alertmanager("", tmp_path / "alertmanager", routing(hook.url)) as alertmanager,
        ExitStack() as exporters,
    ):
        exporters.enter_context(running_exporter(tmp_path, fleet.write(tmp_path / "targets.json"), port=port))
        exporter = job([f"127.0.0.1:{port}"])
        with start_prometheus(exporter, tmp_path / "prometheus", alertmanager.address) as prometheus:
            yield Watched(fleet, hook, prometheus, alertmanager, exporters)


def sent(watched: Watched, since: float) -> set[What]:
    return watched.hook.firing(since) - MAY


def wait_for(watched: Watched, wanted: set[What], since: float) -> None:
    try:
        wait_until(lambda: wanted <= watched.hook.firing(since), PATIENCE_SECONDS, "alerts")
    except AssertionError as error:
        firing = {(one["metric"]["alertname"], one["metric"].get("pod") or one["metric"].get("pool"), one["metric"]["alertstate"])
                  for one in vector(watched.prometheus, "ALERTS")}  # fmt: skip
        raise AssertionError(f"missing {wanted - watched.hook.firing(since)}; ALERTS: {sorted(map(str, firing))}") from error


def test_faults_reach_people_and_nothing_else_does(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    wait_until(lambda: vector(watched.prometheus, 'min(pool:llm_slo_total:increase5m{slo="ttft"}) > 20'), 40, "traffic")
    wait_until(lambda: watched.hook.firing(), 20, "the watchdog")
    assert sent(watched, 0.0) == set(), "a healthy fleet alerts"

    began = {
        "kill": watched.fleet.do("kill", "dying-0"),
        "freeze": watched.fleet.do("freeze", "frozen-0"),
        "slow": watched.fleet.do("slow", "full-0", "full-1"),
        "fail": watched.fleet.do("fail", "failing-0", "failing-1"),
    }
    wanted = set().union(*MUST.values())
    wait_for(watched, wanted, began["kill"])
    assert sent(watched, 0.0) == wanted - MAY
    took = {what: watched.hook.first(what).at - began[kind] for kind, whats in MUST.items() for what in sorted(whats)}
    told_to_pager = {one.what for one in watched.hook.notices if one.receiver == "pager"}
    assert ("LLMPodStuck", "frozen-0") in told_to_pager
    assert ("LLMPodMetricsStale", "dying-0") not in told_to_pager

    stuck = watched.hook.first(("LLMPodStuck", "frozen-0"))
    assert stuck.annotations["description"].startswith("serving/frozen-0 of pool frozen in east shows work")
    assert stuck.annotations["runbook_url"] == "alerts/runbook.md#llmpodstuck"
    assert stuck.annotations["dashboard_url"].endswith("var-cluster=east&var-namespace=serving&var-pool=frozen&var-pod=frozen-0")
    watched.fleet.do("restore", "frozen-0")
    wait_until(lambda: stuck.what in watched.hook.resolved(), 30, "the end of the alert")

    stopped = time.monotonic()
    watched.exporters.close()
    wait_for(watched, {("LLMClusterSilent", "east")}, stopped)
    took["LLMClusterSilent", "east"] = watched.hook.first(("LLMClusterSilent", "east")).at - stopped
    stale = 'count(ALERTS{alertname="LLMPodMetricsStale", alertstate="firing"}) >= 10'
    wait_until(lambda: vector(watched.prometheus, stale), 20, "stale pods of a silent cluster")
    states = {(one["labels"]["alertname"], one["labels"].get("pod")): one["status"]["state"]
              for one in watched.alertmanager.get("/api/v2/alerts").json()}  # fmt: skip
    assert states["LLMPodMetricsStale", "steady-0"] == "suppressed"
    assert not {what for what in watched.hook.firing() if what[1].startswith("steady")}
    with capsys.disabled():
        print("\nseconds from fault to webhook (waits shortened as in tests/real/slo.yaml):")
        for (alert, subject), seconds in sorted(took.items(), key=lambda item: item[1]):
            print(f"  {seconds:5.1f}  {alert} {subject}")
