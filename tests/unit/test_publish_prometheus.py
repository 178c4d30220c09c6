"""The /metrics page before two referees: prometheus_client's parsers and promtool."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from collector.clock import Instant
from collector.fixed import to_fixed
from collector.model import Adapters
from collector.naming import families, label_names, prometheus_name
from collector.signals import SIGNALS, Kind, Level, State
from collector.snapshot import Row, Snapshot
from collector.state import State as Core
from collector.totals import Histogram
from exporter.config import parse_config
from exporter.hub import Hub
from exporter.publish.prometheus import Format, choose_format, render, write_labels, write_number
from tests.make import HandClock, at, counts, failure, observe, reading, state, target, values

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
TTFT, E2E = "time_to_first_token_seconds", "end_to_end_latency_seconds"
VLLM, SGLANG, TGI = (0.1, 0.25, 0.5, 1.0), (0.1, 0.2, 0.4, 1.0), (0.15, 0.3, 0.6, 1.2)
HOSTILE = ['quote " inside', "back\\slash", "new\nline", 'all \\" \n of it\\', "comma,=}{", "żółw 🐢", " ", "\\n", "#",
           "x\ry\tz\x0b"]  # fmt: skip


def fleet() -> Core:
    """Pods of three engines in two pools, one pod silent and one never reached."""
    pods = {"v": target("v", model="llama", role="decode"), "s": target("s"), "t": target("t", "code"),
            "old": target("old"), "lost": target("lost", "code")}  # fmt: skip
    core = state(*pods.values())
    for name, engine, bounds in (("v", "vllm", VLLM), ("s", "sglang", SGLANG), ("t", "tgi", TGI), ("old", "vllm", VLLM)):
        for step in (1, 2):
            page = values(
                counts(requests={"stop": 10 * step, "error": step}, prompt_tokens=(2**53 + 1) * step, generation_tokens=7 * step,
                       prefix_cache_query_tokens=30 * step, prefix_cache_hit_tokens=10 * step),
                {TTFT: observe(bounds, [0.12, 0.3, 5.0] * step), E2E: observe(bounds, [0.7] * step)},
                adapters=Adapters(frozenset({"a", "b"}), frozenset(), 4), progress=5.0 * step, requests_running=2.0,
                requests_waiting=1.0, kv_cache_usage_ratio=0.125, kv_cache_usage_max_ratio=1e-5, adapters_max=4.0,
                kv_cache_capacity_tokens=123456.0,
            )  # fmt: skip
            core.absorb(reading(pods[name], page, at(step if name == "old" else 100 + step), engine=engine))
    core.absorb(failure(pods["lost"], at(102)))
    return core


def cut() -> Snapshot:
    return fleet().snapshot(at(103))


def parsed(page: str, form: Format) -> Samples:
    """Samples by name and labels; a series that stands twice fails."""
    found = parse_openmetrics(page + "# EOF\n") if form is Format.OPENMETRICS else parse_text(page)
    samples = [((one.name, tuple(sorted(one.labels.items()))), float(one.value)) for family in found for one in family.samples]
    doubled = [key for key, times in Counter(key for key, _ in samples).items() if times > 1]
    assert doubled == []
    return dict(samples)


def expected(rows: Iterable[Row]) -> Samples:
    """What the snapshot says, written down by another road than the publisher's."""
    wanted: Samples = {}
    for row in rows:
        for signal, level in families():
            if level is not row.level:
                continue
            name, names = prometheus_name(signal, level), label_names(signal, level)

            def put(value: float, *own: str, name: str = name, names: tuple[str, ...] = names, row: Row = row) -> None:
                wanted[name, tuple(sorted(zip(names, (*row.labels, *own), strict=True)))] = value

            if signal.kind is Kind.INFO:
                put(1.0, *(row.info.get(label, "") for label in signal.labels))
            elif signal.kind is Kind.HISTOGRAM and signal.name in row.histograms:
                histogram = row.histograms[signal.name]
                base = dict(zip(names, row.labels, strict=True))
                for bound, count in zip((*signal.ladder, float("inf")), histogram.cumulative, strict=True):
                    le = "+Inf" if bound == float("inf") else f"{bound:.1f}" if bound == int(bound) < 1e6 else f"{bound:g}"
                    wanted[f"{name}_bucket", tuple(sorted({**base, "le": le}.items()))] = float(count)
                wanted[f"{name}_sum", tuple(sorted(base.items()))] = histogram.sum_fixed / to_fixed(1.0)
                wanted[f"{name}_count", tuple(sorted(base.items()))] = float(histogram.cumulative[-1])
            else:
                numbers = row.counters if signal.kind is Kind.COUNTER else row.gauges
                for (of, child), value in numbers.items():
                    if of == signal.name:
                        put(float(value), *(child.split("|") if signal.labels else ()))
    return wanted


@pytest.mark.parametrize("form", list(Format))
def test_the_page_says_what_the_snapshot_says(form: Format) -> None:
    snapshot = cut()
    page, count = render(snapshot, form, max_pods=100)
    samples = parsed(page, form)
    assert samples == expected(snapshot.rows)
    assert count == len(samples) > 300


def test_both_formats_carry_the_same_values() -> None:
    snapshot = cut()
    pages = {form: parsed(render(snapshot, form, max_pods=100)[0], form) for form in Format}
    assert pages[Format.TEXT] == pages[Format.OPENMETRICS]


@pytest.mark.parametrize("form", list(Format))
def test_types_and_help_come_from_the_table(form: Format) -> None:
    page, _ = render(cut(), form, max_pods=100)
    found = parse_openmetrics(page + "# EOF\n") if form is Format.OPENMETRICS else parse_text(page)
    shown = {family.name: (family.type, family.documentation) for family in found}
    kinds = {Kind.INFO: "gauge"}
    for signal, level in families():
        name = prometheus_name(signal, level).removesuffix("_total")
        if name in shown:
            quantiles = "quantile" in signal.labels
            assert shown[name] == ("summary" if quantiles else kinds.get(signal.kind, str(signal.kind)), signal.help)
    assert len(shown) > 60


def test_text_declares_counters_under_their_whole_name() -> None:
    page, _ = render(cut(), Format.TEXT, max_pods=100)
    assert "# TYPE llm_pool_requests_total counter\n" in page
    page, _ = render(cut(), Format.OPENMETRICS, max_pods=100)
    assert "# TYPE llm_pool_requests counter\n" in page
    assert "_created" not in page


def test_each_family_stands_once_and_whole() -> None:
    page, _ = render(cut(), Format.TEXT, max_pods=100)
    declared = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(set(declared)) == len(declared)
    order = [line.split("{")[0] for line in page.splitlines() if not line.startswith("#")]
    owner = {f"{name}{part}": name for name in declared for part in ("", "_bucket", "_sum", "_count")}
    owners = [owner[one] for one in order]
    runs = [one for index, one in enumerate(owners) if index == 0 or owners[index - 1] != one]
    assert len(set(runs)) == len(runs)


def test_label_sets_are_those_of_the_family_missing_values_are_empty() -> None:
    """A37: pods with and without a model name."""
    page, _ = render(cut(), Format.TEXT, max_pods=100)
    by_family: dict[str, set[tuple[str, ...]]] = {}
    for name, labels in parsed(page, Format.TEXT):
        by_family.setdefault(name, set()).add(tuple(label for label, _ in labels))
    assert all(len(kinds) == 1 for kinds in by_family.values())
    infos = [line for line in page.splitlines() if line.startswith("llm_pod_info")]
    assert len(infos) == 5
    assert any('engine="",version="",model="",role=""' in line for line in infos)
    assert any('engine="vllm",version="",model="llama",role="decode"' in line for line in infos)


def test_states_are_all_six() -> None:
    samples = parsed(render(cut(), Format.TEXT, max_pods=100)[0], Format.TEXT)
    of_pod = {dict(labels)["state"]: value for (name, labels), value in samples.items()
              if name == "llm_pod_state" and dict(labels)["pod"] == "old"}  # fmt: skip
    assert of_pod == {one.value: float(one is State.STALE) for one in State}
    pods = {dict(labels)["state"]: value for (name, labels), value in samples.items() if name == "llm_cluster_pods"}
    assert pods == {"fresh": 3.0, "stale": 1.0, "down": 1.0, "warming": 0.0, "no_progress": 0.0, "terminating": 0.0}


@pytest.mark.parametrize("form", list(Format))
def test_hostile_names_come_back_as_they_were(form: Format) -> None:
    for name in HOSTILE:
        pod = target(name, name, namespace=name, url="http://h:1/metrics", model=name)
        core = Core(cluster=name, region=name, version=name)
        core.watch([pod], at(0))
        core.absorb(reading(pod, values(requests_running=1.0), at(0)))
        page, _ = render(core.snapshot(at(0)), form, max_pods=9)
        (_, labels), value = next(one for one in parsed(page, form).items() if one[0][0] == "llm_pod_requests_running")
        assert dict(labels) == {"cluster": name, "namespace": name, "pool": name, "pod": name}
        assert value == 1.0


def test_escapes_by_hand() -> None:
    assert write_labels(("a", "b"), ('x"y', "1\\2\n3")) == 'a="x\\"y",b="1\\\\2\\n3"'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (7, "7"), (2.0, "2"), (-0.5, "-0.5"), (0.1, "0.1"), (1e-05, "1e-05"), (2**70, str(2**70)),
        (1e14, "100000000000000"), (1e20, "1e+20"), (1_800_000_000.25, "1800000000.25"),
    ],
)  # fmt: skip
def test_numbers(number: float, text: str) -> None:
    assert write_number(number) == text
    assert float(text) == number


def test_counters_beyond_what_a_float_holds_are_written_whole() -> None:
    """Of the three pods of the pool one only decodes: its prompts are those of the pods that prefill."""
    page, _ = render(cut(), Format.TEXT, max_pods=100)
    assert f'llm_pod_prompt_tokens_total{{cluster="test",namespace="serving",pool="chat",pod="v"}} {2**53 + 1}\n' in page
    assert f'llm_pool_prompt_tokens_total{{cluster="test",namespace="serving",pool="chat"}} {2 * (2**53 + 1)}\n' in page


def test_bounds_have_one_spelling() -> None:
    """A04."""
    page, _ = render(cut(), Format.TEXT, max_pods=100)
    bounds = [line.split('le="')[1].split('"')[0] for line in page.splitlines()
              if line.startswith("llm_cluster_time_to_first_token_seconds_bucket")]  # fmt: skip
    assert [float(bound) for bound in bounds] == [*SIGNALS[TTFT].ladder, float("inf")]
    assert {"0.001", "0.25", "1.0", "100.0", "2560.0", "+Inf"} <= set(bounds)


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize("cap", [0, 1, 4, 5, 6])
def test_pods_beyond_the_cap_are_left_out_and_the_levels_above_stay_whole(cap: int, form: Format) -> None:
    snapshot = cut()
    samples = parsed(render(snapshot, form, max_pods=cap)[0], form)
    shown = {dict(labels)["pod"] for _, labels in samples if "pod" in dict(labels)}
    assert len(shown) == min(cap, 5)
    above = {key: value for key, value in samples.items() if "pod" not in dict(key[1])}
    assert above == expected((*snapshot.pools, snapshot.cluster))


def test_pod_histograms_are_off() -> None:
    samples = parsed(render(cut(), Format.TEXT, max_pods=100)[0], Format.TEXT)
    assert not [name for name, _ in samples if name.startswith("llm_pod_") and name.endswith("_bucket")]


def test_nothing_watched_is_a_page_of_the_cluster() -> None:
    page, count = render(state().snapshot(at(0)), Format.TEXT, max_pods=9)
    samples = parsed(page, Format.TEXT)
    assert count == len(samples)
    assert {name for name, _ in samples} == {"llm_cluster_info", "llm_cluster_pods"}


def test_a_bare_snapshot_says_what_the_cluster_is() -> None:
    bare = Row(level=Level.CLUSTER, labels=("c",), gauges={})
    nothing = Snapshot(at=Instant(0.0, 0.0), cluster=bare, pools=(), pods=(), endpoints=())
    page, count = render(nothing, Format.TEXT, max_pods=9)
    assert (page, count) == ('# HELP llm_cluster_info What the cluster is.\n# TYPE llm_cluster_info gauge\n'
                             'llm_cluster_info{cluster="c",region="",version=""} 1\n', 1)  # fmt: skip


def test_a_histogram_by_hand() -> None:
    ladder = SIGNALS["prefill_time_seconds"].ladder
    row = Row(level=Level.CLUSTER, labels=("c",), gauges={},
              histograms={"prefill_time_seconds": Histogram((1, *(2,) * (len(ladder) - 1), 3), to_fixed(4.25))})  # fmt: skip
    page, _ = render(Snapshot(at=at(0), cluster=row, pools=(), pods=(), endpoints=()), Format.TEXT, max_pods=0)
    lines = [line for line in page.splitlines() if "prefill" in line and not line.startswith("#")]
    name = "llm_cluster_prefill_time_seconds"
    assert lines[0] == f'{name}_bucket{{cluster="c",le="0.3"}} 1'
    assert lines[1] == f'{name}_bucket{{cluster="c",le="0.5"}} 2'
    assert lines[-3:] == [
        f'{name}_bucket{{cluster="c",le="+Inf"}} 3', f'{name}_sum{{cluster="c"}} 4.25', f'{name}_count{{cluster="c"}} 3',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.TEXT), ("*/*", Format.TEXT), ("text/plain;version=0.0.4", Format.TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format.OPENMETRICS),
    ],
)  # fmt: skip
def test_format_by_accept(accept: str, form: Format) -> None:
    assert choose_format(accept) is form


def whole_page(form: Format) -> str:
    """With the exporter's own part, as the server sends it."""
    urls = [f"http://10.0.0.{host}:8000/metrics" for host in (1, 2, 3)]
    config = parse_config(f"cluster: test\nstatic_targets: [{{pool: chat, urls: {urls}}}]")
    clock = HandClock()
    hub = Hub(config, clock)
    for pod, engine in zip(config.targets[:2], ("vllm", "sglang"), strict=True):
        for step in (1, 2):
            page = values(counts(requests={"stop": step}, generation_tokens=step), {TTFT: observe(VLLM, [0.2] * step)},
                          progress=1.0, requests_running=1.0, requests_waiting=0.0)  # fmt: skip
            hub.take(reading(pod, page, clock.move(1), engine=engine))
    hub.take(failure(config.targets[2], clock.now()))
    return render(hub.snapshot(), form, max_pods=hub.max_pods)[0] + hub.own.render(form)


@pytest.mark.parametrize("form", list(Format))
def test_the_whole_page_has_no_series_twice(form: Format) -> None:
    """A36: with the exporter's own part behind."""
    page = whole_page(form)
    body = page.removesuffix("# EOF\n")
    samples = parsed(body, form)
    assert any(name == "llm_exporter_target_up" for name, _ in samples)
    declared = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(set(declared)) == len(declared)
    if form is Format.OPENMETRICS:
        assert page.endswith("\n# EOF\n")
        assert page.count("# EOF") == 1


def levels_page() -> str:
    return render(cut(), Format.TEXT, max_pods=100)[0]


@pytest.mark.parametrize("make_page", [levels_page, lambda: whole_page(Format.TEXT)], ids=["levels", "whole"])
def test_promtool_has_no_complaint(make_page: Callable[[], str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed on this machine")
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=make_page(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
