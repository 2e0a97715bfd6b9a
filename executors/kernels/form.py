"""What a kernel is compiled for: heads, dims, masks and KV source of one workload."""

from dataclasses import dataclass
from typing import Literal

from costmodel import Attention, Batch

Source = Literal["gather", "page", "fresh"]
"""Where a KV tile comes from: rows of many pages, rows inside one page, or the contiguous new tokens."""


def next_power_of_2(value: int) -> int:
    """Round up to a power of two."""
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time constants of one attention layer; absent masks are 0."""

    group: int
    """Query heads per KV head."""
    kv_heads: int
    head_dim: int
    value_dim: int
    page_size: int
    latent: bool
    """Values are the first `value_dim` columns of the keys."""
    causal: bool
    window: int
    chunk: int
    soft_cap: float
    sinks: bool
    tree: bool
    """A boolean mask decides which of the new tokens a query sees."""
    widen: bool
    """KV is stored narrower than queries; the tile is computed in fp16."""

    @classmethod
    def of(cls, attention: Attention, batch: Batch) -> "Form":
        """Take the constants from a workload."""
        return cls(
            group=attention.group_size,
            kv_heads=attention.num_kv_heads,
            head_dim=attention.head_dim,
            value_dim=attention.value_dim,
            page_size=batch.page_size,
            latent=attention.is_latent,
            causal=attention.causal and not (batch.phase == "verify" and batch.topk > 1),
            window=attention.sliding_window or 0,
            chunk=attention.chunk_size or 0,
            soft_cap=attention.logit_soft_cap or 0.0,
            sinks=attention.sinks,
            tree=batch.phase == "verify" and batch.topk > 1,
            widen=attention.kv_dtype.startswith("fp8"),
        )

    @property
    def main_dim(self) -> int:
        """Columns of a key in the first product: the largest power of two within `head_dim`."""
        return 1 << (self.head_dim.bit_length() - 1)

    @property
    def rest_dim(self) -> int:
        """Columns in the second product, 0 where `head_dim` is a power of two."""
        return self.head_dim - self.main_dim

    @property
    def rest_block(self) -> int:
        """`rest_dim` padded to what the matrix units take."""
        return max(16, next_power_of_2(self.rest_dim)) if self.rest_dim else 0

    @property
    def value_block(self) -> int:
        """`value_dim` padded to a power of two."""
        return next_power_of_2(self.value_dim)

    @property
    def columns(self) -> int:
        """Columns of keys and values that one token brings into shared memory."""
        return self.main_dim + self.rest_block + (0 if self.latent else self.value_block)
