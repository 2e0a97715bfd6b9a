"""The second half of a layer: a gated MLP, or experts that a router picks for every token."""

from typing import TYPE_CHECKING, Protocol

from executors.steps.elementwise import elementwise_for

if TYPE_CHECKING:
    from torch import Tensor

    from executors.steps.shape import StackShape
    from executors.steps.weights import DenseWeights, ExpertWeights


class MlpHalf(Protocol):
    """From the normed hidden state to what the layer adds to the residual."""

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Give `[tokens, hidden]` from `[tokens, hidden]`."""
        ...


class DenseHalf:
    """Two products with a gate between."""

    def __init__(self, weights: "tuple[DenseWeights, ...]", device: str) -> None:
        self._weights, self._ops = weights, elementwise_for(device)

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Run one layer's MLP."""
        import torch

        weights = self._weights[layer]
        gated = self._ops.gate(torch.nn.functional.linear(x, weights.gate_up))
        return torch.nn.functional.linear(gated, weights.down)


class ExpertHalf:
    """Experts as two of PyTorch's grouped products over tokens sorted by expert; nothing waits for the host."""

    def __init__(self, shape: "StackShape", weights: "tuple[ExpertWeights, ...]", device: str) -> None:
        import torch

        experts = shape.experts
        self._weights, self._ops, self._per_token = weights, elementwise_for(device), experts.experts.per_token
        self._ids = torch.arange(experts.local, device=device)
        self.chosen: dict[int, Tensor] = {}
        """Layer to the experts of its last run, int64 `[tokens, per_token]`."""

    def run(self, x: "Tensor", layer: int) -> "Tensor":
        """Run one layer's experts."""
        shares, self.chosen[layer] = self.route(x, layer)
        order, ends = self.sort(self.chosen[layer])
        return self.combine(self.multiply(x[order // self._per_token], ends, layer), order, shares)

    def route(self, x: "Tensor", layer: int) -> "tuple[Tensor, Tensor]":
        """Give the shares (fp32) and the experts of every token, `[tokens, per_token]` each; shares add up to one."""
        import torch

        logits = torch.nn.functional.linear(x, self._weights[layer].router).float()
        top, chosen = logits.topk(self._per_token, dim=-1)
        return top.softmax(-1), chosen

    def sort(self, chosen: "Tensor") -> "tuple[Tensor, Tensor]":
        """Give the order of the rows by expert, and where every expert's rows end (int32 `[experts]`)."""
        import torch

        experts, order = chosen.flatten().sort(stable=True)
        return order, torch.searchsorted(experts, self._ids, right=True).to(torch.int32)

    def multiply(self, rows: "Tensor", ends: "Tensor", layer: int) -> "Tensor":
        """Run the experts on their rows: `[tokens * per_token, hidden]`."""
        import torch

        weights = self._weights[layer]
        inner = torch.nn.functional.grouped_mm(rows, weights.gate_up.transpose(1, 2), offs=ends)
        return torch.nn.functional.grouped_mm(self._ops.gate(inner), weights.down.transpose(1, 2), offs=ends)

    def combine(self, rows: "Tensor", order: "Tensor", shares: "Tensor") -> "Tensor":
        """Bring rows back to their tokens and weigh them: `[tokens, hidden]`."""
        import torch

        back = torch.empty_like(rows)
        back[order] = rows
        weighed = back.view(*shares.shape, -1) * shares[..., None].to(rows.dtype)
        return weighed.sum(1)
