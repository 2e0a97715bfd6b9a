"""The matrix products around the attention of one layer: projections, gates, indexers and compressors."""

from collections.abc import Iterator

from costmodel.attention import Attention
from costmodel.layer_group import LayerGroup, Model
from costmodel.models import per_rank
from costmodel.serving.architecture import Architecture
from costmodel.serving.projection import share
from costmodel.serving.sizes import Sizes

Shape = tuple[str, int, int]
"""Name, n and k on one rank."""
GATED_TYPES = ("qwen3_next",)
"""Model types whose attention output always has a gate."""
OVERLAPPING = 4
"""Compression ratio at which windows overlap, so that a compressor makes two vectors for each."""


def attention_products(group: LayerGroup, model: Model, a: Architecture, tp: int) -> Iterator[Shape]:
    """List the products of one layer of a group on one of `tp` ranks."""
    local, sizes = per_rank(group.attention, tp), Sizes(model)
    if sizes.data.get("compress_ratios") is not None and local.is_latent:
        yield from _compressed(group, local, sizes, tp)
    elif local.is_latent:
        yield from _latent(local, a, sizes)
    else:
        yield from _plain(local, model, sizes)


def indexer_products(group: LayerGroup, a: Architecture) -> Iterator[Shape]:
    """List the products of one indexer; every rank makes all of them."""
    heads, dim = group.attention.indexer_heads, group.attention.indexer_head_dim
    if heads and dim:
        yield "indexer_q", heads * dim, a.q_lora_rank or a.hidden_size
        kept = 4 * dim if group.kv_compression > 1 else dim
        yield "indexer_k", kept + heads, a.hidden_size


def _plain(local: Attention, model: Model, sizes: Sizes) -> Iterator[Shape]:
    hidden, query = sizes.hidden, local.num_qo_heads * local.head_dim
    width = query + local.num_kv_heads * (local.head_dim + local.value_dim)
    if sizes.flag("attn_output_gate", "attention_output_gate") or model.model_type.startswith(GATED_TYPES):
        width += local.num_qo_heads * local.value_dim
    yield "qkv", width, hidden
    yield "o", hidden, local.num_qo_heads * local.value_dim


def _latent(local: Attention, a: Architecture, sizes: Sizes) -> Iterator[Shape]:
    rope, nope = local.qk_rope_head_dim or 0, local.qk_nope_head_dim or 0
    rank, heads, value = local.kv_lora_rank or 0, local.num_qo_heads, local.expanded_v_head_dim or 0
    query = heads * (nope + rope)
    if a.q_lora_rank:
        yield "qkv_a", a.q_lora_rank + rank + rope, a.hidden_size
        yield "q_b", query, a.q_lora_rank
    else:
        yield "qkv_a", query + rank + rope, a.hidden_size
    yield "kv_b", heads * (nope + value), rank
    if sizes.flag("mla_use_output_gate"):
        yield "gate", heads * value, a.hidden_size
    yield "o", a.hidden_size, heads * value


def _compressed(group: LayerGroup, local: Attention, sizes: Sizes, tp: int) -> Iterator[Shape]:
    """DeepSeek-V4: one stored vector a token, low-rank outputs in groups, a compressor where tokens share an entry."""
    dim, hidden, heads = local.value_dim, sizes.hidden, local.num_qo_heads
    lora, out = sizes.count("q_lora_rank"), sizes.count("o_lora_rank")
    all_groups = sizes.count("o_groups")
    groups = share(all_groups, tp)
    yield "qkv_a", lora + dim, hidden
    yield "q_b", heads * dim, lora
    if group.kv_compression > 1:
        yield "compressor", (4 if group.kv_compression == OVERLAPPING else 2) * dim, hidden
    yield "o_a", groups * out, group.attention.num_qo_heads * dim // all_groups
    yield "o_b", hidden, groups * out
