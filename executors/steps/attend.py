"""The attention half of a layer: projections, rotation, KV write and the backend's call."""

from typing import TYPE_CHECKING, Protocol

from executors.steps.elementwise import Heads, Rotation, elementwise_for

if TYPE_CHECKING:
    from torch import Tensor

    from executors.base import Prepared
    from executors.inputs import Inputs
    from executors.steps.shape import StackShape
    from executors.steps.weights import GroupedWeights, LatentWeights


class AttentionHalf(Protocol):
    """From the normed hidden state to what the layer adds to the residual."""

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Give `[tokens, hidden]` from `[tokens, hidden]`."""
        ...

    def write(self, slot: int) -> None:
        """Store the new tokens' keys and values."""
        ...


class GroupedHalf:
    """Stored heads: one projection, rotation, write, call, output projection."""

    def __init__(
        self, shape: "StackShape", weights: "tuple[GroupedWeights, ...]", inputs: "Inputs", prepared: "Prepared"
    ) -> None:
        self._attention, self._weights, self._inputs = shape.attention, weights, inputs
        self._prepared, self._ops = prepared, elementwise_for(inputs.device)
        self._rotation = make_rotation(shape, inputs)

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Run one layer's attention half."""
        weights, slot = self._weights[layer], layer % self._inputs.slots
        self.rotate(_linear(x, weights.qkv), layer)
        self.write(slot)
        return _linear(self._prepared.run(slot).flatten(1), weights.o)

    def rotate(self, qkv: "Tensor", layer: int) -> None:
        """Move rotated queries and keys, and values, to where attention and write read them."""
        import torch

        a, inputs, weights = self._attention, self._inputs, self._weights[layer]
        heads = qkv.view(len(qkv), -1, a.head_dim)
        q, k, v = torch.split(heads, [a.num_qo_heads, a.num_kv_heads, a.num_kv_heads], dim=1)
        self._ops.rotate(
            Heads(q, inputs.q, weights.q_norm),
            Heads(k, inputs.k_new, weights.k_norm),
            Heads(v, inputs.v_new),
            self._rotation,
        )

    def write(self, slot: int) -> None:
        """Store the new tokens' keys and values."""
        inputs = self._inputs
        new, caches = (inputs.k_new, inputs.v_new), (inputs.k_cache[slot], inputs.v_cache[slot])
        self._ops.store(new, caches, inputs.new_slots)


class LatentHalf:
    """MLA over the latent: low-rank projections, absorbed products around the call."""

    def __init__(
        self, shape: "StackShape", weights: "tuple[LatentWeights, ...]", inputs: "Inputs", prepared: "Prepared"
    ) -> None:
        self._shape, self._attention, self._weights = shape, shape.attention, weights
        self._inputs, self._prepared, self._ops = inputs, prepared, elementwise_for(inputs.device)
        self._rotation = make_rotation(shape, inputs)

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Run one layer's attention half."""
        a, inputs, weights, slot = self._attention, self._inputs, self._weights[layer], layer % self._inputs.slots
        rank, nope, eps = a.value_dim, a.qk_nope_head_dim or 0, self._shape.eps
        lora = len(weights.q_a_norm)
        low = _linear(x, weights.qkv_a)
        query = _linear(self._ops.norm(low[:, :lora], weights.q_a_norm, eps), weights.q_b)
        query = query.view(len(x), a.num_qo_heads, -1)
        latent = inputs.k_new.squeeze(1)
        self._ops.norm(low[:, lora : lora + rank], weights.kv_a_norm, eps, latent[:, :rank])
        keys = low[:, lora + rank :].unsqueeze(1)
        self._ops.rotate(
            Heads(query[..., nope:], inputs.q[..., rank:]), Heads(keys, inputs.k_new[..., rank:]), None, self._rotation
        )
        self.absorb(query[..., :nope], layer)
        self.write(slot)
        return _linear(self.expand(self._prepared.run(slot), layer), weights.o)

    def absorb(self, query: "Tensor", layer: int) -> None:
        """Bring `[tokens, heads, nope]` queries to the latent, where attention reads them."""
        target = self._inputs.q[..., : self._attention.value_dim]
        target.copy_((query.transpose(0, 1) @ self._weights[layer].k_up).transpose(0, 1))

    def expand(self, output: "Tensor", layer: int) -> "Tensor":
        """Bring `[tokens, heads, rank]` outputs to value heads, `[tokens, heads * value]`."""
        return (output.transpose(0, 1) @ self._weights[layer].v_up).transpose(0, 1).flatten(1)

    def write(self, slot: int) -> None:
        """Store the new tokens' latents."""
        self._ops.store((self._inputs.k_new,), (self._inputs.k_cache[slot],), self._inputs.new_slots)


def make_rotation(shape: "StackShape", inputs: "Inputs") -> Rotation:
    """Tabulate the angles up to the longest request and give every new token its position."""
    import torch

    a, batch = shape.attention, inputs.batch
    width = (a.qk_rope_head_dim or 0) if a.is_latent else a.head_dim
    steps = torch.arange(0, width, 2, device=inputs.device, dtype=torch.float64) / width
    at = torch.arange(max(batch.kv_lens), device=inputs.device, dtype=torch.float64)
    angles = at[:, None] * shape.rope_theta**-steps
    positions = [
        torch.arange(kv - q, kv, device=inputs.device) for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True)
    ]
    return Rotation(torch.cat([angles.cos(), angles.sin()], dim=1).float(), torch.cat(positions), shape.eps)


def _linear(x: "Tensor", weight: "Tensor") -> "Tensor":
    import torch

    return torch.nn.functional.linear(x, weight)
