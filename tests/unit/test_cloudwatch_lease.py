"""One writer: the lock ends with its holder, however that ends; a file that was taken away is no lease any more."""

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from collector.signals import Level
from collector.snapshot import Row
from exporter.config import parse_config
from exporter.publish.cloudwatch.batch import Batch
from exporter.publish.cloudwatch.feed import Feed
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
    assert [batch.start for batch in made] == [1_800_000_060.0, 1_800_000_120.0]


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
    feeds = [Feed(of, "c", FileLease(path), box.append) for box in made]
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
