"""Which keys a query sees: causality, windows, chunks, draft trees and sparse selections, as boolean masks."""

from itertools import accumulate
from typing import TYPE_CHECKING

from costmodel import Attention

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs


def positional(attention: Attention, query: "Tensor", key: "Tensor") -> "Tensor":
    """Say what positions alone allow; the tensors broadcast against each other.

    Args:
        attention: Causality, window and chunk.
        query: int64 positions of queries within their request, counted from the request's first token.
        key: int64 positions of keys.
    """
    seen = (key <= query) if attention.causal else (key == key) & (query == query)
    if attention.sliding_window is not None:
        seen = seen & (key > query - attention.sliding_window)
    if attention.chunk_size is not None:
        seen = seen & (key // attention.chunk_size == query // attention.chunk_size)
    return seen


def visible(inputs: "Inputs", requests: list[int], rows: "Tensor") -> "Tensor":
    """Build the mask of some rows of requests that share one KV length.

    Args:
        inputs: The workload.
        requests: Requests of equal KV length.
        rows: int64 `[requests, rows]`, query indices within each request.

    Returns:
        bool `[requests, rows, kv]`.
    """
    import torch

    batch, device = inputs.batch, rows.device
    kv = batch.kv_lens[requests[0]]
    first = torch.tensor([kv - batch.q_lens[r] for r in requests], device=device)[:, None]
    query = (first + rows)[:, :, None]
    key = torch.arange(kv, device=device)
    seen = positional(inputs.attention, query, key)
    if inputs.tree_mask is not None:
        starts = [0, *accumulate(q * kv for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True))]
        trees = [inputs.tree_mask[starts[r] : starts[r + 1]].view(-1, kv)[rows[i]] for i, r in enumerate(requests)]
        seen = seen & torch.stack(trees)
    if inputs.sparse_indices is not None:
        starts = [0, *accumulate(batch.q_lens)]
        at = torch.tensor([starts[r] for r in requests], device=device)[:, None] + rows
        chosen = inputs.sparse_indices[at].to(torch.int64)
        member = torch.zeros(*rows.shape, kv + 1, dtype=torch.bool, device=device)
        member.scatter_(2, torch.where(chosen < 0, kv, chosen), True)
        seen = seen & member[:, :, :kv]
    return seen
