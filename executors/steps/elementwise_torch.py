"""Element-wise steps in PyTorch: float32 inside, rounded where the fused kernels round."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from executors.steps.elementwise import Heads, Rotation


def norm(x: "Tensor", weight: "Tensor", eps: float, out: "Tensor | None" = None) -> "Tensor":
    """RMS norm over the last dim."""
    result = _normalised(x, weight, eps).to(x.dtype)
    return result if out is None else out.copy_(result)


def add_norm(x: "Tensor", residual: "Tensor", weight: "Tensor", eps: float) -> "Tensor":
    """Add to the residual and give its norm."""
    total = x.float() + residual.float()
    residual.copy_(total)
    return _normalised(total, weight, eps).to(x.dtype)


def rotate(q: "Heads", k: "Heads", v: "Heads | None", rotation: "Rotation") -> None:
    """Normalise and rotate queries and keys, copy values."""
    cos, sin = rotation.angles[rotation.positions][:, None].chunk(2, dim=-1)
    for heads in (q, k):
        source = heads.source.float()
        if heads.norm is not None:
            source = _normalised(source, heads.norm, rotation.eps)
        a, b = source.chunk(2, dim=-1)
        half = a.shape[-1]
        heads.target[..., :half] = (a * cos - b * sin).to(heads.target.dtype)
        heads.target[..., half:] = (b * cos + a * sin).to(heads.target.dtype)
    if v is not None:
        v.target.copy_(v.source)


def store(new: "tuple[Tensor, ...]", caches: "tuple[Tensor, ...]", rows: "Tensor") -> None:
    """Write new keys and values to their cache rows."""
    for source, cache in zip(new, caches, strict=True):
        cache.flatten(0, 1)[rows] = source


def gate(x: "Tensor") -> "Tensor":
    """SiLU of the first half times the second."""
    a, b = x.float().chunk(2, dim=-1)
    return (a * a.sigmoid() * b).to(x.dtype)


def _normalised(x: "Tensor", weight: "Tensor", eps: float) -> "Tensor":
    wide = x.float()
    return wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.float()
