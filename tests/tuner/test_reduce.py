"""From a table to one pair of backends: least time over a traffic, and what that loses."""

import pytest
from tuner_fakes import candidate, choice, configuration, row

from tuner.reduce import NothingReachable, reduce_to_pair
from tuner.row import Row, Tried
from tuner.traffic import Traffic, row_weights

SHORT, LONG = "8q1s1k", "8q1s32k"


def timed(spec: str, fa3: float, triton: float) -> Row:
    """A row where SGLang reaches fa3's default and triton's, with these times in microseconds."""
    a = choice("fa3", 0).model_copy(update={"measured_us": fa3})
    b = choice("triton", 8).model_copy(update={"measured_us": triton})
    best = a if fa3 <= triton else b
    tried = {candidate("fa3", 0).key: Tried(measured_us=fa3), candidate("triton", 8).key: Tried(measured_us=triton)}
    update = {"best": best, "best_sglang": best, "runner_up": None, "sglang_default": a, "tried": tried}
    return row(spec).model_copy(update=update)


def test_the_pair_with_the_least_time_over_the_rows() -> None:
    pair = reduce_to_pair(configuration([timed(SHORT, 10, 20), timed(LONG, 100, 90)]))
    assert pair.decode is not None
    assert pair.decode.choice.backend == "fa3"
    assert pair.decode.loss == pytest.approx((1 + 100 / 90) / 2 - 1)
    assert pair.prefill is None
    assert pair.evenly


def test_a_traffic_moves_the_choice() -> None:
    made = configuration([timed(SHORT, 10, 20), timed(LONG, 100, 90)])
    pair = reduce_to_pair(made, Traffic(isl=32000, osl=100, concurrency=8))
    assert pair.decode is not None
    assert pair.decode.choice.backend == "triton"
    assert pair.decode.loss == pytest.approx(0.0)
    assert not pair.evenly


def test_prefill_and_decode_are_chosen_apart() -> None:
    pair = reduce_to_pair(configuration([timed("q2k", 300, 200), timed(SHORT, 10, 20)]))
    assert pair.prefill is not None
    assert pair.decode is not None
    assert (pair.prefill.choice.backend, pair.decode.choice.backend) == ("triton", "fa3")
    assert pair.loss == pytest.approx(0.0)


def test_what_flags_lose_against_the_table_is_said() -> None:
    made = timed(SHORT, 10, 20)
    library = choice("fa3", 8).model_copy(update={"measured_us": 8.0})
    pair = reduce_to_pair(configuration([made.model_copy(update={"best": library})]))
    assert pair.decode is not None
    assert pair.decode.loss == pytest.approx(0.25)
    assert pair.decode.loss_to_sglang == pytest.approx(0.0)


def test_nothing_reachable_is_an_answer() -> None:
    only = choice("fa3", 8)
    update = {"best": only, "best_sglang": None, "runner_up": None, "sglang_default": None}
    with pytest.raises(NothingReachable):
        reduce_to_pair(configuration([row().model_copy(update=update)]))


def test_a_traffic_counts_steps_and_requests() -> None:
    made = configuration([timed("q2k", 1, 1), timed(SHORT, 1, 1), timed("8q1s2k", 1, 1)])
    weights = row_weights(made.rows, Traffic(isl=2048, osl=400, concurrency=8))
    assert weights["extend/1:2048:2048"] == 8
    assert weights["decode/8:2048"] == pytest.approx(400)
    assert weights["decode/8:1024"] == 0


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_traffic_has_positive_numbers(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Traffic(*numbers)


def test_what_was_not_measured_is_estimated_and_counted() -> None:
    here = timed(SHORT, 10, 20)
    without = {key: t for key, t in here.tried.items() if key.startswith("fa3")}
    made = configuration([timed(LONG, 100, 40), here.model_copy(update={"tried": without})])
    pair = reduce_to_pair(made, estimate=lambda row, candidate: 9.0)
    assert pair.decode is not None
    assert (pair.decode.choice.backend, pair.decode.estimated, pair.decode.missing) == ("triton", 1, 0)
    plain = reduce_to_pair(made)
    assert plain.decode is not None
    assert (plain.decode.choice.backend, plain.decode.missing) == ("fa3", 0)
