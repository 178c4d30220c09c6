"""One writer: the lock ends with its holder, however that ends; a file that was taken away is no lease any more."""

import errno
import fcntl
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from collector.signals import Level
from collector.snapshot import Row
from exporter.config import parse_config
from exporter.publish.cloudwatch.batch import Batch
from exporter.publish.cloudwatch.feed import MOST_KEPT, Feed
from exporter.publish.cloudwatch.lease import FileLease

HOLD = """
import sys
from exporter.publish.cloudwatch.lease import FileLease
lease = FileLease(sys.argv[1])
lease.held() and lease.note(42.5)
print("ready", flush=True)
input()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lease")


def test_the_second_waits_until_the_first_lets_go(path: str) -> None:
    first, second = FileLease(path), FileLease(path)
    assert (first.held(), second.held(), first.held()) == (True, False, True)
    first.note(1234.5)
    first.release()
    assert (second.held(), first.held()) == (True, False)
    assert second.handed_over() == 1234.5


def test_a_holder_that_is_killed_leaves_the_lease_at_once(path: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        mine = FileLease(path)
        assert not mine.held()
        holder.kill()
        holder.wait()
        assert mine.held()
        assert mine.handed_over() == 42.5
        assert holder.stdin is not None
        holder.stdin.close()


def test_a_file_that_was_taken_away_or_replaced_is_taken_anew(path: str) -> None:
    first, second = FileLease(path), FileLease(path)
    assert first.held()
    Path(path).unlink()
    assert second.held()
    assert not first.held()


def test_a_file_that_goes_between_opening_and_locking_is_no_lease(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def gone_first(file: int, how: int) -> None:
        Path(path).unlink(missing_ok=True)
        lock(file, how)

    lease = FileLease(path)
    monkeypatch.setattr(fcntl, "flock", gone_first)
    assert not lease.held()
    monkeypatch.undo()
    assert lease.held()


@pytest.mark.parametrize("left", [b"", b"garbage", b"host:1 soon\n", b"\xff\xfe"])
def test_word_that_cannot_be_read_is_not_known(path: str, left: bytes) -> None:
    Path(path).write_bytes(left)
    lease = FileLease(path)
    assert lease.held()
    assert lease.handed_over() == 0.0


def test_where_no_file_can_be_made_nothing_is_written_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    of = parse_config("cluster: c\ncloudwatch: {}").cloudwatch
    assert of is not None
    made: list[Batch] = []
    feed = Feed(of, "c", FileLease(str(tmp_path / "none" / "lease")), made.append)
    row = Row(level=Level.CLUSTER, labels=("c",), gauges={("requests_running", ""): 1.0})
    for minute in range(3):
        feed.take([row], 1_800_000_000.0 + 60 * minute)
    assert made == []
    assert caplog.text.count("the lease cannot be had") == 1
    (tmp_path / "none").mkdir()
    feed.take([row], 1_800_000_180.0)
    assert [batch.start - 1_800_000_000.0 for batch in made] == [0.0, 60.0, 120.0]


def test_a_volume_that_keeps_no_locks_is_a_fault_and_no_other_writer(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(OSError, match="No locks available"):
        FileLease(path).held()


def test_who_takes_over_by_a_new_file_does_not_write_again_what_was_written(path: str) -> None:
    of = parse_config("cluster: c\ncloudwatch: {}").cloudwatch
    assert of is not None
    made: list[list[Batch]] = [[], []]

    def put(box: list[Batch], batch: Batch) -> None:
        box.append(batch)
        batch.pieces.clear()

    feeds = [Feed(of, "c", FileLease(path), partial(put, box)) for box in made]
    row = Row(level=Level.CLUSTER, labels=("c",), gauges={("requests_running", ""): 1.0})
    start = 1_800_000_000.0
    for moment in (0, 60, 75):
        for feed in feeds:
            feed.take([row], start + moment)
    Path(path).unlink()
    for moment in (90, 120):
        for feed in reversed(feeds):
            feed.take([row], start + moment)
    assert [[batch.start - start for batch in box] for box in made] == [[0.0], [60.0]]


class Pair:
    """A writer and a stand-by that see the same pools; batches wait until they are sent by hand."""

    def __init__(self, path: str, *, pools: int = 0) -> None:
        of = parse_config("cluster: c\ncloudwatch: {}").cloudwatch
        assert of is not None
        self.of = of
        self.leases = [FileLease(path), FileLease(path)]
        self.boxes: list[list[Batch]] = [[], []]
        self.feeds = [Feed(of, "c", lease, box.append) for lease, box in zip(self.leases, self.boxes, strict=True)]
        gauges = {("requests_running", ""): 1.0}
        self.rows = [Row(level=Level.CLUSTER, labels=("c",), gauges=gauges)]
        self.rows += [Row(level=Level.POOL, labels=("c", "serving", f"p{number}"), gauges=gauges) for number in range(pools)]

    def take(self, *seconds: float, of: tuple[int, ...] = (0, 1)) -> None:
        for moment in seconds:
            for index in of:
                self.feeds[index].take(self.rows, START + moment)

    def send(self, batches: int) -> None:
        """As the outbox does, from the oldest on."""
        for batch in [batch for batch in self.boxes[0] if batch.pieces][:batches]:
            batch.pieces.clear()
            self.feeds[0].note_sent()

    def crash(self) -> None:
        """The kernel ends the lock; what waits dies with the process."""
        self.leases[0].release()

    def second_wrote(self) -> list[float]:
        return [batch.start - START for batch in self.boxes[1]]


START = 1_800_000_000.0


@pytest.mark.parametrize(("sent", "left"), [(0, [0, 60, 120, 180]), (1, [60, 120, 180]), (3, [180]), (4, [])])
def test_after_a_crash_the_other_writes_what_still_waited_to_be_sent(path: str, sent: int, left: list[float]) -> None:
    pair = Pair(path)
    pair.take(0, 60, 120, 180, 240)
    pair.send(sent)
    pair.crash()
    pair.take(255, 300, of=(1,))
    assert pair.second_wrote() == [*left, 240.0]


def test_a_window_that_ends_at_the_take_over_comes_after_those_that_waited(path: str) -> None:
    pair = Pair(path)
    pair.take(0, 60, 120)
    pair.crash()
    pair.take(180, of=(1,))
    assert pair.second_wrote() == [0, 60, 120]


def test_a_window_of_which_a_part_was_sent_is_written_whole(path: str) -> None:
    pair = Pair(path, pools=900)
    pair.take(0, 60)
    whole = len(pair.boxes[0])
    assert whole > 1
    pair.send(whole - 1)
    pair.crash()
    pair.take(75, of=(1,))
    assert pair.second_wrote() == [0.0] * whole


def test_what_the_queue_dropped_holds_no_word_back(path: str) -> None:
    """Nothing waits before what was sent: what is older was given up."""
    pair = Pair(path)
    pair.take(0, 60, 120, 180)
    pair.boxes[0].pop(0)
    pair.send(1)
    pair.crash()
    pair.take(190, of=(1,))
    assert pair.second_wrote() == [120.0]


def test_a_stand_by_keeps_no_more_than_what_waits_and_not_without_end(path: str) -> None:
    pair = Pair(path)
    pair.take(*(60 * minute for minute in range(41)))
    pair.crash()
    pair.take(2405, of=(1,))
    assert pair.second_wrote() == [60.0 * minute for minute in range(40 - MOST_KEPT, 40)]


def test_an_orderly_end_leaves_what_could_not_be_sent_to_the_other(path: str) -> None:
    pair = Pair(path)
    pair.take(0, 60)
    pair.feeds[0].finish(pair.rows, START + 90)
    pair.send(1)
    pair.feeds[0].leave()
    pair.take(95, 120, of=(1,))
    assert pair.second_wrote() == [60.0]


def test_who_takes_over_and_crashes_before_it_sent_leaves_it_to_the_third(path: str) -> None:
    pair = Pair(path)
    lease, made = FileLease(path), list[Batch]()
    third = Feed(pair.of, "c", lease, made.append)
    for moment in (0, 60, 120):
        pair.take(moment)
        third.take(pair.rows, START + moment)
    pair.send(1)
    pair.crash()
    pair.take(130, of=(1,))
    pair.leases[1].release()
    third.take(pair.rows, START + 140)
    assert pair.second_wrote() == [batch.start - START for batch in made] == [60.0]
