"""What a stack must give: the same forward pass request by request in float64, and the tolerance rounding implies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executors.inputs import torch_dtype
from executors.steps.mlp import ExpertHalf
from executors.steps.weights import DenseWeights, ExpertWeights, GroupedWeights, LatentWeights

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from executors.steps.stack import Stack

TOLERANCE_FACTOR = 2.0
"""Tolerance over the error of the pass whose every result is rounded; kernels round at a subset of those places."""

NEAR_TIE = 0.1
"""Router logits, of size one, closer than this may swap places by rounding."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far a stack's logits are from the right ones."""

    max_error: float
    tolerance: float

    @property
    def correct(self) -> bool:
        """Whether the error is finite and within the tolerance."""
        return self.max_error <= self.tolerance


def compare_with_reference(stack: "Stack") -> Comparison:
    """Run a stack once and compare its logits; the cache's new rows are written, the rest is read as it is."""
    import torch

    dtype = torch_dtype(stack.shape.attention.dtype)
    given = stack.logits().double()
    right = _Pass(stack, torch.float64, lambda x: x).logits()
    rounded = _Pass(stack, torch.float32, lambda x: x.to(dtype).float()).logits()
    return Comparison(
        float((given - right).abs().max()), TOLERANCE_FACTOR * float((rounded.double() - right).abs().max())
    )


class _Pass:
    """One forward pass in plain operations."""

    def __init__(self, stack: "Stack", dtype: "torch.dtype", rounded: "Callable[[Tensor], Tensor]") -> None:
        self._stack, self._dtype, self._round = stack, dtype, rounded

    def logits(self) -> "Tensor":
        stack, weights = self._stack, self._stack.weights
        h = weights.embedding[stack.ids].to(self._dtype)
        for index, layer in enumerate(weights.layers):
            x = self._norm(h, layer.input_norm)
            h = self._round(h + self._attention(x, layer.attention, index))
            x = self._norm(h, layer.post_norm)
            h = self._round(h + self._mlp(x, layer.mlp, index))
        last = stack.inputs.cu_q[1:].long() - 1
        return self._linear(self._norm(h, weights.final_norm)[last], weights.head)

    def _mlp(self, x: "Tensor", weights: DenseWeights | ExpertWeights, index: int) -> "Tensor":
        if isinstance(weights, ExpertWeights):
            return self._experts(x, weights, index)
        return self._gated(x, weights.gate_up, weights.down)

    def _gated(self, x: "Tensor", gate_up: "Tensor", down: "Tensor") -> "Tensor":
        a, b = self._linear(x, gate_up).chunk(2, dim=-1)
        return self._linear(self._round(a * a.sigmoid() * b), down)

    def _experts(self, x: "Tensor", weights: ExpertWeights, index: int) -> "Tensor":
        """Take the stack's own choice of experts, which near ties decide, and check that none is far from the best."""
        import torch

        half = self._stack.mlp
        assert isinstance(half, ExpertHalf)
        chosen = half.chosen[index]
        logits = self._linear(x, weights.router)
        top = logits.gather(1, chosen)
        least = logits.topk(chosen.shape[1], dim=-1).values[:, -1]
        if bool((top.amin(1) < least - NEAR_TIE).any()):
            raise ValueError(f"layer {index} routes a token to an expert that is not among its best")
        shares = self._round(top.softmax(-1))
        out = torch.zeros_like(x)
        for expert in range(len(weights.gate_up)):
            token, place = (chosen == expert).nonzero(as_tuple=True)
            given = self._gated(x[token], weights.gate_up[expert], weights.down[expert])
            out.index_add_(0, token, self._round(given * shares[token, place][:, None]))
        return self._round(out)

    def _linear(self, x: "Tensor", weight: "Tensor") -> "Tensor":
        return self._round(x @ weight.to(self._dtype).T)

    def _norm(self, x: "Tensor", weight: "Tensor") -> "Tensor":
        scale = (x.square().mean(-1, keepdim=True) + self._stack.shape.eps).rsqrt()
        return self._round(x * scale * weight.to(self._dtype))

    def _rotated(self, x: "Tensor") -> "Tensor":
        """Rotate `[tokens, heads, width]` as complex numbers."""
        import torch

        batch, width = self._stack.inputs.batch, x.shape[-1]
        at = [torch.arange(kv - q, kv, device=x.device) for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True)]
        base = self._stack.shape.rope_theta
        rates = base ** -(torch.arange(0, width, 2, device=x.device, dtype=torch.float64) / width)
        turn = torch.exp(1j * torch.cat(at)[:, None] * rates)[:, None]
        turned = torch.complex(*x.double().chunk(2, dim=-1)) * turn
        return self._round(torch.cat([turned.real, turned.imag], dim=-1).to(self._dtype))

    def _attention(self, x: "Tensor", weights: GroupedWeights | LatentWeights, index: int) -> "Tensor":
        if isinstance(weights, LatentWeights):
            return self._latent(x, weights, index)
        import torch

        a = self._stack.shape.attention
        heads = self._linear(x, weights.qkv).view(len(x), -1, a.head_dim)
        q, k, v = torch.split(heads, [a.num_qo_heads, a.num_kv_heads, a.num_kv_heads], dim=1)
        if weights.q_norm is not None and weights.k_norm is not None:
            q, k = self._norm(q, weights.q_norm), self._norm(k, weights.k_norm)
        return self._linear(self._attend(self._rotated(q), self._rotated(k), v, index).flatten(1), weights.o)

    def _latent(self, x: "Tensor", weights: LatentWeights, index: int) -> "Tensor":
        import torch

        a = self._stack.shape.attention
        rank, rope = a.value_dim, a.qk_rope_head_dim or 0
        query, latent, keys = torch.split(self._linear(x, weights.qkv_a), [len(weights.q_a_norm), rank, rope], dim=-1)
        q = self._linear(self._norm(query, weights.q_a_norm), weights.q_b).view(len(x), a.num_qo_heads, -1)
        nope, turned = q[..., :-rope], self._rotated(q[..., -rope:])
        absorbed = self._round(torch.einsum("thn,hnr->thr", nope, weights.k_up.to(self._dtype)))
        stored = torch.cat([self._norm(latent, weights.kv_a_norm)[:, None], self._rotated(keys[:, None])], dim=-1)
        out = self._attend(torch.cat([absorbed, turned], dim=-1), stored, stored[..., :rank], index)
        values = self._round(torch.einsum("thr,hrv->thv", out, weights.v_up.to(self._dtype)))
        return self._linear(values.flatten(1), weights.o)

    def _attend(self, q: "Tensor", k: "Tensor", v: "Tensor", index: int) -> "Tensor":
        """Attend request by request: `[tokens, heads, value_dim]`, cached tokens before new ones."""
        import torch

        inputs = self._stack.inputs
        slot, group = index % inputs.slots, self._stack.shape.attention.group_size
        outputs = []
        for request, (new, kv) in enumerate(zip(inputs.batch.q_lens, inputs.batch.kv_lens, strict=True)):
            first = int(inputs.cu_q[request])
            cached = inputs.token_slots[int(inputs.cu_kv[request]) :][: kv - new]
            own = slice(first, first + new)
            keys, values = (
                torch.cat([cache[slot].flatten(0, 1)[cached].to(self._dtype), fresh[own]]).repeat_interleave(group, 1)
                for cache, fresh in ((inputs.k_cache, k), (inputs.v_cache, v))
            )
            logits = torch.einsum("qhd,khd->hqk", q[own], keys) * inputs.scale
            hidden = torch.ones(new, kv, dtype=torch.bool, device=q.device).triu(kv - new + 1)
            weights = self._round(logits.masked_fill(hidden, float("-inf")).softmax(-1))
            outputs.append(self._round(torch.einsum("hqk,khd->qhd", weights, values)))
        return torch.cat(outputs)
