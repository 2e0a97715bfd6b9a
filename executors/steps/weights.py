"""Random weights of a stack: every matrix keeps the size of its input, norms are near one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from executors.inputs import torch_dtype

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from executors.steps.shape import StackShape

NORM_SPREAD = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWeights:
    """Projections of stored heads."""

    qkv: "Tensor"
    """`[qo heads + 2 kv heads, hidden]`, heads times head_dim each."""
    o: "Tensor"
    """`[hidden, qo heads * value_dim]`."""
    q_norm: "Tensor | None"
    k_norm: "Tensor | None"


@dataclass(frozen=True, slots=True, eq=False)
class LatentWeights:
    """Projections of MLA, those of the latent absorbed into query and output."""

    qkv_a: "Tensor"
    """`[q_lora_rank + kv_lora_rank + rope, hidden]`."""
    q_a_norm: "Tensor"
    q_b: "Tensor"
    """`[heads * (nope + rope), q_lora_rank]`."""
    kv_a_norm: "Tensor"
    k_up: "Tensor"
    """`[heads, nope, kv_lora_rank]`."""
    v_up: "Tensor"
    """`[heads, kv_lora_rank, value]`."""
    o: "Tensor"
    """`[hidden, heads * value]`."""


@dataclass(frozen=True, slots=True, eq=False)
class DenseWeights:
    """A gated MLP."""

    gate_up: "Tensor"
    """`[2 * intermediate, hidden]`."""
    down: "Tensor"
    """`[hidden, intermediate]`."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpertWeights:
    """Routed experts, each a gated MLP."""

    router: "Tensor"
    """`[experts, hidden]`."""
    gate_up: "Tensor"
    """`[experts, 2 * intermediate, hidden]`."""
    down: "Tensor"
    """`[experts, hidden, intermediate]`."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One decoder layer."""

    attention: GroupedWeights | LatentWeights
    mlp: DenseWeights | ExpertWeights
    input_norm: "Tensor"
    post_norm: "Tensor"

    def matrix(self, name: str) -> "Tensor":
        """Give one matrix by the name of its product: `qkv`, `o`, `gate_up`, ..."""
        found = getattr(self.mlp if name in ("gate_up", "down", "router") else self.attention, name)
        return cast("Tensor", found)


@dataclass(frozen=True, slots=True, eq=False)
class StackWeights:
    """All weights of a stack."""

    layers: tuple[LayerWeights, ...]
    embedding: "Tensor"
    """`[vocab, hidden]`."""
    final_norm: "Tensor"
    head: "Tensor"
    """`[vocab, hidden]`."""


def make_weights(shape: "StackShape", device: str, *, seed: int) -> StackWeights:
    """Draw the weights of a stack in the model's dtype."""
    draw = _Draw(device, torch_dtype(shape.attention.dtype), seed)
    hidden, vocab = shape.hidden_size, shape.vocab_size
    return StackWeights(
        layers=tuple(_layer(shape, draw) for _ in range(shape.layers)),
        embedding=draw.matrix(vocab, hidden, scale=1.0),
        final_norm=draw.norm(hidden),
        head=draw.matrix(vocab, hidden),
    )


class _Draw:
    """Draws matrices and norm weights on one device."""

    def __init__(self, device: str, dtype: "torch.dtype", seed: int) -> None:
        import torch

        self._device, self._dtype = device, dtype
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def matrix(self, *size: int, fan_in: int | None = None, scale: float | None = None) -> "Tensor":
        """Normal values whose products have the size of what they multiply."""
        import torch

        std = scale if scale is not None else (fan_in or size[-1]) ** -0.5
        drawn = torch.empty(size, dtype=self._dtype, device=self._device)
        return drawn.normal_(std=std, generator=self._generator)

    def norm(self, width: int) -> "Tensor":
        """Values around one."""
        return self.matrix(width, scale=NORM_SPREAD) + 1.0


def _layer(shape: "StackShape", draw: _Draw) -> LayerWeights:
    hidden = shape.hidden_size
    return LayerWeights(
        attention=_latent(shape, draw) if shape.attention.is_latent else _grouped(shape, draw),
        mlp=_experts(shape, draw) if shape.has_experts else _dense(shape, draw),
        input_norm=draw.norm(hidden),
        post_norm=draw.norm(hidden),
    )


def _dense(shape: "StackShape", draw: _Draw) -> DenseWeights:
    up, down = shape.product("gate_up"), shape.product("down")
    return DenseWeights(draw.matrix(up.n, up.k), draw.matrix(down.n, down.k))


def _experts(shape: "StackShape", draw: _Draw) -> ExpertWeights:
    experts, hidden = shape.experts, shape.hidden_size
    count, width = experts.local, experts.intermediate_size
    return ExpertWeights(
        router=draw.matrix(experts.experts.count, hidden),
        gate_up=draw.matrix(count, 2 * width, hidden),
        down=draw.matrix(count, hidden, width),
    )


def _grouped(shape: "StackShape", draw: _Draw) -> GroupedWeights:
    qkv, o, width = shape.product("qkv"), shape.product("o"), shape.attention.head_dim
    norms = (draw.norm(width), draw.norm(width)) if shape.qk_norm else (None, None)
    return GroupedWeights(draw.matrix(qkv.n, qkv.k), draw.matrix(o.n, o.k), *norms)


def _latent(shape: "StackShape", draw: _Draw) -> LatentWeights:
    a, qkv_a, q_b, o = shape.attention, shape.product("qkv_a"), shape.product("q_b"), shape.product("o")
    heads, rank, nope = a.num_qo_heads, a.kv_lora_rank or 0, a.qk_nope_head_dim or 0
    return LatentWeights(
        qkv_a=draw.matrix(qkv_a.n, qkv_a.k),
        q_a_norm=draw.norm(q_b.k),
        q_b=draw.matrix(q_b.n, q_b.k),
        kv_a_norm=draw.norm(rank),
        k_up=draw.matrix(heads, nope, rank, fan_in=nope),
        v_up=draw.matrix(heads, rank, a.expanded_v_head_dim or 0, fan_in=rank),
        o=draw.matrix(o.n, o.k),
    )
