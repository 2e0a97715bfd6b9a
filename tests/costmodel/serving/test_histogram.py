"""Percentiles in flat memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.serving.histogram import RESOLUTION, Histogram


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.9, 0.99]))
def test_quantiles_are_exact_to_the_resolution(values, share):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    assert histogram.quantile(share) == pytest.approx(exact, rel=1.01 * RESOLUTION)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=50))
def test_mean_and_largest_are_exact(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    summary = histogram.summary()
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(sum(values) / len(values))
    assert summary.largest == max(values)


def test_counts_weigh():
    histogram = Histogram()
    histogram.add(1.0, 99)
    histogram.add(100.0)
    assert histogram.quantile(0.98) == pytest.approx(1.0, rel=RESOLUTION)
    assert histogram.summary().mean == pytest.approx(1.99)


def test_nothing_counted_is_zero():
    assert Histogram().summary().p99 == 0
