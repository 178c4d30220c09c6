"""Files of targets in the form of Prometheus' file_sd: what they mean, and that a bad one keeps what it had."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from collector.auth import Auth, Tls
from collector.file_targets import FileSource, read_file
from collector.targets import Batch, Placed


def write(path: Path, content: Any) -> Path:
    """Write a file whole; its stamp differs from the one before even where the clock is coarse."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    os.utime(path, ns=(before + 1_000_000_000, before + 1_000_000_000))
    return path


def group(*targets: str, **labels: str) -> dict[str, Any]:
    return {"targets": list(targets), "labels": {"pool": "p", **labels}}


def complaint(tmp_path: Path, content: Any, name: str = "t.json") -> str:
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_file(write(tmp_path / name, content))
    return str(caught.value)


def pods(found: Batch | list[Placed]) -> list[str]:
    return [one.target.pod for one in (found.targets if isinstance(found, Batch) else found)]


def test_every_label_is_taken(tmp_path: Path) -> None:
    labels = {"namespace": "n", "pod": "tiny-0", "uid": "u", "model": "m", "engine": "vllm", "role": "decode",
              "accelerator": "H100", "cost_tier": "spot", "node": "w1",
              "__scheme__": "https", "__metrics_path__": "/m", "__meta_x": "y",
              "team": "z"}  # fmt: skip
    auth, tls = Auth(bearer_file="t"), Tls(insecure=True)
    (one,) = read_file(write(tmp_path / "t.json", [group("10.0.0.1:8000", **labels)]), auth=auth, tls=tls)
    target = one.target
    assert target.url == "https://10.0.0.1:8000/m"
    assert (target.namespace, target.pool, target.pod, target.uid, target.model) == ("n", "p", "tiny-0", "u", "m")
    assert (target.engine, target.role, target.accelerator, target.cost_tier) == ("vllm", "decode", "H100", "spot")
    assert (target.node, target.auth, target.tls) == ("w1", auth, tls)
    assert one.place == f"{tmp_path}/t.json[0].targets[0]"


def test_the_defaults_are_those_of_static_targets(tmp_path: Path) -> None:
    (one,) = read_file(write(tmp_path / "t.json", [group("[::1]:8000")]))
    assert one.target.url == "http://[::1]:8000/metrics"
    assert (one.target.namespace, one.target.pod, one.named) == ("default", "[::1]:8000", False)


@pytest.mark.parametrize("name", ["t.yaml", "t.yml"])
def test_yaml_is_read_as_well(tmp_path: Path, name: str) -> None:
    text = "# by hand\n- targets: ['h:1', 'h:2']\n  labels:\n    pool: p\n    pod: tiny-0\n"
    found = read_file(write(tmp_path / name, text))
    assert {one.target.pod_key for one in found} == {("default", "p", "tiny-0")}
    assert [one.target.address for one in found] == ["h:1", "h:2"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "not valid JSON: "), ('[{"targets": ["h:1"], "lab', "not valid JSON: "), ("[" * 100_000, "not valid JSON: "),
        ({}, "expected a list of groups"), ([5], "[0]: expected a group"), ([{"targets": "h:1"}], "[0]: expected a group"),
        ([{"targets": [], "label": {}}], "[0].label: unknown key"), ([{"targets": ["h:1"]}], "[0].labels.pool: missing"),
        ([{"targets": ["h:1"], "labels": []}], "[0].labels.pool: missing"),
        ([{"targets": [], "labels": [1]}], "[0].labels: expected"),
        ([group("h:1"), group("h:2", pool=" ")], "[1].labels.pool: missing"),
        ([{"targets": [], "labels": {"pool": "p", "pod": 5}}], "[0].labels.pod: expected text, got 5"),
        ([group("h:1", engine="vlm")], "[0].labels.engine: expected one of vllm, sglang, tgi, got 'vlm'"),
        ([group("h:1", pool="p\n# evil")], "[0].labels.pool: expected a text without control characters, got 'p\\n# evil'"),
        ([group("h:1", pod="a\x00")], "[0].labels.pod: expected a text without control characters"),
        ([group("h:1", namespace="n\x85")], "[0].labels.namespace: expected a text without control characters"),
        ([group("h:1", role="x")], "[0].labels.role: expected one of both, prefill, decode, got 'x'"),
        ([group("h:1", "h: 2")], "[0].targets[1]: expected a URL such as"),
        ([{"targets": [8000], "labels": {"pool": "p"}}], "[0].targets[0]: "),
        ([group("me:SECRET@h:1")], "[0].targets[0]: a URL must not hold a user"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_place(tmp_path: Path, content: Any, told: str) -> None:
    message = complaint(tmp_path, content)
    assert message.startswith(told)
    assert "SECRET" not in message


def test_broken_yaml_is_named_by_its_line(tmp_path: Path) -> None:
    assert complaint(tmp_path, "- targets: [a\n", "t.yaml").startswith("not valid YAML: line 2, column 1")


def test_a_half_written_file_keeps_what_it_had_and_says_so(tmp_path: Path) -> None:
    whole = json.dumps([group("h:1", "h:2")])
    path = write(tmp_path / "t.json", whole)
    source = FileSource(str(tmp_path / "*.json"))
    assert pods(source.look()) == ["h:1", "h:2"]
    for cut in (whole[:-1], whole[:30], ""):
        write(path, cut)
        found = source.look()
        assert pods(found) == ["h:1", "h:2"], cut
        assert [fault.startswith(f"{path}: not valid JSON") for fault in found.faults] == [True]
        assert source.look() == found, "a fault stands until the file is mended"
    write(path, [group("h:3")])
    assert (pods(source.look()), source.look().faults) == (["h:3"], [])
    write(path, [])
    assert pods(source.look()) == []


def test_a_bad_file_costs_no_other(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [group("h:1")])
    write(tmp_path / "b.json", "rubbish")
    found = FileSource(str(tmp_path / "*.json")).look()
    assert pods(found) == ["h:1"]
    assert len(found.faults) == 1


def test_a_file_that_is_gone_for_a_moment_counts_once_more(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [group("h:1")])
    source = FileSource(str(tmp_path / "*.json"))
    source.look()
    path.unlink()
    assert pods(source.look()) == ["h:1"]
    write(path, [group("h:2")])
    assert pods(source.look()) == ["h:2"]
    path.unlink()
    source.look()
    assert pods(source.look()) == []


def test_new_files_are_found_and_old_ones_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.json", [group("h:1")])
    read: list[str] = []
    real = read_file
    monkeypatch.setattr("collector.file_targets.read_file", lambda path, **more: (read.append(path.name), real(path, **more))[1])
    source = FileSource(str(tmp_path / "*.json"))
    source.look()
    write(tmp_path / "b.json", [group("h:2")])
    assert pods(source.look()) == ["h:1", "h:2"]
    source.look()
    assert read == ["a.json", "b.json"]


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    write(tmp_path / "1" / "t.json", [group("h:1")])
    write(tmp_path / "2" / "t.json", [group("h:2")])
    link = tmp_path / "now"
    link.symlink_to("1")
    source = FileSource(str(tmp_path / "now" / "t.json"))
    assert pods(source.look()) == ["h:1"]
    fresh = tmp_path / "fresh"
    fresh.symlink_to("2")
    fresh.replace(link)
    assert pods(source.look()) == ["h:2"]


async def test_a_watch_pushes_at_first_and_at_each_change_only(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [group("h:1")])
    steps = [lambda: None, lambda: write(path, [group("h:2")]), lambda: None, lambda: write(path, "{"), lambda: None]

    async def sleep(seconds: float) -> None:
        if not steps:
            raise asyncio.CancelledError
        steps.pop(0)()

    pushed: list[tuple[list[str], int]] = []
    source = FileSource(str(path), sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await source.watch(lambda batch: pushed.append((pods(batch), len(batch.faults))))
    assert pushed == [(["h:1"], 0), (["h:2"], 0), (["h:2"], 1)]


def test_a_pattern_without_files_is_no_targets(tmp_path: Path) -> None:
    assert FileSource(str(tmp_path / "*.json")).look() == Batch([], [])
