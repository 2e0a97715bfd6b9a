"""Which keys a query sees: causality, windows, chunks, draft trees and sparse selections, as boolean masks."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from costmodel import Attention

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """What positions alone allow; compiled masks hold the limits as tensors, since numbers would be compiled in."""

    causal: bool
    window: "int | Tensor | None"
    chunk: "int | Tensor | None"

    @classmethod
    def of(cls, attention: Attention) -> "Reach":
        """Take the limits as numbers."""
        return cls(attention.causal, attention.sliding_window, attention.chunk_size)

    @classmethod
    def on(cls, attention: Attention, device: str) -> "Reach":
        """Take the limits as tensors on a device."""
        import torch

        limits = (attention.sliding_window, attention.chunk_size)
        window, chunk = (None if n is None else torch.tensor(n, device=device) for n in limits)
        return cls(attention.causal, window, chunk)

    def sees(self, query: "Tensor", key: "Tensor") -> "Tensor":
        """Say which queries see which keys.

        Args:
            query: int64 positions counted from the request's first token; broadcasts against `key`.
            key: int64 positions of keys.
        """
        seen = (key <= query) if self.causal else (key == key) & (query == query)
        if self.window is not None:
            seen = seen & (key > query - self.window)
        if self.chunk is not None:
            seen = seen & (key // self.chunk == query // self.chunk)
        return seen


def visible(inputs: "Inputs", requests: list[int], rows: "Tensor") -> "Tensor":
    """Build the mask of some rows of some requests.

    Args:
        inputs: The workload.
        requests: Requests, not necessarily of one length.
        rows: int64 `[requests, rows]`, query indices within each request.

    Returns:
        bool `[requests, rows, kv]`, kv the longest request's; keys beyond a request's own are hidden.
    """
    import torch

    batch, device = inputs.batch, rows.device
    lens = torch.tensor([batch.kv_lens[r] for r in requests], device=device)[:, None]
    new = torch.tensor([batch.q_lens[r] for r in requests], device=device)[:, None]
    kv = int(lens.max())
    query = (lens - new + rows)[:, :, None]
    key = torch.arange(kv, device=device)
    seen = Reach.of(inputs.attention).sees(query, key) & (key < lens[:, :, None])
    if inputs.tree_mask is not None:
        starts = [0, *accumulate(q * n for q, n in zip(batch.q_lens, batch.kv_lens, strict=True))]
        for i, r in enumerate(requests):
            tree = inputs.tree_mask[starts[r] : starts[r + 1]].view(-1, batch.kv_lens[r])
            seen[i, :, : batch.kv_lens[r]] &= tree[rows[i]]
    if inputs.sparse_indices is not None:
        starts = [0, *accumulate(batch.q_lens)]
        at = torch.tensor([starts[r] for r in requests], device=device)[:, None] + rows
        chosen = inputs.sparse_indices[at].to(torch.int64)
        member = torch.zeros(*rows.shape, kv + 1, dtype=torch.bool, device=device)
        member.scatter_(2, torch.where(chosen < 0, kv, chosen), True)
        seen = seen & member[:, :, :kv]
    return seen
