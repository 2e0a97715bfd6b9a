"""A decoder stack over one batch: embedding, layers, head and the greedy choice, as one call."""

from typing import TYPE_CHECKING

from executors.steps.attend import AttentionHalf, GroupedHalf, LatentHalf
from executors.steps.elementwise import elementwise_for
from executors.steps.mlp import DenseHalf, ExpertHalf, MlpHalf
from executors.steps.weights import DenseWeights, ExpertWeights, GroupedWeights, LatentWeights

if TYPE_CHECKING:
    from torch import Tensor

    from executors.base import Prepared
    from executors.inputs import Inputs
    from executors.steps.shape import StackShape
    from executors.steps.weights import StackWeights


class Stack:
    """One forward step of a batch; layer i keeps its KV in copy i modulo the copies there are.

    The prepared attention call reads `inputs.q`, which every layer fills anew: one plan serves all layers.
    """

    def __init__(
        self, shape: "StackShape", weights: "StackWeights", inputs: "Inputs", prepared: "Prepared", *, seed: int = 0
    ) -> None:
        import torch

        self.shape, self.weights, self.inputs, self.prepared = shape, weights, inputs, prepared
        self.half = _half(shape, weights, inputs, prepared)
        self.mlp = _mlp(shape, weights, inputs.device)
        self._ops = elementwise_for(inputs.device)
        generator = torch.Generator(device=inputs.device).manual_seed(seed)
        size = (inputs.batch.total_q,)
        self.ids = torch.randint(shape.vocab_size, size, device=inputs.device, generator=generator)
        """int64 `[tokens]`: the step's input."""
        self._last = inputs.cu_q[1:].long() - 1

    def step(self) -> "Tensor":
        """Draw the next token of every request: int64 `[requests]`."""
        return self.logits().argmax(-1)

    def logits(self) -> "Tensor":
        """Run the stack: fp32 `[requests, vocab]`."""
        import torch

        weights, eps = self.weights, self.shape.eps
        residual = torch.nn.functional.embedding(self.ids, weights.embedding)
        x = self._ops.norm(residual, weights.layers[0].input_norm, eps)
        norms = [layer.input_norm for layer in weights.layers[1:]] + [weights.final_norm]
        for index, (layer, following) in enumerate(zip(weights.layers, norms, strict=True)):
            x = self._ops.add_norm(self.half.run(x, index), residual, layer.post_norm, eps)
            x = self._ops.add_norm(self.mlp.run(x, index), residual, following, eps)
        if len(x) > len(self._last):
            x = x[self._last]
        return torch.nn.functional.linear(x, weights.head).float()


def _half(shape: "StackShape", weights: "StackWeights", inputs: "Inputs", prepared: "Prepared") -> AttentionHalf:
    parts = [layer.attention for layer in weights.layers]
    if shape.attention.is_latent:
        return LatentHalf(shape, tuple(p for p in parts if isinstance(p, LatentWeights)), inputs, prepared)
    return GroupedHalf(shape, tuple(p for p in parts if isinstance(p, GroupedWeights)), inputs, prepared)


def _mlp(shape: "StackShape", weights: "StackWeights", device: str) -> MlpHalf:
    parts = [layer.mlp for layer in weights.layers]
    if shape.has_experts:
        return ExpertHalf(shape, tuple(p for p in parts if isinstance(p, ExpertWeights)), device)
    return DenseHalf(tuple(p for p in parts if isinstance(p, DenseWeights)), device)
