"""Tensor parallelism: heads divide, KV heads replicate, the latent stays whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import Attention, per_rank
from costmodel.layer_group import LayerGroup
from costmodel.models import kv_replication, stage_bytes_per_token

GQA = Attention(64, 8, 128)


@pytest.mark.parametrize(("tp", "heads"), [(1, (64, 8)), (2, (32, 4)), (8, (8, 1)), (16, (4, 1)), (64, (1, 1))])
def test_kv_heads_divide_then_replicate(tp: int, heads: tuple[int, int]) -> None:
    shard = per_rank(GQA, tp)
    assert (shard.num_qo_heads, shard.num_kv_heads) == heads
    assert shard.kv_bytes_per_token == heads[1] * 2 * 128 * 2


def test_replication_is_counted() -> None:
    assert [kv_replication(GQA, tp) for tp in (1, 8, 16)] == [1, 1, 2]
    assert kv_replication(Attention.mla(128), 8) == 8


def test_the_latent_is_not_divided() -> None:
    whole, shard = Attention.mla(128), per_rank(Attention.mla(128), 8)
    assert (shard.num_qo_heads, shard.num_kv_heads) == (16, 1)
    assert shard.kv_bytes_per_token == whole.kv_bytes_per_token == 576 * 2


def test_expanded_heads_divide_with_the_query_heads() -> None:
    shard = per_rank(Attention.mla(128, form="expanded"), 4)
    assert (shard.num_qo_heads, shard.num_kv_heads, shard.head_dim) == (32, 32, 192)


def test_attention_dp_takes_ranks_out_of_tp() -> None:
    assert per_rank(GQA, 8, attention_dp=4) == per_rank(GQA, 2)
    assert per_rank(GQA, 8, attention_dp=8) == GQA


@pytest.mark.parametrize(
    ("attention", "tp", "message"),
    [
        (Attention(40, 8, 128), 16, "num_attention_heads=40"),
        (Attention(48, 6, 128), 4, "num_key_value_heads=6"),
        (GQA, 0, "tp=0"),
    ],
)
def test_heads_that_do_not_divide(attention: Attention, tp: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        per_rank(attention, tp)


@given(kv=st.integers(0, 5), group=st.integers(0, 4), tp=st.integers(0, 8))
def test_a_rank_never_holds_less_than_its_share(kv: int, group: int, tp: int) -> None:
    attention, ranks = Attention(2 ** (kv + group), 2**kv, 64), 2**tp
    if attention.num_qo_heads % ranks:
        return
    shard = per_rank(attention, ranks)
    assert shard.num_qo_heads * ranks == attention.num_qo_heads
    assert shard.kv_bytes_per_token * ranks >= attention.kv_bytes_per_token
    assert shard.kv_bytes_per_token * ranks == attention.kv_bytes_per_token * kv_replication(attention, ranks)


def test_the_last_pipeline_stages_take_the_layers_left_over() -> None:
    every = LayerGroup(layers=7, attention=GQA, layer_indices=tuple(range(7)))
    one = GQA.kv_bytes_per_token
    assert stage_bytes_per_token([every], 7, 3) == (2 * one, 2 * one, 3 * one)
    late = LayerGroup(layers=2, attention=GQA, layer_indices=(5, 6))
    assert stage_bytes_per_token([late], 7, 3) == (0, 0, 2 * one)
    for stages in (0, 8):
        with pytest.raises(ValueError, match=f"pp={stages} must be from 1 to the model's 7 layers"):
            stage_bytes_per_token([every], 7, stages)
