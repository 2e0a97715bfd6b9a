"""Ways to attend over a paged cache with SDPA: a request at a time, padded, or in parts merged by log-sum-exp."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executors.requests import Request, request_mask, split_requests

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

Run = Callable[[int], "Tensor"]


@dataclass(frozen=True, slots=True)
class Options:
    """Knob values, checked."""

    form: str
    pack_gqa: bool
    num_splits: int
    threads: int
    sdpa: str


def per_request(inputs: "Inputs", options: Options) -> Run:
    """SGLang's form: gather a request's keys, one SDPA call, queries padded to the whole sequence on extend."""
    requests = split_requests(inputs)
    if options.num_splits > 1:
        return _split_decode(inputs, requests, options.num_splits)
    if max(inputs.batch.q_lens) == 1:
        return _each(inputs, requests, options, lambda r, q, k, v: _sdpa(q, k, v, inputs, options))
    return _each(inputs, requests, options, lambda r, q, k, v: _square(r, q, k, v, inputs, options))


def trimmed(inputs: "Inputs", options: Options) -> Run:
    """One SDPA call a request over the new queries only, with an explicit mask."""
    requests = split_requests(inputs)
    masks = [request_mask(inputs, r) for r in requests]
    return _each(inputs, requests, options, lambda r, q, k, v: _sdpa(q, k, v, inputs, options, masks[r.index]))


def cascade(inputs: "Inputs", options: Options) -> Run:
    """Two flash calls a request, the cached prefix without a mask and the new tokens causally, merged."""

    def attend(r: Request, q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        import torch

        new, new_lse = _flash(q, k[:, :, r.prefix :], v[:, :, r.prefix :], inputs.scale, causal=True)
        if r.prefix == 0:
            return new
        old, old_lse = _flash(q, k[:, :, : r.prefix], v[:, :, : r.prefix], inputs.scale, causal=False)
        return _merge(torch.stack([old, new]), torch.stack([old_lse, new_lse])).to(q.dtype)

    return _each(inputs, split_requests(inputs), options, attend)


def padded(inputs: "Inputs", options: Options) -> Run:
    """One gather and one SDPA call for the batch, requests padded to the longest."""
    import torch

    requests = split_requests(inputs)
    keys, queries = max(r.keys for r in requests), max(r.q_len for r in requests)
    device = inputs.device
    tokens = torch.zeros(len(requests), keys, dtype=torch.int64, device=device)
    mask = torch.zeros(len(requests), 1, queries, keys, dtype=torch.bool, device=device)
    rows = torch.zeros(len(requests), queries, dtype=torch.int64, device=device)
    owned = torch.zeros(len(requests), queries, dtype=torch.bool, device=device)
    for r in requests:
        seen = request_mask(inputs, r)
        tokens[r.index, : r.keys] = r.tokens
        mask[r.index, 0, :, : r.keys] = (
            True if seen is None else torch.cat([seen, seen[-1:].expand(queries - r.q_len, -1)])
        )
        rows[r.index, : r.q_len] = torch.arange(r.q.start, r.q.stop, device=device)
        owned[r.index, : r.q_len] = True
    whole = None if bool(mask.all()) else mask
    sources, targets = owned.flatten().nonzero().squeeze(1), rows[owned]

    def run(slot: int) -> "Tensor":
        k = inputs.k_cache[slot].flatten(0, 1)[tokens].transpose(1, 2)
        v = inputs.v_cache[slot].flatten(0, 1)[tokens].transpose(1, 2)
        result = _sdpa(inputs.q[rows].transpose(1, 2), k, v, inputs, options, whole).transpose(1, 2)
        output = _empty_output(inputs)
        output[targets] = result.flatten(0, 1)[sources]
        return output

    return run


FORMS: dict[str, Callable[["Inputs", Options], Run]] = {
    "per_request": per_request,
    "trimmed": trimmed,
    "cascade": cascade,
    "padded": padded,
}


def _each(
    inputs: "Inputs",
    requests: list[Request],
    options: Options,
    attend: "Callable[[Request, Tensor, Tensor, Tensor], Tensor]",
) -> Run:
    """Gather and attend request after request; `attend` sees `[1, heads, tokens, width]`."""

    def run(slot: int) -> "Tensor":
        k_rows, v_rows = inputs.k_cache[slot].flatten(0, 1), inputs.v_cache[slot].flatten(0, 1)
        output = _empty_output(inputs)
        for r in requests:
            k, v = k_rows[r.tokens].movedim(0, 1)[None], v_rows[r.tokens].movedim(0, 1)[None]
            output[r.q] = attend(r, inputs.q[r.q].movedim(0, 1)[None], k, v)[0].movedim(0, 1)
        return output

    return run


def _split_decode(inputs: "Inputs", requests: list[Request], num_splits: int) -> Run:
    """Cut each request's keys into equal parts, attend to them as one batch, and merge the partial results."""
    import torch

    plans = []
    for r in requests:
        part = -(-r.keys // num_splits)
        parts = -(-r.keys // part)
        tokens = torch.cat([r.tokens, r.tokens.new_zeros(parts * part - r.keys)]).view(parts, part)
        bias = torch.zeros(parts, 1, 1, part, dtype=inputs.q.dtype, device=inputs.device)
        bias.view(-1)[r.keys :] = float("-inf")
        plans.append((r, tokens, None if parts * part == r.keys else bias))

    def run(slot: int) -> "Tensor":
        k_rows, v_rows = inputs.k_cache[slot].flatten(0, 1), inputs.v_cache[slot].flatten(0, 1)
        output = _empty_output(inputs)
        for r, tokens, bias in plans:
            k, v = k_rows[tokens].transpose(1, 2), v_rows[tokens].transpose(1, 2)
            q = inputs.q[r.q].view(1, k.shape[1], -1, k.shape[3]).expand(k.shape[0], -1, -1, -1)
            part, lse = _flash(q, k, v, inputs.scale, causal=False, bias=bias)
            output[r.q] = _merge(part, lse).to(output.dtype).reshape(1, output.shape[1], output.shape[2])
        return output

    return run


def _square(r: Request, q: "Tensor", k: "Tensor", v: "Tensor", inputs: "Inputs", options: Options) -> "Tensor":
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    whole = torch.empty(1, q.shape[1], r.keys, q.shape[3], dtype=q.dtype, device=q.device)
    whole[:, :, r.prefix :] = q
    grouped = q.shape[1] != k.shape[1]
    with _kernel(options.sdpa):
        output = scaled_dot_product_attention(whole, k, v, is_causal=True, scale=inputs.scale, enable_gqa=grouped)
    return output[:, :, r.prefix :]


def _sdpa(
    q: "Tensor", k: "Tensor", v: "Tensor", inputs: "Inputs", options: Options, mask: "Tensor | None" = None
) -> "Tensor":
    """SDPA on `[b, heads, tokens, width]`; packing folds the query heads of a KV head into the token axis."""
    from torch.nn.functional import scaled_dot_product_attention

    b, heads, tokens, width = q.shape
    packed = options.pack_gqa and heads != k.shape[1]
    if packed:
        q = q.reshape(b, k.shape[1], -1, width)
        if mask is not None and tokens > 1:
            mask = mask.repeat(*[1] * (mask.ndim - 2), heads // k.shape[1], 1)
    with _kernel(options.sdpa):
        output = scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=inputs.scale, enable_gqa=not packed and heads != k.shape[1]
        )
    return output.reshape(b, heads, tokens, -1) if packed else output


def _flash(
    q: "Tensor", k: "Tensor", v: "Tensor", scale: float, *, causal: bool, bias: "Tensor | None" = None
) -> "tuple[Tensor, Tensor]":
    """PyTorch's CPU flash kernel: output `[b, heads, tokens, width]` and natural log-sum-exp `[b, heads, tokens]`."""
    import torch

    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=bias, scale=scale
    )
    return output, lse


def _merge(parts: "Tensor", lse: "Tensor") -> "Tensor":
    """Weigh partial outputs `[parts, ..., width]` by their log-sum-exps `[parts, ...]`, in float32."""
    import torch

    return (torch.softmax(lse, 0)[..., None] * parts.to(torch.float32)).sum(0)


def _kernel(name: str) -> AbstractContextManager[object]:
    if name == "auto":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    return sdpa_kernel(kernels[name])


def _empty_output(inputs: "Inputs") -> "Tensor":
    attention = inputs.attention
    return inputs.q.new_empty(inputs.batch.total_q, attention.num_qo_heads, attention.value_dim)
