"""Histogram arithmetic: reading, falling, projection onto the published ladder, quantiles."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest

from collector.fixed import from_fixed, to_fixed
from collector.ladders import Ladder, RawHistogram, difference, fell, from_cumulative, project
from collector.signals import SIGNALS, Kind
from tests.make import observe, raw

INF = float("inf")
VLLM_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
             160.0, 640.0, 2560.0)  # fmt: skip
SGLANG_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0)
TGI_DURATION = tuple(0.0001 * 1.5**step for step in range(1, 60))
PUBLISHED = SIGNALS["time_to_first_token_seconds"].ladder


def quantile(q: float, bounds: Ladder, cumulative: Sequence[int]) -> float:
    """Prometheus' histogram_quantile: linear inside the bucket, the last finite bound for the overflow."""
    rank = q * cumulative[-1]
    index = next(place for place, count in enumerate(cumulative) if count >= rank)
    if index == len(bounds):
        return bounds[-1]
    low = bounds[index - 1] if index else 0.0
    below = cumulative[index - 1] if index else 0
    return low + (bounds[index] - low) * (rank - below) / (cumulative[index] - below)


def cumulative_of(series: RawHistogram) -> tuple[int, ...]:
    return tuple(accumulate(series.counts))


def test_reads_a_cumulative_histogram() -> None:
    assert from_cumulative({2.0: 5.0, INF: 6.0, 1.0: 3.0}, 9.5) == raw((1.0, 2.0), (3, 2, 1), 9.5)


def test_only_the_overflow_is_a_histogram_too() -> None:
    assert from_cumulative({INF: 4.0}, 8.0) == raw((), (4,), 8.0)


@pytest.mark.parametrize(
    "buckets",
    [{}, {1.0: 3.0}, {1.0: 3.0, INF: 2.0}, {1.0: -1.0, INF: 2.0}, {1.0: 3.0, 2.0: 2.0, INF: 5.0}],
    ids=["empty", "no overflow", "falling overflow", "negative", "falling inside"],
)
def test_refuses_what_is_no_cumulative_histogram(buckets: dict[float, float]) -> None:
    assert from_cumulative(buckets, 1.0) is None


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (raw((1.0, 2.0), (3, 2, 1)), False),
        (raw((1.0, 2.0), (4, 2, 1)), False),
        (raw((1.0, 2.0), (2, 3, 1)), True),
        (raw((1.0, 2.0), (3, 1, 2)), True),
        (raw((1.0, 2.0), (3, 2, 0)), True),
        (raw((1.0, 3.0), (3, 2, 1)), True),
        (raw((1.0,), (3, 3)), True),
    ],
)
def test_fell(now: RawHistogram, expected: bool) -> None:
    assert fell(raw((1.0, 2.0), (3, 2, 1)), now) is expected


def test_difference_takes_counts_and_sum() -> None:
    gain = difference(raw((1.0,), (3, 2), 7.0), raw((1.0,), (4, 5), 20.5))
    assert gain == raw((1.0,), (1, 3), 13.5)
    assert gain.count == 4


def test_projection_by_hand() -> None:
    """10 in (0,1], 20 in (1,3], 5 beyond. At 0.5: half of 10. At 2: 10 + half of 20. At 3 and 9: all 30 below, overflow stays."""
    assert project({(1.0, 3.0): (10, 20, 5)}, (0.5, 1.0, 2.0, 3.0, 9.0)) == (5, 10, 20, 30, 30, 35)


@pytest.mark.parametrize(("n", "expected"), [(1, (0, 1)), (2, (1, 2)), (3, (1, 2)), (4, (2, 3)), (5, (2, 4)), (6, (2, 5)),
                                              (7, (2, 5))])  # fmt: skip
def test_each_observation_has_its_place(n: int, expected: tuple[int, int]) -> None:
    """The places are 1/2, 1/4, 3/4, 1/8, 5/8, 3/8, 7/8 of the bucket; its thirds end at 0.333 and 0.667."""
    assert project({(3.0,): (n, 0)}, (1.0, 2.0, 3.0)) == (*expected, n, n)


def test_places_are_spread_evenly() -> None:
    for n in (1, 2, 10, 999, 10**6, 10**12):
        for part in (1 / 3, 0.123, 0.5, 0.97):
            assert abs(project({(1.0,): (n, 0)}, (part,))[0] - n * part) <= math.log2(n + 1) + n / 2**32


def test_what_was_gained_is_a_histogram_over_any_span() -> None:
    """Prometheus says so otherwise: "input to histogram_quantile needed to be fixed for monotonicity"."""
    cuts = [project({(1.0, 4.0): (n, 2 * n, 3)}, (0.3, 0.4, 0.9, 1.0, 1.7, 2.2, 3.1)) for n in range(70)]
    for span in (1, 2, 7, 30):
        for early, late in zip(cuts, cuts[span:], strict=False):
            gained = [after - before for before, after in zip(early, late, strict=True)]
            assert gained == sorted(gained)


def test_projection_below_zero_has_no_share() -> None:
    assert project({(0.0, 2.0): (4, 2, 0)}, (-1.0, 0.0, 1.0)) == (0, 4, 5, 6)


def test_projection_of_a_ladder_with_negative_bounds() -> None:
    """Prometheus' convention: the first bucket begins at zero, or at its bound when that is not above zero."""
    assert project({(-2.0, 2.0): (4, 8, 0)}, (-3.0, -2.0, 0.0, 2.0)) == (0, 4, 8, 12, 12)


def test_a_bare_overflow_is_beyond_every_bound() -> None:
    assert project({(): (6,)}, (1.0, 2.0)) == (0, 0, 6)


def test_nothing_counted_is_all_zero() -> None:
    assert project({}, (1.0, 2.0)) == (0, 0, 0)


def test_ladders_are_merged_by_bound_never_by_position() -> None:
    """A35: bounds [1,2,3] and [1,5]. Shared bound 1: 1+10. At 2: 3 + 10 + a quarter of 20. At 5: 6 + 30."""
    mixed = {(1.0, 2.0, 3.0): (1, 2, 3, 4), (1.0, 5.0): (10, 20, 30)}
    assert project(mixed, (1.0, 2.0, 3.0, 5.0)) == (11, 18, 26, 36, 70)


SAMPLES = [0.0005, 0.003, 0.07, 0.07, 0.1, 0.15, 0.3, 0.31, 0.45, 0.5, 0.7, 0.9, 1.4, 1.4, 2.4, 3.0, 7.0, 19.0, 90.0, 500.0,
           3000.0]  # fmt: skip


@pytest.mark.parametrize("bounds", [VLLM_TTFT, SGLANG_TTFT], ids=["vllm", "sglang"])
def test_exact_on_the_engines_own_bounds(bounds: Ladder) -> None:
    series = observe(bounds, SAMPLES)
    published = dict(zip(PUBLISHED, project({bounds: series.counts}, PUBLISHED), strict=False))
    assert [published[bound] for bound in bounds] == list(cumulative_of(series))[:-1]


@pytest.mark.parametrize("bounds", [VLLM_TTFT, SGLANG_TTFT, TGI_DURATION], ids=["vllm", "sglang", "tgi"])
def test_count_is_exact_and_buckets_rise(bounds: Ladder) -> None:
    cumulative = project({bounds: observe(bounds, SAMPLES * 7).counts}, PUBLISHED)
    assert cumulative[-1] == len(SAMPLES) * 7
    assert all(low <= high for low, high in pairwise(cumulative))


@pytest.mark.parametrize("bounds", [VLLM_TTFT, SGLANG_TTFT], ids=["vllm", "sglang"])
@pytest.mark.parametrize("q", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_quantiles_equal_those_on_the_engines_own_ladder(bounds: Ladder, q: float) -> None:
    """Linear interpolation inside linearly split buckets gives the same line; a large population makes rounding vanish."""
    counts = tuple(count * 1_000_000_007 for count in observe(bounds, SAMPLES).counts)
    own = quantile(q, bounds, tuple(accumulate(counts)))
    published = quantile(q, PUBLISHED, project({bounds: counts}, PUBLISHED))
    assert published == pytest.approx(own, rel=1e-6)


def test_a_quantile_beyond_the_engines_last_bound_is_beyond_ours() -> None:
    """SGLang's ladder ends at 400 s: what was slower is only known as slower, and shows as our last bound."""
    counts = observe(SGLANG_TTFT, [0.3, 500.0, 500.0]).counts
    assert quantile(0.9, PUBLISHED, project({SGLANG_TTFT: counts}, PUBLISHED)) == PUBLISHED[-1]


def test_three_engines_in_one_pool_add_up() -> None:
    """vLLM, SGLang and TGI ladders: each bound is the sum of the single projections, so `sum by (le)` is right."""
    sources = {bounds: observe(bounds, SAMPLES * times).counts
               for times, bounds in ((1, VLLM_TTFT), (2, SGLANG_TTFT), (3, TGI_DURATION))}  # fmt: skip
    single = [project({bounds: counts}, PUBLISHED) for bounds, counts in sources.items()]
    assert project(sources, PUBLISHED) == tuple(map(sum, zip(*single, strict=True)))
    assert project(sources, PUBLISHED)[-1] == 6 * len(SAMPLES)


def test_monotone_along_the_ladder_even_when_a_page_was_torn() -> None:
    """An engine was met after it counted an observation in a low bucket and before it did in the total."""
    torn = difference(raw((1.0, 2.0), (0, 1, 0)), raw((1.0, 2.0), (1, 0, 0)))
    assert torn.counts == (1, -1, 0)
    assert project({torn.bounds: torn.counts}, (1.0, 2.0)) == (0, 0, 0)
    healed = difference(raw((1.0, 2.0), (0, 1, 0)), raw((1.0, 2.0), (1, 1, 0)))
    assert project({healed.bounds: healed.counts}, (1.0, 2.0)) == (1, 1, 1)


@pytest.mark.parametrize("name", [name for name, row in SIGNALS.items() if row.kind is Kind.HISTOGRAM])
def test_published_ladders_ascend_and_are_finite(name: str) -> None:
    ladder = SIGNALS[name].ladder
    assert ladder
    assert all(low < high for low, high in pairwise(ladder))
    assert all(math.isfinite(bound) for bound in ladder)


@pytest.mark.parametrize("number", [0.0, 1.0, 0.1, 0.47, 1e-5, 3e-4, 123456.789, 2.0**52 + 1, 1e12])
def test_fixed_point_gives_back_what_an_engine_printed(number: float) -> None:
    assert from_fixed(to_fixed(number)) == number


def test_fixed_point_adds_in_any_order() -> None:
    numbers = [0.1, 0.2, 0.3, 1e9, 1e-6]
    assert sum(map(to_fixed, numbers)) == sum(map(to_fixed, reversed(numbers)))
    assert from_fixed(sum(map(to_fixed, [0.1] * 10))) == pytest.approx(1.0, abs=1e-16)


@pytest.mark.parametrize("number", [1e300, -1.7e308, 2.0**200, 2.0**200 - 2.0**148])
def test_fixed_point_holds_any_float(number: float) -> None:
    assert from_fixed(to_fixed(number)) == number


def test_what_no_float_can_hold_is_infinite() -> None:
    assert from_fixed(2 * to_fixed(1.7e308)) == math.inf
    assert from_fixed(2 * to_fixed(-1.7e308)) == -math.inf


@pytest.mark.parametrize("thirds", [1, 2])
def test_a_share_of_a_bucket_has_thirty_two_binary_digits(thirds: int) -> None:
    """Thirds of a thousand milliards: with the share cut at 32 digits the first 2**32 places divide exactly, and so on."""
    share = 2**32 * thirds // 3
    assert project({(3.0,): (2**32 * 200, 0)}, (float(thirds),))[0] == pytest.approx(200 * share, abs=1)


def test_the_same_bounds_from_another_page_are_no_new_beginning() -> None:
    before, now = (raw(tuple(map(float, ("1", "2"))), counts) for counts in ((1, 1, 1), (1, 2, 1)))
    assert before.bounds is not now.bounds
    assert not fell(before, now)


@pytest.mark.parametrize("total", [-0.5, -1e-9, -3.0])
def test_a_negative_sum_is_no_histogram(total: float) -> None:
    assert from_cumulative({1.0: 2.0, float("inf"): 2.0}, total) is None


@pytest.mark.parametrize("total", [0.0, 3.5])
def test_a_bound_of_minus_infinity_is_no_bound(total: float) -> None:
    assert from_cumulative({-INF: 0.0, 1.0: 2.0, INF: 2.0}, total) is None


def test_a_sum_that_wobbles_adds_nothing_and_takes_nothing() -> None:
    before, now = raw((1.0,), (3, 0), 0.6000000000000001), raw((1.0,), (3, 0), 0.6)
    assert difference(before, now).sum_fixed == 0
