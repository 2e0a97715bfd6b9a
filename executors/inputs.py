"""The tensors of one workload: a paged KV cache with shuffled pages, in enough copies to defeat the device's cache."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.environment import free_bytes, last_level_cache_bytes
from executors.masks import draft_tree_mask, sparse_selection
from executors.paging import make_paging

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAX_SLOTS = 512
CACHE_MULTIPLE = 2.5
"""KV that a rotation touches, over the size of the last-level cache: below it some KV would still be cached."""
MEMORY_SHARE = 0.8
"""Part of the device's free memory that inputs may take; workspaces and the reference need the rest."""
STALE = 64.0
"""What unused rows of a page hold: finite as in a server, and large enough to spoil a result that reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """One workload's tensors on one device.

    All KV copies (slots) share the page table, so one plan serves them all. Slot 0 and the last slot hold different
    random values; the slots between are copies of slot 0. The new tokens' K and V are the same in every slot.
    """

    attention: Attention
    batch: Batch
    device: str
    q: "Tensor"
    """`[total_q, num_qo_heads, head_dim]` in the attention's dtype."""
    k_cache: "tuple[Tensor, ...]"
    """One per slot, each `[num_pages, page_size, num_kv_heads, head_dim]` in the KV dtype."""
    v_cache: "tuple[Tensor, ...]"
    """One per slot, each `[num_pages, page_size, num_kv_heads, value_dim]`; absorbed MLA: a view of `k_cache`."""
    k_new: "Tensor"
    """`[total_q, num_kv_heads, head_dim]`: the new tokens' keys, already in every slot."""
    v_new: "Tensor"
    """`[total_q, num_kv_heads, value_dim]`: the new tokens' values, already in every slot."""
    page_table: "Tensor"
    """int32 `[requests, max_pages]`."""
    kv_lens: "Tensor"
    """int32 `[requests]`."""
    q_lens: "Tensor"
    """int32 `[requests]`."""
    cu_q: "Tensor"
    """int32 `[requests + 1]`."""
    cu_kv: "Tensor"
    """int32 `[requests + 1]`."""
    token_slots: "Tensor"
    """int64 `[total_kv]`: flat cache rows (`page * page_size + offset`), request after request."""
    new_slots: "Tensor"
    """int64 `[total_q]`: flat cache rows of the new tokens."""
    scale: float
    """Factor on the logits before the softmax."""
    cold: bool
    """Whether a rotation over the slots touches enough KV that no call finds its own in the cache."""
    tree_mask: "Tensor | None" = None
    """Verify with topk > 1: bool `[sum(q_i * kv_i)]`, row-major per request."""
    sparse_indices: "Tensor | None" = None
    """Sparse attention: int32 `[total_q, top_k * block]` positions within the request, -1 unused."""
    sinks: "Tensor | None" = None
    """`[num_qo_heads]` in the attention's dtype."""

    @property
    def slots(self) -> int:
        """Copies of the KV cache."""
        return len(self.k_cache)


def torch_dtype(name: str) -> "torch.dtype":
    """Translate an attention's dtype name.

    Raises:
        ValueError: There is no tensor form of it here.
    """
    import torch

    dtypes = {
        "fp32": torch.float32,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
    }
    if name not in dtypes:
        raise ValueError(f"dtype {name!r} cannot be run here; one of {', '.join(dtypes)} can")
    return dtypes[name]


def softmax_scale(attention: Attention) -> float:
    """Factor on the logits: one over the root of a query's width before MLA absorbs it."""
    if attention.form == "absorbed" and attention.qk_nope_head_dim is not None:
        return float((attention.qk_nope_head_dim + (attention.qk_rope_head_dim or 0)) ** -0.5)
    return float(attention.head_dim**-0.5)


def cache_bytes(attention: Attention, batch: Batch) -> int:
    """Bytes of one copy of the paged KV cache, whole pages."""
    rows = sum(-(-kv // batch.page_size) for kv in batch.kv_lens) * batch.page_size
    return int(rows * attention.kv_bytes_per_token)


def touched_bytes(attention: Attention, batch: Batch) -> int:
    """Bytes of KV that one call reads at most; a window, a chunk or a selection hides some of the cache."""
    reach = min(x for x in (attention.sliding_window, attention.chunk_size, 1 << 31) if x is not None)
    total = 0
    for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True):
        seen = min(kv, q - 1 + reach)
        total += min(seen, q * attention.top_k * attention.block) if attention.top_k else seen
    return max(1, int(total * attention.kv_bytes_per_token))


def make_inputs(
    attention: Attention,
    batch: Batch,
    device: str = "cpu",
    *,
    seed: int,
    slots: int | None = None,
) -> Inputs:
    """Draw one workload's tensors.

    Args:
        attention: The layer; fp8 caches hold values rounded to fp8, descale 1.
        batch: The requests.
        device: `cpu` or `cuda:<index>`.
        seed: Draws values, page order, trees and selections.
        slots: Copies of the KV cache; None takes what a cold cache needs.

    Raises:
        MemoryError: The device has too little free memory for one copy.
        ValueError: A dtype has no tensor form here.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    dtype, kv_dtype = torch_dtype(attention.dtype), torch_dtype(attention.kv_dtype)
    count, cold = _slot_count(attention, batch, device, slots)
    paging = make_paging(batch, device, generator)
    rows = paging.num_pages * batch.page_size
    stale = torch.ones(rows, dtype=torch.bool, device=device)
    stale[paging.token_slots] = False

    def cache(width: int) -> "tuple[Tensor, Tensor]":
        shape = (count, rows, attention.num_kv_heads, width)
        buffer = torch.empty(shape, dtype=kv_dtype, device=device)
        for slot in {0, count - 1}:
            _fill_normal(buffer[slot], generator)
            buffer[slot].view(_bits(kv_dtype))[stale] = (
                torch.tensor(STALE).to(kv_dtype).view(_bits(kv_dtype)).to(device)
            )
        new = buffer[0].view(_bits(kv_dtype))[paging.new_slots].view(kv_dtype)
        buffer[count - 1].view(_bits(kv_dtype))[paging.new_slots] = new.view(_bits(kv_dtype))
        for slot in range(1, count - 1):
            buffer[slot].copy_(buffer[0])
        return buffer.view(count, paging.num_pages, batch.page_size, attention.num_kv_heads, width), new

    k_cache, k_new = cache(attention.head_dim)
    if attention.is_latent:
        v_cache, v_new = k_cache[..., : attention.value_dim], k_new[..., : attention.value_dim]
    else:
        v_cache, v_new = cache(attention.value_dim)
    q = torch.empty(batch.total_q, attention.num_qo_heads, attention.head_dim, dtype=dtype, device=device)
    _fill_normal(q, generator)
    sinks = None
    if attention.sinks:
        sinks = torch.empty(attention.num_qo_heads, dtype=dtype, device=device)
        _fill_normal(sinks, generator)
    return Inputs(
        attention=attention,
        batch=batch,
        device=device,
        q=q,
        k_cache=tuple(k_cache.unbind(0)),
        v_cache=tuple(v_cache.unbind(0)),
        k_new=k_new,
        v_new=v_new,
        page_table=paging.page_table,
        kv_lens=paging.kv_lens,
        q_lens=paging.q_lens,
        cu_q=paging.cu_q,
        cu_kv=paging.cu_kv,
        token_slots=paging.token_slots,
        new_slots=paging.new_slots,
        scale=softmax_scale(attention),
        cold=cold,
        tree_mask=draft_tree_mask(batch, device, generator) if batch.topk > 1 else None,
        sparse_indices=sparse_selection(attention, batch, device, generator) if attention.top_k else None,
        sinks=sinks,
    )


def _slot_count(attention: Attention, batch: Batch, device: str, slots: int | None) -> tuple[int, bool]:
    size = max(1, cache_bytes(attention, batch))
    room = int(free_bytes(device) * MEMORY_SHARE)
    if size > room:
        raise MemoryError(
            f"the KV cache of this batch takes {size / 2**30:.1f} GiB, {device} has {room / 2**30:.1f} GiB to spare: "
            "fewer or shorter requests, or an fp8 cache, would fit"
        )
    wanted = int(CACHE_MULTIPLE * last_level_cache_bytes(device)) // touched_bytes(attention, batch) + 1
    count = max(1, min(slots or wanted, MAX_SLOTS, room // size))
    return count, count >= wanted


def _bits(dtype: "torch.dtype") -> "torch.dtype":
    """An integer dtype of the same width; indexing works on it where PyTorch lacks it for fp8."""
    import torch

    return {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]


def _fill_normal(target: "Tensor", generator: "torch.Generator") -> None:
    """Fill with standard normal values, in pieces where they have to be rounded to fp8."""
    import torch

    if target.dtype.itemsize > 1:
        target.normal_(generator=generator)
        return
    for piece in torch.split(target, max(1, (1 << 26) // target[0].numel())):
        values = torch.empty(piece.shape, dtype=torch.float16, device=target.device)
        piece.copy_(values.normal_(generator=generator))
