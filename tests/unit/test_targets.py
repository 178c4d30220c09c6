"""Sets of targets from several sources: one set, each page once, every fault with both places."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from collector.model import Target
from collector.targets import Batch, Placed, Push, Roster, Static, merge
from tests.make import target


def placed(one: Target, place: str, *, named: bool = False) -> Placed:
    return Placed(target=one, place=place, named=named)


def pods(batch: Batch) -> list[str]:
    return [one.target.pod for one in batch.targets]


def test_what_stands_twice_is_read_once_and_both_places_are_named() -> None:
    one = target("a")
    whole = merge([Batch([placed(one, "first[0]")]), Batch([placed(replace(one, pool="other"), "second[3]")])])
    assert [item.target for item in whole.targets] == [one]
    assert whole.faults == [f"second[3]: {one.url} stands already at first[0]; a target belongs to one place"]


def test_one_port_of_one_pod_under_two_addresses_is_one_target() -> None:
    by_address, by_name = (target("p", uid="u1", url=f"http://{host}:8000/metrics") for host in ("10.0.0.1", "pod.svc"))
    assert by_address.key == by_name.key
    assert len(merge([Batch([placed(by_address, "a"), placed(by_name, "b")])]).targets) == 1


def test_ports_of_one_named_pod_stay_one_pod() -> None:
    ports = [placed(target("tiny-0", port=port), f"f[{port}]", named=True) for port in (8000, 8001, 8002)]
    whole = merge([Batch(ports)])
    assert not whole.faults
    assert {one.target.pod_key for one in whole.targets} == {("serving", "chat", "tiny-0")}


def test_unnamed_pods_that_share_an_address_are_told_apart_over_all_sources() -> None:
    one, two = (target("h:1", url=f"http://h:1/{path}") for path in "ab")
    assert pods(merge([Batch([placed(one, "x")]), Batch([placed(two, "y")])])) == ["h:1/a", "h:1/b"]


@dataclass(eq=True)
class Scripted:
    """A source whose pushes a test makes by hand, as a watch of Kubernetes would."""

    name: str
    push: Push | None = field(default=None, compare=False)
    watched: int = field(default=0, compare=False)

    async def watch(self, push: Push) -> None:
        self.push = push
        self.watched += 1
        await asyncio.Event().wait()

    def say(self, *targets: Target, faults: Sequence[str] = ()) -> None:
        assert self.push is not None
        self.push(Batch([placed(one, f"{self.name}[{number}]") for number, one in enumerate(targets)], faults))


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


class Seen:
    """What a roster told its listener."""

    def __init__(self) -> None:
        self.sets: list[list[str]] = []
        self.roster = Roster(lambda targets: self.sets.append([one.pod for one in targets]))


async def test_each_difference_is_told_once() -> None:
    seen, source = Seen(), Scripted("k")
    seen.roster.follow([source])
    await turn()
    assert seen.roster.silent == ["k"]
    source.say(target("a"))
    source.say(target("a"))
    source.say(target("a"), target("b"))
    source.say()
    seen.roster.stop()
    assert seen.sets == [["a"], ["a", "b"], []]
    assert seen.roster.silent == []


async def test_settled_waits_for_every_source() -> None:
    seen, slow = Seen(), Scripted("slow")
    seen.roster.follow([Static([placed(target("a"), "s[0]")]), slow])
    await turn()
    assert seen.sets == [["a"]], "one source must not wait for another"
    waiting = asyncio.create_task(seen.roster.settled())
    await turn()
    assert not waiting.done()
    slow.say(target("b"))
    await asyncio.wait_for(waiting, 5.0)
    seen.roster.stop()
    assert seen.sets[-1] == ["a", "b"]


async def test_a_source_that_stays_keeps_its_targets_while_others_change() -> None:
    seen, first = Seen(), Scripted("k")
    seen.roster.follow([first])
    await turn()
    first.say(target("a"))
    seen.roster.follow([Scripted("k"), Static([placed(target("b"), "s[0]")])])
    await turn()
    assert seen.sets == [["a"], ["a", "b"]]
    assert first.watched == 2, "an equal source is the old one, which knows what it read"
    seen.roster.follow([Static([placed(target("b"), "s[0]")])])
    await turn()
    seen.roster.stop()
    assert seen.sets[-1] == ["b"]


async def test_faults_are_those_of_the_present() -> None:
    seen, source = Seen(), Scripted("k")
    seen.roster.follow([source])
    await turn()
    source.say(target("a"), faults=["k: half a file"])
    assert (seen.roster.faults, dict(seen.roster.good)) == (("k: half a file",), {"k": False})
    source.say(target("a"))
    assert (seen.roster.faults, dict(seen.roster.good)) == ((), {"k": True})
    seen.roster.stop()


async def test_a_source_that_breaks_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Scripted):
        async def watch(self, push: Push) -> None:
            raise ZeroDivisionError

    seen, good = Seen(), Scripted("good")
    seen.roster.follow([Broken("broken"), good])
    await turn()
    good.say(target("a"))
    seen.roster.stop()
    assert seen.sets == [["a"]]
    assert "source=broken" in caplog.text


def test_a_query_tells_targets_apart_and_stays_out_of_the_name() -> None:
    urls = ("http://h:1/m?token=secret", "http://h:1/m?b=2", "http://h:1/n")
    targets = [Target(url=url, namespace="n", pool="p", pod="h:1") for url in urls]
    batch = merge([Batch([Placed(target=one, place=one.url, named=False) for one in targets], [])])
    assert [one.target.pod for one in batch.targets] == ["h:1/m", "h:1/m#2", "h:1/n"]
