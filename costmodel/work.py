"""What attention has to do whatever the kernel: exact FLOPs, exponentials and bytes of one call."""

from collections import Counter
from dataclasses import dataclass

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.batch import Batch

INDEX_DTYPE = "fp8_e4m3"
"""Dtype of a sparse model's index queries and keys."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one layer's call on one rank; masked-out pairs are not counted."""

    pairs: int
    """Query-key pairs that the mask lets through, over the batch, for one head."""
    kv_tokens: int
    """Distinct KV tokens that some query of their request sees."""
    flops: float
    """Multiply and add of both matrix products (and of a sparse model's indexer)."""
    exps: float
    """Exponentials (tanh of a soft cap counts as one more)."""
    q_bytes: float
    kv_bytes: float
    o_bytes: float
    indexer_bytes: float = 0.0
    """Index keys that a sparse model's indexer reads."""
    indexer_flops: float = 0.0
    """FLOPs of a sparse model's indexer, part of `flops`; in fp8."""

    @property
    def bytes(self) -> float:
        """Least DRAM traffic: every input read once, the output written once."""
        return self.q_bytes + self.kv_bytes + self.o_bytes + self.indexer_bytes


Requests = list[tuple[int, int, int]]
"""Equal requests together: `(q_len, kv_len, count)`, longest KV first."""


def requests(batch: Batch) -> Requests:
    """Group equal requests: `(q_len, kv_len, count)`, longest KV first."""
    q = batch.q_lens[0]
    if batch.uniform:
        return [(q, batch.kv_lens[0], batch.size)]
    if batch.q_lens.count(q) == batch.size:
        lens = Counter(batch.kv_lens)
        return [(q, kv, lens[kv]) for kv in sorted(lens, reverse=True)]
    pairs = Counter(zip(batch.kv_lens, batch.q_lens, strict=True))
    return [(q, kv, pairs[kv, q]) for kv, q in sorted(pairs, reverse=True)]


def count_work(attention: Attention, batch: Batch, groups: Requests | None = None) -> Work:
    """Count the work of one call.

    Args:
        attention: Heads, dims, masks and dtypes on one rank.
        batch: Lengths of the requests. A draft tree (`topk` > 1) is counted like a chain: the tree itself is not known.
        groups: The batch's `requests`, where they are at hand.
    """
    pairs = tokens = full_pairs = full_tokens = 0
    groups = groups or requests(batch)
    if sees_all_before(attention):
        for q, kv, count in groups:
            pairs += count * (q * (kv - q) + q * (q + 1) // 2)
        tokens = batch.total_kv
    else:
        for q, kv, count in groups:
            pairs += count * visible_pairs(attention, q, kv)
            tokens += count * visible_tokens(attention, q, kv)
    if attention.indexer_heads:
        for q, kv, count in groups:
            full_pairs += count * _pairs_up_to(kv, q, None, None, attention.causal)
            full_tokens += count * kv
    heads, width = attention.num_qo_heads, attention.head_dim + attention.value_dim
    total_q = batch.total_q
    item = DTYPE_BYTES[attention.dtype]
    flops = 2.0 * heads * width * pairs
    exps = float(heads * pairs * (2 if attention.logit_soft_cap else 1))
    if attention.sinks:
        exps += heads * total_q
    indexer_bytes = indexer_flops = 0.0
    if attention.indexer_heads and attention.indexer_head_dim:
        indexer_flops = 2.0 * attention.indexer_heads * attention.indexer_head_dim * full_pairs
        indexer_bytes = full_tokens * attention.indexer_head_dim * DTYPE_BYTES[INDEX_DTYPE]
    return Work(
        pairs=pairs,
        kv_tokens=tokens,
        flops=flops + indexer_flops,
        exps=exps,
        q_bytes=total_q * heads * attention.head_dim * item,
        kv_bytes=tokens * attention.kv_bytes_per_token,
        o_bytes=total_q * heads * attention.value_dim * item,
        indexer_bytes=indexer_bytes,
        indexer_flops=indexer_flops,
    )


def sees_all_before(attention: Attention) -> bool:
    """Whether a query sees every key up to its own position, and no other."""
    return (
        attention.causal
        and attention.sliding_window is None
        and attention.chunk_size is None
        and attention.top_k is None
    )


def visible_pairs(attention: Attention, q: int, kv: int) -> int:
    """Count the query-key pairs of one request that the mask lets through.

    Args:
        attention: Gives causality, window, chunk and sparse selection.
        q: New query tokens, the last `q` of the `kv` positions.
        kv: KV tokens, the new ones included.
    """
    if not attention.causal and attention.top_k is None:
        return q * (kv if attention.sliding_window is None else min(kv, attention.sliding_window))
    limit = attention.sliding_window
    if attention.top_k is not None:
        selected = attention.top_k * attention.block
        limit = selected if limit is None else min(limit, selected)
    return _pairs_up_to(kv, q, limit, attention.chunk_size, attention.causal)


def visible_tokens(attention: Attention, q: int, kv: int) -> int:
    """Count the KV tokens of one request that at least one of its queries sees."""
    if attention.top_k is not None:
        return min(kv, attention.top_k * attention.block * q)
    return kv - first_visible(attention, q, kv)


def first_visible(attention: Attention, q: int, kv: int) -> int:
    """Give the position of the first KV token that the first query sees (0 without window and chunk)."""
    first = 0
    if attention.sliding_window is not None:
        first = max(0, kv - q + 1 - attention.sliding_window)
    if attention.chunk_size is not None:
        first = max(first, (kv - q) // attention.chunk_size * attention.chunk_size)
    return first


def _pairs_up_to(kv: int, q: int, limit: int | None, chunk: int | None, causal: bool) -> int:
    if not causal:
        return q * min(kv, limit or kv)
    return _prefix(kv, limit, chunk) - _prefix(kv - q, limit, chunk)


def _prefix(n: int, limit: int | None, chunk: int | None) -> int:
    """Sum, over the first `n` positions, of the keys each sees."""
    if chunk is None:
        return _triangle(n, limit)
    whole, rest = divmod(n, chunk)
    return whole * _triangle(chunk, limit) + _triangle(rest, limit)


def _triangle(n: int, limit: int | None) -> int:
    if limit is None or n <= limit:
        return n * (n + 1) // 2
    return limit * (limit + 1) // 2 + (n - limit) * limit
