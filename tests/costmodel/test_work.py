"""Work against hand-computed cases and against counting pair by pair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import Attention, Batch
from costmodel.work import count_work, first_visible, visible_pairs, visible_tokens


def sees(attention: Attention, query: int, key: int) -> bool:
    if attention.causal and key > query:
        return False
    if attention.sliding_window is not None and key <= query - attention.sliding_window:
        return False
    return attention.chunk_size is None or key >= query // attention.chunk_size * attention.chunk_size


@given(
    kv=st.integers(1, 40),
    q=st.integers(1, 40),
    window=st.none() | st.integers(1, 45),
    chunk=st.none() | st.integers(1, 45),
)
def test_pairs_and_tokens_are_those_of_the_mask(kv, q, window, chunk):
    q = min(q, kv)
    attention = Attention(4, 2, 8, sliding_window=window, chunk_size=chunk)
    pairs = [(i, j) for i in range(kv - q, kv) for j in range(kv) if sees(attention, i, j)]
    assert visible_pairs(attention, q, kv) == len(pairs)
    assert visible_tokens(attention, q, kv) == len({j for _, j in pairs})
    assert first_visible(attention, q, kv) == min(j for _, j in pairs)


def test_gqa_decode_by_hand():
    work = count_work(Attention(32, 8, 128), Batch.decode([4096] * 64, page_size=64))
    assert work.flops == 2 * 32 * (128 + 128) * 4096 * 64
    assert work.kv_bytes == 64 * 4096 * 8 * 128 * 2 * 2
    assert work.q_bytes == work.o_bytes == 64 * 32 * 128 * 2
    assert work.exps == 64 * 32 * 4096


def test_causal_prefill_is_half_the_square_plus_the_diagonal():
    work = count_work(Attention(16, 16, 64), Batch.extend([1000], [1000]))
    assert work.pairs == 1000 * 1001 // 2
    assert work.flops == 2 * 16 * 128 * work.pairs


def test_chunked_prefill_sees_the_whole_prefix():
    work = count_work(Attention(8, 8, 64), Batch.extend([16], [116]))
    assert work.pairs == 16 * 100 + 16 * 17 // 2
    assert work.kv_tokens == 116


def test_mla_absorbed_reads_the_latent_once():
    work = count_work(Attention.mla(128), Batch.decode([1000]))
    assert work.kv_bytes == 1000 * 576 * 2
    assert work.flops == 2 * 128 * (576 + 512) * 1000


def test_mla_expanded_reads_every_head():
    work = count_work(Attention.mla(16, form="expanded"), Batch.extend([10], [10]))
    assert work.kv_bytes == 10 * 16 * (192 + 128) * 2
    assert work.flops == 2 * 16 * (192 + 128) * 55


def test_window_limits_decode():
    work = count_work(Attention(8, 8, 64, sliding_window=128), Batch.decode([4096]))
    assert work.pairs == work.kv_tokens == 128


def test_sparse_decode_reads_top_k_and_the_index():
    sparse = Attention.sparse(Attention.mla(128), top_k=2048)
    work = count_work(sparse, Batch.decode([65536]))
    assert work.pairs == 2048
    assert work.kv_bytes == 2048 * 576 * 2
    assert work.indexer_bytes == 65536 * 128
    assert work.flops == 2 * 128 * 1088 * 2048 + 2 * 64 * 128 * 65536


def test_fp8_kv_halves_the_cache_only():
    bf16 = count_work(Attention(8, 8, 64), Batch.decode([512]))
    fp8 = count_work(Attention(8, 8, 64, kv_dtype="fp8_e4m3"), Batch.decode([512]))
    assert fp8.kv_bytes == bf16.kv_bytes / 2
    assert (fp8.q_bytes, fp8.flops) == (bf16.q_bytes, bf16.flops)


def test_sinks_add_one_exponential_a_row():
    plain = count_work(Attention(8, 8, 64), Batch.decode([512] * 3))
    sinks = count_work(Attention(8, 8, 64, sinks=True), Batch.decode([512] * 3))
    assert sinks.exps - plain.exps == 3 * 8


@given(lens=st.lists(st.integers(1, 5000), min_size=1, max_size=8), more=st.integers(0, 3000))
def test_work_grows_with_length_and_batch(lens, more):
    attention = Attention(8, 2, 64)
    base = count_work(attention, Batch.decode(lens))
    longer = count_work(attention, Batch.decode([lens[0] + more, *lens[1:]]))
    wider = count_work(attention, Batch.decode([*lens, 1 + more]))
    assert longer.flops >= base.flops
    assert longer.bytes >= base.bytes
    assert wider.flops > base.flops
    assert wider.bytes > base.bytes


@given(st.permutations([3, 70, 900, 900, 41]))
def test_order_of_requests_does_not_matter(lens):
    assert count_work(Attention(8, 2, 64), Batch.decode(lens)) == count_work(
        Attention(8, 2, 64), Batch.decode(sorted(lens))
    )


@pytest.mark.parametrize("topk", [1, 4])
def test_verify_counts_the_chain(topk):
    work = count_work(Attention(8, 8, 64), Batch.verify([100], 4, topk=topk))
    assert work.pairs == 4 * 96 + 10
