"""How many prompts prefill together, by hand and against exact sums."""

import math

import pytest

from costmodel.serving.bursts import PrefillTime, finishing, first_token_at, left_behind, mean_first_token, mean_prefill


def test_the_line_goes_through_both_times():
    time = PrefillTime.through(alone=5.0, together=8.0, prompts=4, chunks=0.25)
    assert (time.floor, time.each) == (4.0, 1.0)
    assert time.first_token(4) == 8.0


def test_without_sharing_there_is_no_floor():
    assert PrefillTime.through(5.0, 9.0, 1, 1.5) == PrefillTime(0.0, 5.0, 1.5)


def test_prompts_wait_for_the_end_of_their_chunk():
    time = PrefillTime(floor=1.0, each=2.0, chunks=0.5)
    # Three prompts: two fill the first chunk (1 + 2 * 2 s), the third another (1 + 2 s more).
    assert time.first_token(3) == pytest.approx((5 + 5 + 8) / 3)


def test_long_prompts_follow_each_other():
    assert PrefillTime(0.0, 4.0, 1.0).first_token(3) == pytest.approx((4 + 8 + 12) / 3)


def test_the_number_that_ends_is_binomial():
    numbers, chances = finishing(10, 5)
    exact = [math.comb(10, n) * 0.2**n * 0.8 ** (10 - n) for n in range(11)]
    assert dict(zip(numbers.tolist(), chances.tolist(), strict=True)) == pytest.approx(dict(enumerate(exact)))


def test_all_end_where_one_token_is_asked_for():
    numbers, chances = finishing(7, 0)
    assert (numbers.tolist(), chances.tolist()) == ([7], [1.0])


def test_a_request_waits_for_those_that_ended_with_it():
    time = PrefillTime(floor=0.0, each=1.0, chunks=0.001)
    assert mean_first_token(time, running=101, steps=50) == pytest.approx(1 + 100 / 50, rel=1e-3)
    assert mean_first_token(time, running=1, steps=50) == 1.0


def test_shared_floors_make_a_prompt_cheaper():
    time = PrefillTime(floor=1.0, each=1.0, chunks=0.01)
    assert mean_prefill(time, 1, 100) == pytest.approx(2.0)
    busy = 1 - 0.99**200
    assert mean_prefill(time, 200, 100) == pytest.approx((busy + 2) / 2, rel=1e-6)


def test_an_idle_server_makes_nobody_wait():
    time = PrefillTime(floor=0.0, each=0.5, chunks=2.0)
    assert first_token_at(time, rate=1e-9, waits=0.0, busy=0.0) == 0.5
    assert left_behind(time, 0.5, busy=0.0) == 0.0


def test_long_prompts_queue_as_equal_jobs_do():
    time, busy = PrefillTime(floor=0.0, each=0.5, chunks=2.0), 0.8
    assert first_token_at(time, rate=1.6, waits=0.1, busy=busy) == pytest.approx(0.5 + 0.05 + 0.8 * 0.5 / (2 * 0.2))
