"""The parts of a step on their own: every product of a layer and every kernel between them, weights in rotation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel import Batch
from executors.base import Prepared
from executors.inputs import make_inputs
from executors.steps.attend import GroupedHalf, LatentHalf
from executors.steps.elementwise import elementwise_for
from executors.steps.mlp import ExpertHalf
from executors.steps.stack import Stack

if TYPE_CHECKING:
    from torch import Tensor

    from executors.steps.shape import StackShape
    from executors.steps.weights import StackWeights

LARGEST_SAMPLED = 256
"""Tokens above which no head and no sampling is measured: one token a request is sampled."""


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel or product over a number of tokens."""

    kind: str
    """`gemm`, `bmm`, `moe`, `norm`, `rotate`, `gate`, `kv_write`, `embed`, `sample`, `route` or `combine`."""
    name: str
    """Which of the model's: `qkv`, `gate_up`, ..."""
    tokens: int
    n: int
    """Columns of a product; elements of a token that an element-wise kernel moves, read and written."""
    k: int
    """Depth of a product; 0 for the others."""
    run: Callable[[int], object]
    """Runs it on the weights, or the cache, of one layer."""


def parts_of(shape: "StackShape", weights: "StackWeights", tokens: int, device: str) -> Iterator[Part]:
    """List the parts of one layer, and of the ends of the stack, over `tokens` tokens."""
    stack = _stack(shape, weights, tokens, device)
    yield from _products(stack, tokens)
    yield from _ends(stack, tokens)
    yield from _elementwise(stack, tokens)
    if isinstance(stack.mlp, ExpertHalf):
        yield from _experts(stack, stack.mlp, tokens)
    if isinstance(stack.half, LatentHalf):
        yield from _absorbed(stack, stack.half, tokens)


def _stack(shape: "StackShape", weights: "StackWeights", tokens: int, device: str) -> Stack:
    inputs = make_inputs(shape.attention, Batch.decode([1] * tokens), device, seed=tokens, slots=shape.layers)
    return Stack(shape, weights, inputs, Prepared(lambda slot: inputs.q))


def _random(stack: Stack, tokens: int, width: int) -> "Tensor":
    import torch

    return torch.randn(tokens, width, device=stack.inputs.device).to(stack.inputs.q.dtype)


def _products(stack: Stack, tokens: int) -> Iterator[Part]:
    import torch

    for name in ("qkv", "qkv_a", "q_b", "o", "gate_up", "down", "router"):
        if all(product.name != name for product in stack.shape.weights.products):
            continue
        product = stack.shape.product(name)
        x = _random(stack, tokens, product.k)
        matrices = [layer.matrix(name) for layer in stack.weights.layers]

        def run(layer: int, x: "Tensor" = x, matrices: "list[Tensor]" = matrices) -> object:
            return torch.nn.functional.linear(x, matrices[layer])

        yield Part("gemm", name, tokens, product.n, product.k, run)


def _ends(stack: Stack, tokens: int) -> Iterator[Part]:
    import torch

    shape, weights = stack.shape, stack.weights
    hidden, vocab = shape.hidden_size, shape.vocab_size
    yield Part(
        "embed", "embed", tokens, 2 * hidden, 0, lambda _: torch.nn.functional.embedding(stack.ids, weights.embedding)
    )
    if tokens <= LARGEST_SAMPLED:
        x, logits = _random(stack, tokens, hidden), _random(stack, tokens, vocab)
        yield Part("gemm", "head", tokens, vocab, hidden, lambda _: torch.nn.functional.linear(x, weights.head))
        yield Part("sample", "argmax", tokens, vocab, 0, lambda _: logits.float().argmax(-1))


def _elementwise(stack: Stack, tokens: int) -> Iterator[Part]:
    shape, inputs, half = stack.shape, stack.inputs, stack.half
    ops, hidden = elementwise_for(inputs.device), shape.hidden_size
    x, residual = _random(stack, tokens, hidden), _random(stack, tokens, hidden)
    weight = stack.weights.final_norm
    yield Part("norm", "add_norm", tokens, 4 * hidden, 0, lambda _: ops.add_norm(x, residual, weight, shape.eps))
    if not shape.has_experts:
        width = shape.product("down").k
        pair = _random(stack, tokens, 2 * width)
        yield Part("gate", "gate", tokens, 3 * width, 0, lambda _: ops.gate(pair))
    if isinstance(half, GroupedHalf):
        qkv = _random(stack, tokens, shape.product("qkv").n)
        yield Part("rotate", "rotate", tokens, 2 * qkv.shape[1], 0, lambda layer: half.rotate(qkv, layer))
    new = sum(t[0].numel() for t in ((inputs.k_new,) if shape.attention.is_latent else (inputs.k_new, inputs.v_new)))
    yield Part("kv_write", "kv_write", tokens, 2 * new, 0, lambda layer: half.write(layer % inputs.slots))


def _experts(stack: Stack, half: ExpertHalf, tokens: int) -> Iterator[Part]:
    """Choice of experts, their products, and the way back; what a server fuses into fewer kernels."""
    layers, hidden = stack.shape.experts, stack.shape.hidden_size
    x = _random(stack, tokens, hidden)
    shares, chosen = half.route(x, 0)
    order, ends = half.sort(chosen)
    rows = x[order // chosen.shape[1]]
    size = (len(rows), layers.intermediate_size, hidden)
    yield Part("route", "route", tokens, layers.local, 0, lambda layer: half.sort(half.route(x, layer)[1]))
    yield Part("moe", "experts", *size, lambda layer: half.multiply(rows, ends, layer))
    yield Part("combine", "combine", tokens, hidden, 0, lambda _: half.combine(rows, order, shares))


def _absorbed(stack: Stack, half: LatentHalf, tokens: int) -> Iterator[Part]:
    a = stack.shape.attention
    heads, rank, nope, value = a.num_qo_heads, a.value_dim, a.qk_nope_head_dim or 0, a.expanded_v_head_dim or 0
    query = _random(stack, tokens, heads * nope).view(tokens, heads, nope)
    output = _random(stack, tokens, heads * rank).view(tokens, heads, rank)
    yield Part("bmm", "absorb", tokens, heads * rank, nope, lambda layer: half.absorb(query, layer))
    yield Part("bmm", "expand", tokens, heads * value, rank, lambda layer: half.expand(output, layer))
