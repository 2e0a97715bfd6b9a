"""The kernels between products and attention, as a server fuses them: one interface, two forms."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Heads that move from a product's output to where attention reads them."""

    source: "Tensor"
    """`[tokens, heads, width]`, a view."""
    target: "Tensor"
    """Of the same shape, a view."""
    norm: "Tensor | None" = None
    """`[width]`: weight of an RMS norm over each head; None leaves it out."""


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """Rotary embedding of a batch, halves rotated against each other."""

    angles: "Tensor"
    """fp32 `[positions, width]`: cosines, then sines."""
    positions: "Tensor"
    """int64 `[tokens]`."""
    eps: float
    """Of the norms over heads."""


class Elementwise(Protocol):
    """Everything beside products and attention that a layer launches."""

    def norm(self, x: "Tensor", weight: "Tensor", eps: float, out: "Tensor | None" = None) -> "Tensor":
        """RMS norm over the last dim of `[tokens, width]`, rows may be strided."""
        ...

    def add_norm(self, x: "Tensor", residual: "Tensor", weight: "Tensor", eps: float) -> "Tensor":
        """Add `x` to `residual` in place and give its norm; both `[tokens, width]`."""
        ...

    def rotate(self, q: Heads, k: Heads, v: Heads | None, rotation: Rotation) -> None:
        """Normalise and rotate queries and keys, copy values."""
        ...

    def store(self, new: "tuple[Tensor, ...]", caches: "tuple[Tensor, ...]", rows: "Tensor") -> None:
        """Write `[tokens, heads, width]` to the given rows of `[pages, page_size, heads, width]`, for K and V."""
        ...

    def gate(self, x: "Tensor") -> "Tensor":
        """SiLU of the first half of `[tokens, 2 * width]`, times the second half."""
        ...


def elementwise_for(device: str) -> Elementwise:
    """Give the fused kernels on a GPU, PyTorch's operations elsewhere."""
    if device.startswith("cuda"):
        from executors.steps import elementwise_triton

        return elementwise_triton
    from executors.steps import elementwise_torch

    return elementwise_torch
