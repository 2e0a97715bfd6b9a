"""Which keys a query may see where causality and lengths do not say it: draft trees and sparse selections."""

from typing import TYPE_CHECKING

from costmodel import Attention, Batch

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def draft_tree_mask(batch: Batch, device: str, generator: "torch.Generator") -> "Tensor":
    """Draw one random draft tree per request.

    Node 0 is the last accepted token; every other node hangs below an earlier one that has fewer than `topk` children.

    Returns:
        bool `[sum(q_i * kv_i)]`, row-major per request: a node sees the whole prefix, its ancestors and itself.
    """
    import torch

    draws = torch.rand(batch.size, max(batch.q_lens), device=device, generator=generator).tolist()
    masks = []
    for q, kv, row in zip(batch.q_lens, batch.kv_lens, draws, strict=True):
        mask = torch.ones(q, kv, dtype=torch.bool)
        mask[:, kv - q :] = _ancestors(q, batch.topk, row)
        masks.append(mask.flatten())
    return torch.cat(masks).to(device)


def sparse_selection(attention: Attention, batch: Batch, device: str, generator: "torch.Generator") -> "Tensor":
    """Draw the tokens that each query of a sparse layer attends to, its own block always among them.

    Returns:
        int32 `[total_q, top_k * block]`: positions within the request, -1 where fewer tokens are visible.
    """
    import torch

    top_k, block = attention.top_k or 1, attention.block
    chosen = torch.full((batch.total_q, top_k * block), -1, dtype=torch.int32, device=device)
    start = 0
    for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True):
        blocks = torch.arange(-(-kv // block), device=device)
        for low in range(0, q, 1024):
            position = torch.arange(kv - q + low, kv - q + min(low + 1024, q), device=device)
            own = (position // block)[:, None]
            score = torch.rand(len(position), len(blocks), device=device, generator=generator)
            score = score.masked_fill(blocks > own, -1.0).masked_fill(blocks == own, 2.0)
            best = score.topk(min(top_k, len(blocks)), dim=1)
            tokens = best.indices[:, :, None] * block + torch.arange(block, device=device)
            hidden = (best.values < 0)[:, :, None] | (tokens > position[:, None, None])
            rows = slice(start + low, start + low + len(position))
            chosen[rows, : tokens[0].numel()] = tokens.masked_fill(hidden, -1).flatten(1).to(torch.int32)
        start += q
    return chosen


def _ancestors(nodes: int, topk: int, draws: list[float]) -> "Tensor":
    import torch

    seen = torch.eye(nodes, dtype=torch.bool)
    children = [0] * nodes
    for node in range(1, nodes):
        open_parents = [p for p in range(node) if children[p] < topk]
        parent = open_parents[int(draws[node] * len(open_parents))]
        children[parent] += 1
        seen[node] |= seen[parent]
    return seen
