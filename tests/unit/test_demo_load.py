"""Seeded traffic, and the blocks of the KV cache."""

from __future__ import annotations

import pytest

from exporter.demo.blocks import BlockPool
from exporter.demo.load import Burst, Mix, Wave, arrivals


class TestLoad:
    def test_same_seed_same_traffic(self) -> None:
        streams = [arrivals(Wave(5.0), Mix(), seed=seed) for seed in (1, 1, 2)]
        drawn = [[(next(stream).at, next(stream).prompt_tokens) for _ in range(50)] for stream in streams]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_rate_follows_wave_and_burst(self) -> None:
        wave = Wave(4.0, swing=0.5, period_seconds=100.0, burst=Burst(50.0, 10.0, 5.0, 3.0))
        assert wave.rate(25.0) == pytest.approx(6.0)
        assert wave.rate(75.0) == pytest.approx(2.0)
        assert wave.rate(12.0) == pytest.approx(3 * Wave(4.0, swing=0.5, period_seconds=100.0).rate(12.0))
        assert max(wave.rate(at / 10) for at in range(2000)) <= wave.peak_rate

    def test_mean_rate(self) -> None:
        counted = 0
        for arrival in arrivals(Wave(5.0, swing=0.8, period_seconds=50.0), Mix(), seed=3):
            if arrival.at > 1000.0:
                break
            counted += 1
        assert 4700 < counted < 5300


class TestBlocks:
    def test_least_recently_used_prefix_goes_first(self) -> None:
        pool = BlockPool(10)
        for name in ("old", "new"):
            assert pool.take(3)
            assert pool.publish(name, 3)
            pool.detach(name)
        assert pool.attach("old") == 3
        pool.detach("old")
        assert pool.take(6)
        assert pool.attach("new") == 0
        assert pool.attach("old") == 3
        assert (pool.used, pool.evictable, pool.free) == (9, 0, 1)

    def test_prefixes_in_use_are_not_evicted(self) -> None:
        pool = BlockPool(4)
        assert pool.take(3)
        assert pool.publish("p", 3)
        assert not pool.take(2)
        assert pool.used == 3

    def test_giving_back_too_much_is_an_error(self) -> None:
        pool = BlockPool(4)
        with pytest.raises(ValueError, match="more blocks"):
            pool.give(1)
