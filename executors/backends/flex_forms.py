"""Ways to attend over a paged cache with FlexAttention: a request at a time, packed by request, or padded."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from executors.backends.block_masks import MaskMod, block_mask, packed_mask, square_mask
from executors.base import Prepared
from executors.requests import split_requests
from executors.sampler import cpu_threads

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

DEFAULT_BLOCK = 128
"""Block size of PyTorch's block masks."""
RECOMPILE_LIMIT = 1024
"""Specialisations before dynamo gives up; with a full graph it raises then, and never runs the unfused form."""

Run = Callable[[int], "Tensor"]


@dataclass(frozen=True, slots=True)
class Options:
    """Knob values, checked."""

    form: str
    block_m: int
    block_n: int
    threads: int

    @property
    def block(self) -> tuple[int, int]:
        """Rows and keys of one block of the mask."""
        return self.block_m or DEFAULT_BLOCK, self.block_n or DEFAULT_BLOCK


def per_request(inputs: "Inputs", options: Options) -> Prepared:
    """SGLang's form: gather a request's keys, one call, queries padded to the whole sequence on extend."""
    import torch

    requests = split_requests(inputs)
    decoding = max(inputs.batch.q_lens) == 1
    masks: dict[int, Any] = {}

    def plan() -> None:
        for r in requests:
            rows = r.q_len if decoding else r.keys
            masks[r.index] = block_mask(
                square_mask(inputs.attention, decoding, inputs.device), (rows, r.keys), options.block, inputs.device
            )

    def run(slot: int) -> "Tensor":
        k_rows, v_rows = inputs.k_cache[slot].flatten(0, 1), inputs.v_cache[slot].flatten(0, 1)
        output = _empty_output(inputs)
        for r in requests:
            q = inputs.q[r.q].movedim(0, 1)
            if not decoding:
                whole = torch.empty(q.shape[0], r.keys, q.shape[2], dtype=q.dtype, device=q.device)
                whole[:, r.keys - r.q_len :] = q
                q = whole
            k, v = k_rows[r.tokens].movedim(0, 1), v_rows[r.tokens].movedim(0, 1)
            result = _attend(inputs, options, q[None], k[None], v[None], masks[r.index])[0].movedim(1, 0)
            output[r.q] = result[-r.q_len :]
        return output

    return _compiled(run, plan, options)


def packed(inputs: "Inputs", options: Options) -> Prepared:
    """One call for the batch, requests side by side; the block mask keeps them apart and skips what none sees."""
    import torch

    tokens = torch.cat([r.tokens for r in split_requests(inputs)])
    masks: dict[str, Any] = {}

    def plan() -> None:
        shape = (inputs.batch.total_q, tokens.shape[0])
        masks["batch"] = block_mask(packed_mask(inputs), shape, options.block, inputs.device)

    def run(slot: int) -> "Tensor":
        k = inputs.k_cache[slot].flatten(0, 1)[tokens].movedim(0, 1)[None]
        v = inputs.v_cache[slot].flatten(0, 1)[tokens].movedim(0, 1)[None]
        return _attend(inputs, options, inputs.q.movedim(0, 1)[None], k, v, masks["batch"])[0].movedim(1, 0)

    return _compiled(run, plan, options)


def padded(inputs: "Inputs", options: Options) -> Prepared:
    """One call for a decode batch, keys padded to the longest request."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    requests = split_requests(inputs)
    longest = max(r.keys for r in requests)
    lens = torch.tensor([r.keys for r in requests], device=inputs.device)
    tokens = torch.stack([torch.cat([r.tokens, r.tokens.new_zeros(longest - r.keys)]) for r in requests])
    masks: dict[str, Any] = {}

    def plan() -> None:
        mask: MaskMod = lambda b, h, q, kv: kv < lens[b]  # noqa: E731
        masks["batch"] = create_block_mask(
            mask, len(requests), None, 1, longest, device=inputs.device, BLOCK_SIZE=options.block
        )

    def run(slot: int) -> "Tensor":
        k = inputs.k_cache[slot].flatten(0, 1)[tokens].transpose(1, 2)
        v = inputs.v_cache[slot].flatten(0, 1)[tokens].transpose(1, 2)
        return _attend(inputs, options, inputs.q[:, :, None], k, v, masks["batch"])[:, :, 0]

    return _compiled(run, plan, options)


FORMS: dict[str, Callable[["Inputs", Options], Prepared]] = {
    "per_request": per_request,
    "packed": packed,
    "padded": padded,
}


def _attend(inputs: "Inputs", options: Options, q: "Tensor", k: "Tensor", v: "Tensor", mask: Any) -> "Tensor":
    """The compiled call on `[b, heads, tokens, width]`."""
    sizes = {"BLOCK_M": options.block_m if q.shape[2] > 1 else 0, "BLOCK_N": options.block_n}
    chosen = {name: size for name, size in sizes.items() if size and q.is_cuda}
    return _flex(options.form == "per_request")(
        q,
        k,
        v,
        score_mod=_soft_cap(inputs.attention.logit_soft_cap, inputs.device),
        block_mask=mask,
        scale=inputs.scale,
        enable_gqa=q.shape[1] != k.shape[1],
        kernel_options=chosen or None,
    )


@cache
def _flex(dynamic: bool) -> Callable[..., "Tensor"]:
    """The compiled function.

    Args:
        dynamic: One compilation for all lengths, as SGLang has it. Masks that index tensors by position compile for
            one length only: PyTorch 2.13's CPU code generator mixes up their symbolic sizes ("cur_kvSplitSize1 was
            not declared").
    """
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
    torch._dynamo.config.accumulated_recompile_limit = RECOMPILE_LIMIT
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic)
    return compiled


@cache
def _soft_cap(cap: float | None, device: str) -> Callable[..., "Tensor"] | None:
    """A score modification; the cap is a tensor, since a number would be compiled in."""
    if cap is None:
        return None
    import torch

    limit = torch.tensor(cap, device=device)

    def soft_cap(score: "Tensor", b: "Tensor", h: "Tensor", q: "Tensor", kv: "Tensor") -> "Tensor":
        return limit * torch.tanh(score / limit)

    return soft_cap


def _compiled(run: Run, plan: Callable[[], None], options: Options) -> Prepared:
    """Plan, compile by running once, and say how long compiling took.

    Raises:
        RuntimeError: Nothing was compiled: the unfused form would be timed.
    """
    from torch._dynamo.utils import counters

    plan()
    before = counters["stats"]["unique_graphs"]
    with cpu_threads(options.threads or None):
        first, again = _seconds(run), _seconds(run)
    graphs = counters["stats"]["unique_graphs"]
    if graphs == 0:
        raise RuntimeError("flex_attention was not compiled")
    compile_seconds = max(0.0, first - again) if graphs > before else 0.0
    return Prepared(
        run=run,
        plan=plan,
        compile_seconds=compile_seconds,
        path=f"inductor, {options.form}",
        threads=options.threads or None,
    )


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    output = run(0)
    if output.is_cuda:
        import torch

        torch.cuda.synchronize(output.device)
    return time.perf_counter() - start


def _empty_output(inputs: "Inputs") -> "Tensor":
    attention = inputs.attention
    return inputs.q.new_empty(inputs.batch.total_q, attention.num_qo_heads, attention.value_dim)
