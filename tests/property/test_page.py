"""What is written on the page is read back by parsers that are not ours, whatever names and numbers are on it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from collector.naming import bound_label
from exporter.publish.prometheus import Format, render, write_number
from tests.make import at, counts, reading, state, target, values

names = st.text(min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(names, names, names, names)
def test_any_name_comes_back(namespace: str, pool: str, pod: str, model: str) -> None:
    one = target(pod, pool, namespace=namespace, url="http://h:1/metrics", model=model)
    core = state(one)
    core.absorb(reading(one, values(requests_running=1.0), at(0)))
    for form in Format:
        page, _ = render(core.snapshot(at(0)), form, max_pods=9)
        found = parse_openmetrics(page + "# EOF\n") if form is Format.OPENMETRICS else parse_text(page)
        info = next(sample for family in found for sample in family.samples if sample.name == "llm_pod_info")
        shown = (info.labels["namespace"], info.labels["pool"], info.labels["pod"], info.labels["model"])
        assert shown == (namespace, pool, pod, model)


@settings(deadline=None, max_examples=60)
@given(st.floats(0, 1e12), st.integers(0, 2**80))
def test_any_number_comes_back(gauge: float, count: int) -> None:
    one = target()
    core = state(one)
    core.absorb(reading(one, values(counts(generation_tokens=0), kv_cache_usage_max_ratio=gauge), at(0)))
    core.absorb(reading(one, values(counts(generation_tokens=count), kv_cache_usage_max_ratio=gauge), at(1)))
    page, _ = render(core.snapshot(at(1)), Format.TEXT, max_pods=9)
    found = {sample.name: sample.value for family in parse_text(page) for sample in family.samples}
    assert float(found["llm_pod_generation_tokens_total"]) == float(count)
    if gauge == 0 or gauge >= 1e-12:
        assert found["llm_pod_kv_cache_usage_max_ratio"] == gauge


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_all_their_digits(number: float) -> None:
    assert float(write_number(number)) == number


@given(st.floats(0, 1e300))
def test_bounds_keep_all_their_digits(bound: float) -> None:
    assert float(bound_label(bound)) == bound
