"""Batches of very many query tiles: neighbours are planned as one, in bounded work and without a jump."""

import sys

import pytest
from costmodel_devices import device, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, predict, tiles
from costmodel.call import Call
from costmodel.emulators import EMULATORS, emulator_of
from costmodel.knobs import resolve_knobs
from costmodel.library import library_reasons
from costmodel.tiles import MOST_RUNS, joined_tiles, query_runs, query_tiles

GQA = Attention(8, 1, 128)
SHAPES = {
    "gqa": GQA,
    "mha": Attention(8, 8, 64),
    "window": Attention(8, 1, 64, sliding_window=1024),
    "mla": Attention.mla(16),
}
COUNTED = 15
"""Function calls for one more request: its bytes and FLOPs are counted exactly."""
KERNELS = ["fa3", "flashinfer", "triton", "attnroof_triton", "trtllm_mha", "torch_native", "flex_attention"]


def prompts(count, scale=1):
    q = [1024 + (i * 2654435761) % 7168 for i in range(count)]
    return Batch.extend([scale * n for n in q], [scale * (n + (i * 40503) % 30000) for i, n in enumerate(q)], 64)


def fits(attention, batch, backend):
    return not library_reasons(backend, attention, batch, device())


def function_calls(attention, batch, backend):
    emulator = emulator_of(backend)
    call = Call(attention, batch, machine(), resolve_knobs(backend, None))
    count = 0

    def see(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        emulator.plan(call)
    finally:
        sys.setprofile(None)
    return count


@given(
    q=st.integers(1, 20000),
    prefix=st.integers(0, 50000),
    group=st.sampled_from([1, 3, 8]),
    joined=st.integers(1, 40),
    window=st.sampled_from([None, 700]),
)
@settings(max_examples=80, deadline=None)
def test_joined_tiles_lie_between_their_first_and_last(q, prefix, group, joined, window):
    attention = Attention(8 * group, 8, 128, sliding_window=window)
    exact = query_tiles(attention, q, q + prefix, (128, 80), group)
    runs = query_runs(attention, (q, q + prefix), (128, 80), group, joined)
    assert sum(width for width, _ in runs) == len(exact)
    done = 0
    for width, n in runs:
        ends = exact[done], exact[done + width - 1]
        assert min(ends) <= n <= max(ends)
        done += width
    assert joined > 1 or [n for _, n in runs] == exact


def test_tiles_are_joined_beyond_the_stated_number_only():
    rows = 128
    assert joined_tiles([(MOST_RUNS * rows, 1 << 20, 3)], rows, 1) == 1
    assert joined_tiles([(MOST_RUNS * rows + 1, 1 << 20, 3)], rows, 1) == 2


@pytest.mark.parametrize("backend", KERNELS)
@settings(max_examples=5, deadline=None)
@given(
    q=st.integers(9000, 20000), prefix=st.integers(0, 30000), others=st.integers(0, 5), heads=st.sampled_from([1, 8])
)
def test_joined_tiles_end_within_one_job_of_single_ones(backend, q, prefix, others, heads):
    attention = Attention(8, heads, 128)
    lens = [q + 700 * i for i in range(1 + others)]
    batch = Batch.extend(lens, [n + prefix for n in lens], 64)
    joined = predict(attention, batch, backend=backend, profile=device()).seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "MOST_RUNS", 1 << 40)
        single = predict(attention, batch, backend=backend, profile=device()).seconds
    last = Batch.extend([256], [lens[-1] + prefix], 64)
    assert abs(joined - single) <= predict(attention, last, backend=backend, profile=device()).seconds


@pytest.mark.parametrize(
    ("shape", "backend"),
    [(name, backend) for name, made in SHAPES.items() for backend in EMULATORS if fits(made, prompts(2), backend)],
)
def test_work_of_planning_does_not_grow_with_the_batch(shape, backend):
    attention, batch = SHAPES[shape], prompts(256)
    few, long, many = (function_calls(attention, some, backend) for some in (batch, prompts(256, 8), prompts(1024)))
    assert long <= 1.25 * few
    assert many - few <= COUNTED * (1024 - 256)
