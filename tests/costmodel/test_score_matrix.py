"""Attention that stores its score matrix, against numbers counted by hand."""

import pytest
from costmodel_devices import device, machine

from costmodel import Attention, Batch, predict
from costmodel.score_matrix import stored_scores

H200 = machine()


def test_one_head_of_32k_tokens():
    stored = stored_scores(Attention(1, 1, 128), Batch.extend([32768], [32768]), H200)
    assert stored.head_bytes == stored.bytes == 2 * 2**30
    assert stored.least_bytes == 4 * 32768 * 128 * 2
    assert stored.moved_bytes == 4 * 2 * 2**30 + 4 * 32768 * 128 * 2
    assert stored.seconds == pytest.approx(stored.moved_bytes / H200.memory_bytes_per_s)


def test_fp32_scores_take_twice_as_much_and_every_request_adds_its_own():
    narrow, wide = (
        stored_scores(Attention(8, 2, 64, dtype=dtype), Batch.extend([10, 20], [10, 50]), H200)
        for dtype in ("bf16", "fp32")
    )
    assert narrow.head_bytes == (10 * 10 + 20 * 50) * 2
    assert wide.head_bytes == 2 * narrow.head_bytes
    assert narrow.bytes == 8 * narrow.head_bytes


def test_a_tiled_kernel_beats_the_bound_of_the_stored_matrix_on_a_long_prompt():
    attention, batch = Attention(32, 8, 128), Batch.extend([32768], [32768], page_size=64)
    tiled = predict(attention, batch, backend="fa3", profile=device())
    assert tiled.high < stored_scores(attention, batch, H200).seconds
