"""Times of kernels beside attention, by hand and by law."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_cases import device, made, model

from costmodel.serving import rank_weights
from costmodel.serving.calibrated import sustained_factor
from costmodel.serving.formats import plain_format
from costmodel.serving.kernels import kernels_of
from costmodel.serving.weights import Product
from hwprofiles import MissingValue

KERNELS = kernels_of(device())
SQUARE = Product("square", 4096, 4096, 1, plain_format("bf16"))


def test_one_row_streams_the_weights():
    moved = 4096 * 4096 * 2 + 2 * 4096 * 2
    figures = KERNELS.figures.product
    streaming = figures.floor_seconds + moved / (figures.bandwidth_fraction * 4.8e12)
    time = KERNELS.product(SQUARE, 1)
    assert streaming < time.seconds < 1.3 * streaming  # 64 thread blocks do not fill the device
    assert time.evidence == "calibrated"


def test_a_wide_product_streams_its_weights_faster_than_a_narrow_one_of_as_many_bytes():
    wide, narrow = (Product("p", n, k, 1, plain_format("bf16")) for n, k in ((8192, 1024), (1024, 8192)))
    assert KERNELS.product(wide, 1).seconds < 0.9 * KERNELS.product(narrow, 1).seconds


def test_a_small_product_or_pass_is_a_floor_and_the_switch_to_it():
    tiny, figures = Product("tiny", 8, 8, 1, plain_format("bf16")), KERNELS.figures
    assert KERNELS.product(tiny, 1).seconds == pytest.approx(
        figures.product.floor_seconds + figures.switch_seconds, rel=0.02
    )
    for kind, passes in figures.passes.items():
        assert KERNELS.pass_over(kind, 0, 0).seconds == pytest.approx(passes.floor_seconds + figures.switch_seconds)


def test_what_leaves_the_cache_moves_slower():
    figures = KERNELS.figures.passes["norm"]
    rates, held = KERNELS.rates, 0.6 * 62_914_560
    inside, outside = (figures.seconds(0, bytes, rates) for bytes in (held, 2 * held))
    assert outside - inside > 1.5 * (inside - figures.floor_seconds)


def test_long_runs_slow_down_what_was_seen_to_slow_down_there():
    ours, elsewhere = (sustained_factor(device(name).id, "fa3", "decode", 5e-4) for name in ("h200", "h100"))
    assert 1.1 < ours < 1.2
    assert elsewhere == 1.0
    assert sustained_factor(device().id, "fa3", "mixed", 5e-4) == ours
    assert sustained_factor(device().id, "fa3", "decode", 1e-5) < 1.03
    assert sustained_factor(device().id, "flashinfer", "decode", 5e-4) == 1.0


def test_many_rows_are_bound_by_the_matrix_units():
    least = 2 * 16384 * 4096**2 / (KERNELS.figures.product.matrix_fraction * 989.4e12)
    time = KERNELS.product(SQUARE, 16384)
    assert least < time.seconds < 1.1 * least


@given(st.integers(1, 16384), st.integers(1, 16384))
def test_more_tokens_never_take_less(a, b):
    low, high = sorted((a, b))
    assert KERNELS.product(SQUARE, low).seconds <= KERNELS.product(SQUARE, high).seconds
    experts = rank_weights(model("Mixtral-8x7B-v0.1")).experts
    assert KERNELS.experts(experts, low).seconds <= KERNELS.experts(experts, high).seconds


def test_one_token_reads_as_many_experts_as_it_visits():
    experts = rank_weights(model("Mixtral-8x7B-v0.1")).experts
    one, many = KERNELS.experts(experts, 1).seconds, KERNELS.experts(experts, 64).seconds
    expert_bytes = 3 * 4096 * 14336 * 2
    assert one > 2 * expert_bytes / 4.8e12
    assert many > 8 * 0.999 * expert_bytes / 4.8e12


def test_intervals_enclose_and_widen_elsewhere():
    here, there = KERNELS.product(SQUARE, 64), kernels_of(device("a100")).product(SQUARE, 64)
    for time in (here, there):
        assert time.low < time.seconds < time.high
    assert there.high / there.seconds > here.high / here.seconds


def test_what_the_units_cannot_multiply_is_widened():
    weights = rank_weights(made(quantization_config={"quant_method": "fp8"}))
    assert kernels_of(device("a100")).product(weights.products[0], 64).seconds > 0


def test_all_reduce_of_64_mib_is_near_its_source():
    table = {2: 463.89e-6, 4: 612.45e-6, 8: 563.14e-6}
    for ranks, measured in table.items():
        time = KERNELS.all_reduce(64 * 2**20, ranks)
        assert time.low <= measured <= time.high


def test_a_device_without_links_says_so():
    with pytest.raises(MissingValue, match="interconnect"):
        kernels_of(device("l4")).all_reduce(1e6, 2)
