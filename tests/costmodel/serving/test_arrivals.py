"""Streams of requests."""

import itertools
import statistics

import pytest

from costmodel.serving.arrivals import ClosedLoop, Lengths, OpenLoop, respaced, synthetic
from costmodel.serving.request import Request


def gaps(cv: float) -> list[float]:
    times = [r.arrival for r in synthetic(Lengths(8, 8), 20_001, 1, rate=10.0, cv=cv)]
    return [b - a for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0])
def test_gaps_have_the_rate_and_variation_asked_for(cv):
    found = gaps(cv)
    standard_error = 0.1 * cv / len(found) ** 0.5
    assert abs(statistics.fmean(found) - 0.1) <= 5 * standard_error + 1e-12
    assert statistics.pstdev(found) / 0.1 == pytest.approx(cv, abs=0.1)


def test_the_same_seed_gives_the_same_requests_and_another_does_not():
    draw = lambda seed: list(synthetic(Lengths(512, 128, 0.5), 50, seed, rate=5.0))  # noqa: E731
    assert draw(3) == draw(3) != draw(4)


def test_lengths_stay_in_their_spread():
    drawn = list(synthetic(Lengths(1000, 100, 0.5, cached_share=0.25), 500, 0, rate=1.0))
    assert all(500 <= r.isl <= 1500 and 50 <= r.osl <= 150 for r in drawn)
    assert len({r.isl for r in drawn}) > 100
    assert all(r.cached == int(r.isl * 0.25) for r in drawn)


def test_a_closed_loop_waits_for_its_requests():
    loop = ClosedLoop(synthetic(Lengths(8, 8), 3, 0), 2)
    assert [loop.take().arrival, loop.take().arrival] == [0.0, 0.0]
    assert loop.next_time() is None
    loop.finished(4.5)
    assert loop.take().arrival == 4.5
    assert loop.next_time() is None
    with pytest.raises(ValueError, match="no further request"):
        loop.take()


def test_an_open_loop_keeps_order():
    loop = OpenLoop(iter([Request(1.0, 8, 8), Request(0.5, 8, 8)]))
    with pytest.raises(ValueError, match="not in order"):
        loop.take()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: Lengths(0, 8), "isl=0"),
        (lambda: Lengths(8, 8, spread=1.0), "spread=1.0"),
        (lambda: synthetic(Lengths(8, 8), 0, 0), "count=0"),
        (lambda: synthetic(Lengths(8, 8), 1, 0, rate=0.0), "rate=0.0"),
        (lambda: synthetic(Lengths(8, 8), 1, 0, rate=1.0, cv=-1.0), "cv=-1.0"),
        (lambda: ClosedLoop(iter(()), 0), "concurrency=0"),
        (lambda: Request(-1.0, 8, 8), "arrival=-1.0"),
        (lambda: Request(float("nan"), 8, 8), "arrival=nan"),
        (lambda: Request(0.0, 8, 0), "osl=0"),
        (lambda: Request(0.0, 8, 8, cached=8), "cached=8"),
    ],
)
def test_impossible_streams_are_refused(call, why):
    with pytest.raises(ValueError, match=why):
        call()


def test_a_closed_loop_of_any_size_costs_nothing_before_it_starts():
    loop = ClosedLoop(synthetic(Lengths(8, 8), 2, 0), 10**15)
    assert [loop.take().arrival, loop.take().arrival] == [0.0, 0.0]
    assert loop.next_time() is None


def test_gaps_of_a_respaced_stream_are_those_of_a_synthetic_one():
    drawn = list(synthetic(Lengths(8, 8), 20, 3, rate=5.0, cv=2.0))
    again = respaced(synthetic(Lengths(8, 8), 20, 0), 5.0, 2.0, seed=3)
    assert [r.arrival for r in again] == [r.arrival for r in drawn]
