"""Calls that stand for layers of selected or compressed tokens."""

import pytest
from serving_cases import asked, memory, model

from costmodel import Batch
from costmodel.serving import StepModel
from costmodel.serving.lookup import StepLookup
from costmodel.serving.served_attention import as_served, entries, selecting_seconds, with_entries

BLOCKS = model("MiniMax-M3").layer_groups[1]
WINDOW, FEW, MANY = model("DeepSeek-V4-Flash").layer_groups


def test_block_sparse_attention_costs_as_a_window():
    found = as_served(BLOCKS, True, 100_000)
    assert (found.sliding_window, found.top_k, found.indexer_heads) == (16 * 128, None, None)


def test_dense_layers_stay_as_they_are():
    dense = model("MiniMax-M3").layer_groups[0]
    assert as_served(dense, True, 1000) is dense.attention


def test_compressed_layers_hold_entries_and_a_window():
    assert entries(FEW, 100_000) == 100_000 / 4 + 128
    assert entries(MANY, 100_000) == 100_000 / 128 + 128
    assert entries(FEW, 100) == 100
    assert with_entries(FEW, Batch.decode([100_000] * 2)).kv_lens == (25_128, 25_128)
    assert as_served(FEW, True, 100_000).top_k == 512 + 128
    assert as_served(FEW, False, 1024).top_k == 1024 // 4 + 128
    assert as_served(WINDOW, True, 1000).top_k == 128


def test_chunks_are_plain_attention_over_the_last_one():
    chunked = next(g for g in model("Llama-4-Scout-17B-16E-Instruct").layer_groups if g.attention.chunk_size)
    size = chunked.attention.chunk_size
    assert as_served(chunked, True, 10 * size).chunk_size is None
    assert as_served(chunked, False, size).chunk_size is None
    assert as_served(chunked, False, size + 1) is chunked.attention
    lens = with_entries(chunked, Batch.decode([1, size, size + 1, 2 * size + 7])).kv_lens
    assert lens == (1, size, 1, 7)


def test_index_keys_are_read_once_for_every_tile_of_queries():
    assert selecting_seconds(BLOCKS, Batch.decode([1000, 3000]), 1e9) == pytest.approx(4000 * 128 * 2 / 1e9)
    assert selecting_seconds(BLOCKS, Batch.extend([256], [1000]), 1e9) == pytest.approx(2 * 1000 * 128 * 2 / 1e9)
    assert selecting_seconds(FEW, Batch.decode([1000]), 1e9) == 0.0


@pytest.mark.parametrize(("name", "backend", "tp"), [("MiniMax-M3", "fa3", 8), ("DeepSeek-V4-Flash", "dsv4", 4)])
def test_steps_rest_on_structure_and_the_simulator_sees_the_same(name, backend, tp):
    request = asked(name, tp=tp)
    steps = StepModel(request.deployment(backend, backend, 64))
    step = steps.decode(8, 4096)
    assert step.attention.evidence == "structure"
    lookup = StepLookup(steps, memory(steps))
    assert lookup.decode_attention(8, 4096) == pytest.approx(step.attention.seconds, rel=0.01)
    assert lookup.extend(1024, 1024**2, 1024**2, 1) > 0


def test_longer_requests_do_not_cost_a_selecting_layer_more_than_its_index():
    request = asked("DeepSeek-V4-Flash", tp=4)
    steps = StepModel(request.deployment("dsv4", "dsv4", 64))
    short, long = (steps.decode(8, n).attention.seconds for n in (16_384, 131_072))
    assert long < 2 * short
