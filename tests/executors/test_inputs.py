"""Inputs: pages are shuffled and complete, copies are what they claim, trees and selections obey their laws."""

import pytest
import torch

from costmodel import Attention, Batch
from executors import inputs as inputs_module
from executors.inputs import STALE, cache_bytes, make_inputs, softmax_scale, torch_dtype, touched_bytes

GQA = Attention(4, 2, 16)
RAGGED = Batch.extend(q_lens=[3, 1, 9], kv_lens=[20, 7, 9], page_size=4)


def test_every_token_has_its_own_cache_row_where_the_page_table_says() -> None:
    made = make_inputs(GQA, RAGGED, seed=3, slots=2)
    assert made.token_slots.unique().numel() == RAGGED.total_kv
    expected = [int(made.page_table[r, t // 4]) * 4 + t % 4 for r, kv in enumerate(RAGGED.kv_lens) for t in range(kv)]
    assert made.token_slots.tolist() == expected


def test_pages_are_shuffled_and_none_is_used_twice() -> None:
    batch = Batch.decode([640, 640], page_size=16)
    pages = make_inputs(GQA, batch, seed=0, slots=1).page_table.flatten()
    assert sorted(pages.tolist()) == list(range(80))
    assert pages.tolist() != sorted(pages.tolist())


def test_new_tokens_are_the_last_of_each_request_and_the_same_in_every_copy() -> None:
    made = make_inputs(GQA, RAGGED, seed=1, slots=4)
    starts = made.cu_kv.tolist()
    rows = [int(made.token_slots[starts[r + 1] - q + i]) for r, q in enumerate(RAGGED.q_lens) for i in range(q)]
    assert made.new_slots.tolist() == rows
    for k, v in zip(made.k_cache, made.v_cache, strict=True):
        assert torch.equal(k.flatten(0, 1)[made.new_slots], made.k_new)
        assert torch.equal(v.flatten(0, 1)[made.new_slots], made.v_new)


def test_first_and_last_copies_differ_and_those_between_repeat_the_first() -> None:
    made = make_inputs(GQA, RAGGED, seed=1, slots=4)
    assert torch.equal(made.k_cache[1], made.k_cache[0])
    assert not torch.equal(made.k_cache[3], made.k_cache[0])


def test_rows_of_a_page_that_hold_no_token_are_stale() -> None:
    made = make_inputs(GQA, RAGGED, seed=1, slots=1)
    unused = torch.ones(made.k_cache[0].shape[0] * 4, dtype=torch.bool)
    unused[made.token_slots] = False
    assert unused.sum() == 4
    assert (made.k_cache[0].flatten(0, 1)[unused] == STALE).all()


def test_the_same_seed_draws_the_same_tensors_and_another_seed_others() -> None:
    first, again, other = (make_inputs(GQA, RAGGED, seed=s, slots=1) for s in (5, 5, 6))
    assert torch.equal(first.q, again.q)
    assert torch.equal(first.page_table, again.page_table)
    assert not torch.equal(first.q, other.q)


def test_a_latent_cache_is_stored_once() -> None:
    mla = Attention.mla(2, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
    made = make_inputs(mla, Batch.decode([9], page_size=4), seed=0, slots=1)
    assert made.v_cache[0].data_ptr() == made.k_cache[0].data_ptr()
    assert made.v_cache[0].shape[-1] == 16
    assert made.scale == pytest.approx(16**-0.5)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "fp16", "fp32"])
def test_caches_come_in_every_dtype(name: str) -> None:
    made = make_inputs(Attention(2, 1, 16, kv_dtype=name), RAGGED, seed=0, slots=2)
    values = made.k_new.to(torch.float32)
    assert made.k_cache[0].dtype == torch_dtype(name)
    assert 0.8 < float(values.std()) < 1.2


def test_a_dtype_without_tensor_form_is_refused() -> None:
    with pytest.raises(ValueError, match="nvfp4"):
        torch_dtype("nvfp4")


def test_enough_copies_are_made_that_no_call_finds_its_kv_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "last_level_cache_bytes", lambda device: 100_000)
    batch = Batch.decode([64] * 4, page_size=4)
    made = make_inputs(GQA, batch, seed=0)
    assert made.cold
    assert made.slots * touched_bytes(GQA, batch) > 2.5 * 100_000
    assert not make_inputs(GQA, batch, seed=0, slots=2).cold


def test_a_window_hides_most_of_the_cache_from_a_call() -> None:
    batch = Batch.decode([1000], page_size=8)
    windowed = Attention(4, 2, 16, sliding_window=100)
    assert touched_bytes(windowed, batch) * 10 == touched_bytes(GQA, batch) == cache_bytes(GQA, batch)


def test_too_large_a_batch_says_how_large_and_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "free_bytes", lambda device: 1000)
    with pytest.raises(MemoryError, match="fewer or shorter requests"):
        make_inputs(GQA, RAGGED, seed=0)


def test_a_draft_node_sees_the_prefix_its_ancestors_and_itself() -> None:
    batch = Batch.verify([12, 9], draft_tokens=6, topk=3, page_size=4)
    mask = make_inputs(GQA, batch, seed=2, slots=1).tree_mask
    assert mask is not None
    first = mask[: 6 * 12].view(6, 12)
    assert first[:, :6].all()
    tree = first[:, 6:]
    assert tree.diagonal().all()
    assert tree[:, 0].all()
    assert not tree.triu(1).any()
    for node in range(6):
        for ancestor in tree[node].nonzero().flatten().tolist():
            assert (tree[ancestor] <= tree[node]).all()


def test_a_sparse_query_attends_to_distinct_visible_tokens_its_own_among_them() -> None:
    sparse = Attention.sparse(GQA, top_k=3, block=4)
    batch = Batch.extend([5], [30], page_size=4)
    chosen = make_inputs(sparse, batch, seed=0, slots=1).sparse_indices
    assert chosen is not None
    for row, position in zip(chosen.tolist(), range(25, 30), strict=True):
        tokens = [t for t in row if t >= 0]
        assert len(set(tokens)) == len(tokens)
        assert max(tokens) == position
        assert len({t // 4 for t in tokens}) == 3


def test_the_softmax_scale_is_that_of_the_width_before_absorption() -> None:
    assert softmax_scale(Attention.mla(16)) == pytest.approx(192**-0.5)
    assert softmax_scale(Attention.mla(16, form="expanded")) == pytest.approx(192**-0.5)
    assert softmax_scale(Attention(8, 8, 64)) == pytest.approx(0.125)
