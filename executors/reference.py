"""What is right: attention in float64 on the same pages, and the tolerance that its own low-precision form implies."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from executors.environment import free_bytes
from executors.inputs import torch_dtype
from executors.rows import RowPlan, plan_rows
from executors.visibility import visible

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from executors.inputs import Inputs

TOLERANCE_FACTOR = 2.0
"""Tolerance over the low-precision reference's own error, both relative to the largest value of the row.

A backend rounds at a subset of the places where the low-precision reference rounds (operands, logits, probabilities,
output), plus a split's partial outputs, so its error is drawn from the same distribution or a narrower one. The
largest of many draws varies between runs; the factor covers that, and one wrong key in a batch of ordinary length is
still far outside.
"""
ACCUMULATION = 2.0**-24
"""Rounding of one float32 addition.

Kernels sum products in float32 in an order of their own: over n terms that costs about sqrt(n) such roundings of the
largest value (the usual probabilistic bound). It matters where the low precision is itself float32.
"""
FP8_PROBABILITY_SCALE = 256.0
"""Kernels that round probabilities to fp8 scale the largest one to 2^8 first."""
_PIECE_BYTES = {"cpu": 1 << 26, "cuda": 1 << 30}
"""Largest temporary of one step."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The right output for a part of the rows."""

    rows: "Tensor"
    """int64 `[rows]`: which query tokens were computed."""
    output: "Tensor"
    """`[rows, num_qo_heads, value_dim]` in `precision`."""
    tolerance: "Tensor"
    """`[rows]`: largest absolute error of a correct backend in that row."""
    fraction: float
    """Rows computed over all rows."""
    precision: str
    """`float64`, or `float32` where memory forces it."""


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """The dtype to compute in, and what a kernel rounds on the way."""

    dtype: "torch.dtype"
    query: "Callable[[Tensor], Tensor]"
    """Takes queries, gives them scaled."""
    key: "Callable[[Tensor], Tensor]"
    logits: "Callable[[Tensor], Tensor]"
    probabilities: "Callable[[Tensor], Tensor]"
    output: "Callable[[Tensor], Tensor]"


def make_reference(
    inputs: "Inputs", *, seed: int = 0, limit_seconds: float = 2.0, slot: int = 0, plan: RowPlan | None = None
) -> Reference:
    """Compute the right output.

    Args:
        inputs: The workload.
        seed: Draws which rows are checked where not all fit the limit.
        limit_seconds: Estimated time above which only a sample of rows is computed.
        slot: Which KV copy to read.
        plan: Rows to compute; None plans them within the limit.
    """
    import torch

    plan = plan or plan_rows(inputs.attention, inputs.batch, inputs.device, seed=seed, limit_seconds=limit_seconds)
    wide = _wide_dtype(inputs)
    exact, low = _exact(inputs, wide), _low_precision(inputs)
    starts = [0, *accumulate(inputs.batch.q_lens)]
    rounding = torch.finfo(torch_dtype(inputs.attention.dtype)).eps / 2
    rows, outputs, sums, worst = [], [], [], rounding
    for requests, positions in _pieces(inputs, plan):
        k, v = _gather(inputs, slot, requests)
        at = torch.tensor([starts[r] for r in requests], device=inputs.device)[:, None] + positions
        seen = visible(inputs, requests, positions)
        right = _attend(inputs, inputs.q[at], k, v, seen, exact)
        rounded = _attend(inputs, inputs.q[at], k, v, seen, low)
        worst = max(worst, float(((rounded.to(wide) - right).abs().amax((2, 3)) / _amplitude(right)).max()))
        rows.append(at.flatten())
        outputs.append(right.flatten(0, 1))
        terms = k.shape[1] + inputs.attention.head_dim
        largest = v.to(torch.float32).abs().amax((1, 2, 3)).to(wide)
        sums.append((ACCUMULATION * terms**0.5 * largest)[:, None].expand(at.shape).flatten())
    output = torch.cat(outputs)
    return Reference(
        rows=torch.cat(rows),
        output=output,
        tolerance=TOLERANCE_FACTOR * worst * _amplitude(output) + torch.cat(sums),
        fraction=plan.fraction,
        precision=str(wide).removeprefix("torch."),
    )


def _amplitude(output: "Tensor") -> "Tensor":
    """Largest absolute value of each query token's output: rows over many keys are small and so are their errors."""
    return output.abs().amax((-2, -1)).clamp_min(1e-30)


def _wide_dtype(inputs: "Inputs") -> "torch.dtype":
    import torch

    attention = inputs.attention
    largest = max(inputs.batch.kv_lens) * attention.num_kv_heads * (attention.head_dim + attention.value_dim) * 8
    return torch.float64 if 3 * largest < free_bytes(inputs.device) else torch.float32


def _pieces(inputs: "Inputs", plan: RowPlan) -> "list[tuple[list[int], Tensor]]":
    """Cut the plan into requests and their rows (int64 `[requests, rows]`) whose temporaries stay small."""
    import torch

    attention, limit = inputs.attention, _PIECE_BYTES[inputs.device.partition(":")[0]]
    pieces = []
    for requests in plan.alike(inputs.batch):
        kv, rows = max(inputs.batch.kv_lens[r] for r in requests), len(plan.rows[requests[0]])
        kv_bytes = 8 * kv * attention.num_kv_heads * (attention.head_dim + attention.value_dim)
        rows_at_once = max(1, min(rows, limit // (8 * attention.num_qo_heads * kv)))
        together = max(1, min(limit // kv_bytes, limit // (8 * rows_at_once * attention.num_qo_heads * kv)))
        for low in range(0, len(requests), together):
            part = requests[low : low + together]
            positions = torch.tensor([plan.rows[r] for r in part], device=inputs.device)
            pieces += [(part, chunk) for chunk in torch.split(positions, rows_at_once, dim=1)]
    return pieces


def _gather(inputs: "Inputs", slot: int, requests: list[int]) -> "tuple[Tensor, Tensor]":
    """K and V, `[requests, kv, num_kv_heads, width]` in the KV dtype, shorter requests filled with their last token."""
    import torch

    starts = [0, *accumulate(inputs.batch.kv_lens)]
    first = torch.tensor([starts[r] for r in requests], device=inputs.device)[:, None]
    last = torch.tensor([starts[r + 1] - 1 for r in requests], device=inputs.device)[:, None]
    token = first + torch.arange(max(inputs.batch.kv_lens[r] for r in requests), device=inputs.device)
    at = inputs.token_slots[torch.minimum(token, last)]
    page, offset = at // inputs.batch.page_size, at % inputs.batch.page_size
    return _rows(inputs.k_cache[slot], page, offset), _rows(inputs.v_cache[slot], page, offset)


def _rows(cache: "Tensor", page: "Tensor", offset: "Tensor") -> "Tensor":
    import torch

    if cache.dtype.itemsize == 1:
        return cache.view(torch.uint8)[page, offset].view(cache.dtype)
    return cache[page, offset]


def _attend(
    inputs: "Inputs", q: "Tensor", k: "Tensor", v: "Tensor", seen: "Tensor", arithmetic: _Arithmetic
) -> "Tensor":
    """Attention of `q [b, rows, qo_heads, d]` over `k, v [b, kv, kv_heads, width]` where `seen [b, rows, kv]`."""
    import torch

    attention, dtype = inputs.attention, arithmetic.dtype
    b, rows, heads, width = q.shape
    kv_heads, group = attention.num_kv_heads, attention.group_size
    folded = arithmetic.query(q.to(dtype)).view(b, rows, kv_heads, group, width).permute(0, 2, 3, 1, 4)
    folded = folded.reshape(b, kv_heads, group * rows, width)
    logits = (folded @ arithmetic.key(k.to(dtype)).permute(0, 2, 3, 1)).view(b, kv_heads, group, rows, -1)
    if attention.logit_soft_cap is not None:
        logits = attention.logit_soft_cap * torch.tanh(logits / attention.logit_soft_cap)
    logits = arithmetic.logits(logits).masked_fill(~seen[:, None, None], float("-inf"))
    top = logits.amax(-1, keepdim=True)
    total = torch.zeros((), dtype=dtype, device=q.device)
    if inputs.sinks is not None:
        sink = inputs.sinks.to(dtype).view(1, kv_heads, group, 1, 1)
        top = torch.maximum(top, sink)
        total = torch.exp(sink - top)
    weights = torch.exp(logits - top)
    total = total + weights.sum(-1, keepdim=True)
    kept = arithmetic.probabilities(weights).view(b, kv_heads, group * rows, -1)
    output = (kept @ v.to(dtype).transpose(1, 2)).view(b, kv_heads, group, rows, -1) / total
    return arithmetic.output(output.permute(0, 3, 1, 2, 4).reshape(b, rows, heads, attention.value_dim))


def _exact(inputs: "Inputs", dtype: "torch.dtype") -> _Arithmetic:
    def keep(x: "Tensor") -> "Tensor":
        return x

    return _Arithmetic(dtype, lambda q: q * inputs.scale, keep, keep, keep, keep)


def _low_precision(inputs: "Inputs") -> _Arithmetic:
    """The same attention with float32 accumulation and everything a kernel may store rounded to the low precision.

    Queries and keys each take the root of the scale, as PyTorch's math kernel does; fp8 kernels round the query to fp8.
    """
    import torch

    low, kv_dtype = torch_dtype(inputs.attention.dtype), torch_dtype(inputs.attention.kv_dtype)

    def rounded(x: "Tensor") -> "Tensor":
        return x.to(low).to(torch.float32)

    def rounded_to_kv(x: "Tensor") -> "Tensor":
        return x.to(kv_dtype).to(torch.float32)

    if kv_dtype.itemsize == 1:
        return _Arithmetic(
            torch.float32,
            query=lambda q: rounded_to_kv(q) * inputs.scale,
            key=lambda k: k,
            logits=rounded,
            probabilities=lambda p: rounded_to_kv(p * FP8_PROBABILITY_SCALE) / FP8_PROBABILITY_SCALE,
            output=rounded,
        )
    root = inputs.scale**0.5
    return _Arithmetic(
        torch.float32, lambda q: rounded(q * root), lambda k: rounded(k * root), rounded, rounded, rounded
    )
