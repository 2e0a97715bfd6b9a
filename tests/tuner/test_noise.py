"""Noise: what repeats say and when two candidates differ."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.noise import beats, gain, timing, unsteady


def normal(mean: float, sigma: float, n: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(mean, sigma) for _ in range(n)]


def test_median_and_percentiles_of_known_repeats() -> None:
    t = timing([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (t.seconds, t.p10, t.p90, t.repeats) == (3.0, pytest.approx(1.4), pytest.approx(4.6), 5)


def test_a_single_repeat_proves_nothing() -> None:
    assert timing([1.0]).error == float("inf")
    assert not beats([1.0], [100.0])


def test_no_repeats_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        timing([])


def test_false_wins_among_equals_are_rare() -> None:
    wins = sum(beats(normal(1, 0.05, 7, seed), normal(1, 0.05, 7, seed + 10_000)) for seed in range(2000))
    assert wins / 2000 < 0.08


def test_a_clear_difference_is_found() -> None:
    found = sum(beats(normal(0.9, 0.01, 7, seed), normal(1, 0.01, 7, seed + 10_000)) for seed in range(200))
    assert found == 200


def test_rounds_that_are_slow_as_a_whole_cancel() -> None:
    rounds = [1.0, 1.5, 1.0, 1.5, 1.0, 1.5, 1.0]
    assert beats([0.97 * r for r in rounds], rounds)
    assert gain([0.97 * r for r in rounds], rounds).seconds == pytest.approx(0.97)


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=20))
def test_nothing_beats_itself(seconds: list[float]) -> None:
    assert not beats(seconds, seconds)


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=20), st.floats(1e-3, 1e3))
def test_scale_does_not_matter(seconds: list[float], factor: float) -> None:
    assert timing([factor * s for s in seconds]).noise == pytest.approx(timing(seconds).noise, rel=1e-6, abs=1e-9)


def test_two_states_are_seen() -> None:
    assert "two states" in str(unsteady([63, 94, 63.1, 94.2, 63.2, 94.1, 63.0]))


def test_a_drift_is_seen() -> None:
    assert "drifted" in str(unsteady([1.0, 1.03, 1.05, 1.08, 1.1, 1.13, 1.15]))


def test_steady_repeats_and_single_spikes_are_left_alone() -> None:
    assert unsteady([1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01]) is None
    assert unsteady([1.0, 1.01, 0.99, 1.6, 1.02, 1.0, 1.01]) is None
    assert unsteady([1.0, 2.0, 1.0]) is None
