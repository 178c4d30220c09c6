"""The fleet: routing, scripted faults, restarts, determinism."""

from __future__ import annotations

import pytest

from exporter.demo.config import A100, L40S, EngineConfig
from exporter.demo.fleet import Fleet, FleetClock
from exporter.demo.ledger import Tally
from exporter.demo.load import Mix, Wave
from exporter.demo.plan import Fault, FleetPlan, PodPlan, PoolPlan
from exporter.demo.scenario import DEMO

ENGINE = EngineConfig("vllm", "m", A100)


def plan(*faults: Fault, routing: str = "two_choices", rate: float = 3.0) -> FleetPlan:
    """One pool of two pods, the second on a slower accelerator."""
    pods = (PodPlan("fast", ENGINE), PodPlan("slow", ENGINE.on(L40S)))
    return FleetPlan((PoolPlan("pool", pods, Wave(rate), Mix(), routing=routing),), faults)  # type: ignore[arg-type]


def in_hand(fleet: Fleet) -> int:
    """Requests in any engine."""
    return sum(engine.running + engine.waiting for pod in fleet.pods for engine in pod.process.engines)


class TestFleet:
    def test_nothing_gets_lost_on_the_way(self) -> None:
        fleet = Fleet(DEMO, seed=4)
        for second in range(0, 240, 9):
            fleet.advance(float(second))
            arrived = sum(ledger.arrived for pod in fleet.pods for ledger in pod.ledgers)
            ended = sum(ledger.ended for pod in fleet.pods for ledger in pod.ledgers)
            assert arrived == sum(pool.routed for pool in fleet.pools) == ended + in_hand(fleet)
        assert sum(ledger.lost for pod in fleet.pods for ledger in pod.ledgers) > 0

    def test_same_seed_same_fleet_however_often_it_is_moved(self) -> None:
        once, often, other = (Fleet(DEMO, seed=seed) for seed in (1, 1, 2))
        for tenth in range(1, 1000):
            often.advance(tenth / 10)
        for fleet in (once, often, other):
            fleet.advance(100.0)
        pages = [[pod.page() for pod in fleet.pods] for fleet in (once, often, other)]
        assert pages[0] == pages[1]
        assert pages[0] != pages[2]

    def test_one_pool_can_be_moved_alone(self) -> None:
        alone, together = Fleet(DEMO), Fleet(DEMO)
        alone.pool_of("qwen-32b-0").advance(40.0)
        together.advance(40.0)
        assert alone.pod("qwen-32b-0").page() == together.pod("qwen-32b-0").page()
        assert alone.pod("mistral-24b-0").now == 0.0

    def test_the_demo_has_nine_pods_of_three_engines_and_moves(self) -> None:
        fleet = Fleet(DEMO)
        assert len(fleet.pods) == 9
        assert {pod.plan.engine.kind for pod in fleet.pods} == {"vllm", "sglang", "tgi"}
        assert {pod.plan.engine.accelerator.name for pod in fleet.pods} == {"H100", "A100", "L40S"}
        queues: set[int] = set()
        usage: list[float] = []
        slow = fleet.pod("llama-70b-l40s-0")
        for second in range(1, 240):
            fleet.advance(float(second))
            queues.add(slow.process.lead.gauges.waiting)
            usage.append(slow.process.lead.gauges.used_blocks / slow.plan.engine.num_blocks)
        assert len(queues) > 20
        assert min(usage[20:]) < 0.4 < 0.9 < max(usage)

    def test_round_robin_ignores_load_and_two_choices_does_not(self) -> None:
        shares = {}
        for routing in ("round_robin", "two_choices"):
            fleet = Fleet(plan(routing=routing, rate=5.0))
            fleet.advance(200.0)
            fast, slow = (sum(ledger.arrived for ledger in pod.ledgers) for pod in fleet.pods)
            shares[routing] = fast / (fast + slow)
        assert shares["round_robin"] == pytest.approx(0.5, abs=0.01)
        assert shares["two_choices"] > 0.55

    def test_plans_are_checked(self) -> None:
        with pytest.raises(ValueError, match="unknown pods: nobody"):
            plan(Fault("nobody", "kill", at=1.0, seconds=1.0))
        with pytest.raises(ValueError, match="before it comes again"):
            Fault("fast", "kill", at=1.0, seconds=5.0, every_seconds=5.0)
        with pytest.raises(ValueError, match="same name"):
            FleetPlan((PoolPlan("p", (PodPlan("a", ENGINE), PodPlan("a", ENGINE)), Wave(1.0)),))
        with pytest.raises(ValueError, match="TGI exactly one"):
            PodPlan("t", EngineConfig("tgi", "m"), ranks=2)


class TestFaults:
    def test_a_dead_pod_returns_with_counters_at_zero_and_a_new_start_time(self) -> None:
        fleet = Fleet(plan(Fault("fast", "kill", at=20.0, seconds=10.0)), wall=lambda at: 1.7e9 + at)
        pod = fleet.pod("fast")
        fleet.advance(19.0)
        served = pod.process.lead.ledger.generation_tokens
        assert served > 0
        assert "process_start_time_seconds 1.7e+09\n" in pod.page()
        fleet.advance(25.0)
        assert (pod.state, pod.reachable) == ("dead", False)
        arrived = pod.ledgers[0].arrived
        fleet.advance(30.0)
        assert (pod.state, pod.lives) == ("up", 2)
        assert 'vllm:generation_tokens_total{engine="0",model_name="m"} 0.0\n' in pod.page()
        assert "process_start_time_seconds 1.70000003e+09\n" in pod.page()
        assert pod.ledgers[0].arrived == pod.ledgers[0].ended == arrived
        assert pod.ledgers[0].lost > 0
        fleet.advance(60.0)
        assert pod.process.lead.ledger.generation_tokens > 0

    def test_a_hung_pod_gets_no_new_requests(self) -> None:
        fleet = Fleet(plan(Fault("fast", "hang", at=20.0, seconds=10.0)))
        pod = fleet.pod("fast")
        fleet.advance(20.0)
        arrived = pod.process.lead.ledger.arrived
        fleet.advance(29.9)
        assert pod.state == "hung"
        assert pod.process.lead.ledger.arrived == arrived
        fleet.advance(60.0)
        assert (pod.state, pod.lives) == ("up", 1)
        assert pod.process.lead.ledger.arrived > arrived

    def test_a_failing_pod_answers_every_request_with_an_error_until_it_is_well(self) -> None:
        fleet = Fleet(plan(Fault("fast", "fail", at=20.0, seconds=15.0), routing="round_robin"), keep_records=True)
        pod = fleet.pod("fast")
        fleet.advance(60.0)
        told = [(record.request.at, record.outcome) for ledger in pod.ledgers for record in ledger.records if record.outcome]
        during = [outcome for at, outcome in told if 20.0 < at < 35.0]
        assert len(during) > 5
        assert set(during) == {"error"}
        assert {"stop", "length"} & {outcome for at, outcome in told if at > 36.0}

    def test_a_frozen_pod_looks_healthy_and_does_nothing(self) -> None:
        fleet = Fleet(plan(Fault("fast", "freeze", at=20.0, seconds=15.0), routing="round_robin"))
        pod = fleet.pod("fast")
        fleet.advance(20.0)
        before, arrived = pod.page(), pod.process.lead.ledger.arrived
        fleet.advance(34.0)
        assert pod.reachable
        assert pod.page() == before
        assert pod.process.lead.ledger.arrived > arrived
        fleet.advance(60.0)
        assert pod.page() != before
        assert max(bound for bound, count in _buckets(pod.process.lead.ledger.tally("itl")) if count) >= 20.0

    def test_a_slow_pod_takes_longer_steps(self) -> None:
        fleet = Fleet(plan(Fault("fast", "slow", at=0.0, seconds=100.0, factor=5.0), routing="round_robin", rate=0.5))
        twin = Fleet(plan(routing="round_robin", rate=0.5))
        for each in (fleet, twin):
            each.advance(60.0)
        slow, usual = (each.pod("fast").process.lead.ledger.tally("itl") for each in (fleet, twin))
        assert slow.sum / slow.count > 3 * usual.sum / usual.count

    def test_faults_come_again(self) -> None:
        fleet = Fleet(plan(Fault("fast", "kill", at=10.0, seconds=5.0, every_seconds=20.0)))
        seen = []
        for second in range(1, 61):
            fleet.advance(second + 0.5)
            seen.append(fleet.pod("fast").state)
        assert seen.count("dead") == 15
        assert fleet.pod("fast").lives == 4

    def test_without_a_reachable_pod_requests_go_nowhere(self) -> None:
        fleet = Fleet(plan(Fault("fast", "kill", at=5.0, seconds=50.0), Fault("slow", "hang", at=5.0, seconds=50.0)))
        fleet.advance(30.0)
        assert fleet.pools[0].unrouted > 0


class TestClock:
    def test_a_faster_clock(self) -> None:
        time = [100.0]
        clock = FleetClock.start(monotonic=lambda: time[0], wall=lambda: 5000.0, factor=10.0)
        assert clock.now() == 0.0
        time[0] = 103.0
        assert clock.now() == pytest.approx(30.0)
        assert clock.wall(30.0) == pytest.approx(5003.0)

    def test_a_clock_goes_forward(self) -> None:
        with pytest.raises(ValueError, match="above zero"):
            FleetClock.start(factor=0.0)


def _buckets(tally: Tally) -> list[tuple[float, int]]:
    return list(zip([*tally.bounds, float("inf")], tally.counts, strict=True))
