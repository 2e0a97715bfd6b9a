"""Where tokens lie in a paged KV cache: shuffled pages, page tables and flat cache rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel import Batch

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Paging:
    """Index tensors of one batch; a flat cache row is `page * page_size + offset`."""

    num_pages: int
    page_table: "Tensor"
    """int32 `[requests, max_pages]`; entries beyond a request's pages are 0."""
    kv_lens: "Tensor"
    """int32 `[requests]`."""
    q_lens: "Tensor"
    """int32 `[requests]`."""
    cu_kv: "Tensor"
    """int32 `[requests + 1]`, running sum of `kv_lens` from 0."""
    cu_q: "Tensor"
    """int32 `[requests + 1]`, running sum of `q_lens` from 0."""
    token_slots: "Tensor"
    """int64 `[total_kv]`: flat cache rows of each request's tokens, request after request."""
    new_slots: "Tensor"
    """int64 `[total_q]`: flat cache rows of the new tokens."""


def make_paging(batch: Batch, device: str, generator: "torch.Generator") -> Paging:
    """Deal the pages of a shuffled pool out to the requests.

    Args:
        batch: Lengths and page size.
        device: Where the tensors live.
        generator: On the same device; draws the page order.
    """
    import torch

    kv_lens = torch.tensor(batch.kv_lens, dtype=torch.int64, device=device)
    q_lens = torch.tensor(batch.q_lens, dtype=torch.int64, device=device)
    pages = (kv_lens + batch.page_size - 1) // batch.page_size
    max_pages = (max(batch.kv_lens) + batch.page_size - 1) // batch.page_size
    num_pages = int(pages.sum())
    page_table = torch.zeros(batch.size, max_pages, dtype=torch.int32, device=device)
    owned = torch.arange(max_pages, device=device) < pages[:, None]
    page_table[owned] = torch.randperm(num_pages, device=device, generator=generator).to(torch.int32)

    cu_kv, cu_q = _running_sum(kv_lens), _running_sum(q_lens)
    request = torch.repeat_interleave(torch.arange(batch.size, device=device), kv_lens)
    position = torch.arange(batch.total_kv, device=device) - cu_kv[request]
    page = page_table[request, position // batch.page_size].to(torch.int64)
    token_slots = page * batch.page_size + position % batch.page_size
    is_new = position >= (kv_lens - q_lens)[request]
    return Paging(
        num_pages=num_pages,
        page_table=page_table,
        kv_lens=kv_lens.to(torch.int32),
        q_lens=q_lens.to(torch.int32),
        cu_kv=cu_kv.to(torch.int32),
        cu_q=cu_q.to(torch.int32),
        token_slots=token_slots,
        new_slots=token_slots[is_new],
    )


def _running_sum(lens: "Tensor") -> "Tensor":
    import torch

    return torch.cat([lens.new_zeros(1), lens.cumsum(0)])
