"""A sweep gives what `predict` gives, batch by batch."""

import numpy as np
import pytest
from costmodel_devices import device
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Attention, Batch, Incompatible, predict
from costmodel.library import library_reasons
from costmodel.sweep import CHUNK, sweep

CASES = [
    ("fa3", {}),
    ("fa3", {"num_splits": 12}),
    ("fa3", {"pack_gqa": False}),
    ("fa3", {"scheduler_metadata": "per_call"}),
    ("triton", {}),
    ("triton", {"max_kv_splits": 40}),
    ("triton", {"max_kv_splits": 11, "split_mode": "fixed"}),
    ("flashinfer", {"use_tensor_cores": True}),
    ("flashinfer", {"use_tensor_cores": False}),
    ("attnroof_triton", {}),
]
attentions = st.sampled_from(
    [Attention(32, 8, 128), Attention(8, 1, 64), Attention(16, 16, 128), Attention(28, 4, 256)]
)
batches = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 9000)), min_size=1, max_size=4)


@pytest.mark.parametrize(("backend", "knobs"), CASES)
@settings(max_examples=40, deadline=None)
@given(attention=attentions, pairs=batches, page=st.sampled_from([1, 64]))
def test_equals_predict(backend, knobs, attention, pairs, page):
    if knobs.get("use_tensor_cores") is False and attention.group_size == 7:
        return
    found = sweep(attention, pairs, backend=backend, profile=device(), page_size=page, knobs=knobs)
    expected = [
        predict(
            attention, Batch.decode([kv] * n, page_size=page), backend=backend, profile=device(), knobs=knobs
        ).seconds
        for n, kv in pairs
    ]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("backend", "gpu", "attention", "page"),
    [
        ("fa4", "b200", Attention(32, 8, 128), 64),
        ("fa4", "h200", Attention(32, 8, 128), 64),
        ("fa4", "b200", Attention(16, 16, 64, kv_dtype="bf16"), 1),
        ("trtllm_mha", "b200", Attention(64, 8, 128), 64),
        ("trtllm_mla", "b200", Attention.mla(64), 64),
        ("trtllm_mla", "b200", Attention.mla(128), 64),
        ("cutedsl_mla", "b200", Attention.mla(128), 64),
        ("aiter", "mi300x", Attention(32, 8, 128), 16),
        ("wave", "mi300x", Attention(32, 8, 128), 16),
    ],
)
@settings(max_examples=15, deadline=None)
@given(pairs=batches)
def test_backends_by_structure_equal_predict(backend, gpu, attention, page, pairs):
    if library_reasons(backend, attention, Batch.decode([1], page_size=page), device(gpu)):
        pytest.skip("not a library call there")
    found = sweep(attention, pairs, backend=backend, profile=device(gpu), page_size=page)
    expected = [
        predict(attention, Batch.decode([kv] * n, page_size=page), backend=backend, profile=device(gpu)).seconds
        for n, kv in pairs
    ]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("backend", ["triton", "fa3", "flashinfer"])
def test_groups_that_fill_several_tiles_load_kv_again(backend):
    attention, pairs = Attention(640, 5, 128), [(255, 60000), (3, 5000)]
    found = sweep(attention, pairs, backend=backend, profile=device(), page_size=64)
    expected = [
        predict(attention, Batch.decode([kv] * n, page_size=64), backend=backend, profile=device()).seconds
        for n, kv in pairs
    ]
    assert found == pytest.approx(expected, rel=1e-9)


def test_windows_and_latents_are_estimated_too():
    pairs = [(4, 100), (4, 5000)]
    for attention in (Attention(16, 16, 64, sliding_window=256), Attention.mla(16)):
        found = sweep(attention, pairs, backend="triton", profile=device())
        assert found == pytest.approx(
            [predict(attention, Batch.decode([kv] * n), backend="triton", profile=device()).seconds for n, kv in pairs]
        )


def test_more_batches_than_fit_one_chunk():
    pairs = np.stack([np.full(CHUNK + 5, 8), np.arange(1, CHUNK + 6)], axis=1)
    found = sweep(Attention(32, 8, 128), pairs, backend="fa3", profile=device(), knobs={"num_splits": 1})
    assert len(found) == CHUNK + 5
    assert np.all(np.diff(found) >= -1e-12)


def test_wrong_batches_are_named():
    with pytest.raises(ValueError, match="pairs of"):
        sweep(Attention(32, 8, 128), [(0, 5)], backend="fa3", profile=device())
    with pytest.raises(Incompatible):
        sweep(Attention(32, 8, 128), [(1, 5)], backend="flashmla", profile=device())
    assert len(sweep(Attention(32, 8, 128), np.zeros((0, 2), dtype=np.int64), backend="fa3", profile=device())) == 0
