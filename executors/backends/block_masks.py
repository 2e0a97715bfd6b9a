"""Block masks for FlexAttention, built a row of blocks at a time so that the full mask is never in memory."""

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from costmodel import Attention
from executors.requests import split_requests
from executors.visibility import Reach

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

MaskMod = Callable[["Tensor", "Tensor", "Tensor", "Tensor"], "Tensor"]
"""(batch, head, query index, key index) to bool, as FlexAttention wants it."""


def square_mask(attention: Attention, decoding: bool, device: str) -> MaskMod:
    """Mask of queries padded to the whole sequence; a decoding query sees every key that was gathered."""
    reach = Reach.on(attention, device)

    def see_all(b: "Tensor", h: "Tensor", q: "Tensor", kv: "Tensor") -> "Tensor":
        return q <= kv

    def see_earlier(b: "Tensor", h: "Tensor", q: "Tensor", kv: "Tensor") -> "Tensor":
        return reach.sees(q, kv)

    return see_all if decoding else see_earlier


def packed_mask(inputs: "Inputs") -> MaskMod:
    """Mask of a batch whose requests lie side by side: same request, and visible there."""
    import torch

    device = inputs.device
    reach = Reach.on(inputs.attention, device)
    requests = split_requests(inputs)
    q_request = torch.cat([torch.full((r.q_len,), r.index, device=device) for r in requests])
    k_request = torch.cat([torch.full((r.keys,), r.index, device=device) for r in requests])
    q_position = torch.cat([torch.arange(r.prefix, r.prefix + r.q_len, device=device) for r in requests])
    k_position = torch.cat([torch.arange(r.first_key, r.first_key + r.keys, device=device) for r in requests])

    def see(b: "Tensor", h: "Tensor", q: "Tensor", kv: "Tensor") -> "Tensor":
        return (q_request[q] == k_request[kv]) & reach.sees(q_position[q], k_position[kv])

    if inputs.tree_mask is None:
        return see
    tree = inputs.tree_mask
    row_start = torch.tensor(_tree_rows(inputs), device=device)

    def see_tree(b: "Tensor", h: "Tensor", q: "Tensor", kv: "Tensor") -> "Tensor":
        seen = see(b, h, q, kv)
        return seen & tree[torch.where(seen, row_start[q] + k_position[kv], 0)]

    return see_tree


def block_mask(mask: MaskMod, shape: tuple[int, int], block: tuple[int, int], device: str) -> Any:
    """Build a block mask shared by all heads.

    Args:
        mask: What a query sees.
        shape: Queries and keys.
        block: Rows and keys of one block.
        device: Where its index tensors live.
    """
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    (queries, keys), (rows, columns) = shape, block
    zero = torch.zeros((), dtype=torch.int64, device=device)
    key = torch.arange(keys, device=device)
    partial, full = [], []
    for low in range(0, queries, rows):
        query = torch.arange(low, min(low + rows, queries), device=device)
        seen = mask(zero, zero, query[:, None], key[None, :]).expand(len(query), keys)
        missing = (-keys) % columns
        seen = torch.nn.functional.pad(seen, (0, missing, 0, rows - len(query)))
        counts = seen.view(rows, -1, columns).sum((0, 2))
        full.append(counts == rows * columns)
        partial.append((counts > 0) & (counts < rows * columns))
    return BlockMask.from_kv_blocks(
        *_indices(torch.stack(partial)),
        *_indices(torch.stack(full)),
        BLOCK_SIZE=block,
        mask_mod=mask,
        seq_lengths=shape,
    )


def _indices(chosen: "Tensor") -> "tuple[Tensor, Tensor]":
    """Number of chosen key blocks per row, and their indices first, as int32 with batch and head dims of 1."""
    import torch

    order = torch.argsort(chosen.to(torch.int8), dim=1, descending=True, stable=True)
    return chosen.sum(1).to(torch.int32)[None, None], order.to(torch.int32)[None, None].contiguous()


def _tree_rows(inputs: "Inputs") -> list[int]:
    """Where each query's row of the flat tree mask begins."""
    batch = inputs.batch
    sizes = [q * kv for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True)]
    starts = [0, *accumulate(sizes)]
    return [
        starts[r] + i * kv for r, (q, kv) in enumerate(zip(batch.q_lens, batch.kv_lens, strict=True)) for i in range(q)
    ]
