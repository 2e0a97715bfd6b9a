"""The call that stands for a layer which attends to selected, compressed or its own chunk's tokens only."""

from dataclasses import replace

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch
from costmodel.layer_group import LayerGroup

COMPRESSED_WINDOW = 128
"""Latest tokens that DeepSeek-V4's compressed layers see beside their entries."""

QUERY_TILE = 128


def is_block_sparse(attention: Attention) -> bool:
    """Whether SGLang serves it by MiniMax' block-sparse kernels, whatever backend is named for the dense layers."""
    return attention.top_k is not None and attention.block > 1 and not attention.is_latent


def as_served(group: LayerGroup, decode: bool, longest: int) -> Attention:
    """Give the attention that costs what the group's kernels cost.

    Block-sparse attention costs as a window over as many tokens, which keeps the work of each query; a compressed layer
    selects among its entries and sees the latest tokens as well. Chunks of tokens that attend to each other alone are
    plain attention over the last chunk where one token decodes, and everywhere while no request outgrows the first.

    Args:
        group: On one rank.
        decode: Whether the batch decodes; its lengths are then entries (`entries`).
        longest: Tokens of the longest request.
    """
    attention = group.attention
    if attention.chunk_size is not None and (decode or longest <= attention.chunk_size):
        return replace(attention, chunk_size=None)
    if is_block_sparse(attention):
        seen = (attention.top_k or 1) * attention.block
        return replace(attention, top_k=None, block=1, indexer_heads=None, indexer_head_dim=None, sliding_window=seen)
    if not attention.is_latent or attention.head_dim != attention.value_dim:
        return attention
    if group.kv_compression > 1 and attention.top_k is not None:
        held = attention.top_k if decode else min(attention.top_k, -(-longest // group.kv_compression))
        return replace(attention, top_k=held + COMPRESSED_WINDOW)
    if attention.top_k is None and attention.sliding_window is not None:
        return replace(attention, top_k=attention.sliding_window, sliding_window=None)
    return attention


def entries(group: LayerGroup, tokens: float) -> float:
    """Give what a decoding request of so many tokens sees: those of its chunk, or compressed entries and a window."""
    chunk = group.attention.chunk_size
    if chunk is not None:
        return (tokens - 1) % chunk + 1
    if group.kv_compression == 1:
        return tokens
    return min(tokens, tokens / group.kv_compression + COMPRESSED_WINDOW)


def with_entries(group: LayerGroup, batch: Batch) -> Batch:
    """Give the batch as a decode kernel sees it."""
    if batch.phase != "decode" or (group.kv_compression == 1 and group.attention.chunk_size is None):
        return batch
    return replace(batch, kv_lens=tuple(max(1, round(entries(group, kv))) for kv in batch.kv_lens))


def selecting_seconds(group: LayerGroup, batch: Batch, bytes_per_s: float) -> float:
    """Seconds in which a block-sparse layer reads its index keys once for every tile of queries; 0 for other layers."""
    dim = group.attention.indexer_head_dim
    if not is_block_sparse(group.attention) or dim is None:
        return 0.0
    read = sum(kv * -(-q // QUERY_TILE) for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True))
    return read * dim * DTYPE_BYTES[group.indexer_dtype] / bytes_per_s
