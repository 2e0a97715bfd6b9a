# mypy: allow-untyped-defs, allow-incomplete-defs
"""Element-wise steps as fused Triton kernels: one launch for what a server launches once."""

import triton
import triton.language as tl

HEADS_AT_ONCE = 8
GATE_BLOCK = 1024


def norm(x, weight, eps, out=None):
    """RMS norm over the last dim, one program a token."""
    out = x.new_empty(x.shape) if out is None else out
    rows, width = x.shape
    _norm[(rows,)](x, x.stride(0), x, weight, out, out.stride(0), eps, width, ADD=False, **_row(width))  # type: ignore[no-untyped-call]
    return out


def add_norm(x, residual, weight, eps):
    """Add to the residual and give its norm, one program a token."""
    out = x.new_empty(x.shape)
    rows, width = x.shape
    _norm[(rows,)](x, x.stride(0), residual, weight, out, out.stride(0), eps, width, ADD=True, **_row(width))  # type: ignore[no-untyped-call]
    return out


def rotate(q, k, v, rotation):
    """Normalise and rotate queries and keys, copy values; one program for some heads of a token."""
    tokens, _, width = q.source.shape
    blocks = [0 if part is None else -(-part.source.shape[1] // HEADS_AT_ONCE) for part in (q, k, v)]
    views = []
    for part in (q, k, v or k):
        views += [part.source, *part.source.stride()[:2], part.target, *part.target.stride()[:2], part.source.shape[1]]
    _rotate[(tokens, sum(blocks))](
        *views,
        q.norm,
        k.norm,
        rotation.angles,
        rotation.positions,
        rotation.eps,
        blocks[0],
        blocks[0] + blocks[1],
        HALF=width // 2,
        BLOCK=triton.next_power_of_2(width // 2),
        HEADS=HEADS_AT_ONCE,
        num_warps=4,
    )


def store(new, caches, rows):
    """Write new keys and values to their cache rows, one program a token."""
    k, v = new[0], new[-1]
    width, v_width = k[0].numel(), v[0].numel()
    _store[(k.shape[0],)](
        k, v, caches[0], caches[-1], rows, width, v_width,
        BLOCK=triton.next_power_of_2(max(width, v_width)), BOTH=len(new) > 1, num_warps=4,
    )  # fmt: skip


def gate(x):
    """SiLU of the first half times the second."""
    rows, width = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, width)
    _gate[(rows, triton.cdiv(width, GATE_BLOCK))](x, out, width, BLOCK=GATE_BLOCK, num_warps=4)
    return out


def _row(width):
    block = triton.next_power_of_2(width)
    return {"BLOCK": block, "num_warps": min(16, max(1, block // 512))}


@triton.jit
def _norm(x, x_row, residual, weight, out, out_row, eps, width, BLOCK: tl.constexpr, ADD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < width
    values = tl.load(x + row * x_row + i, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        at = residual + row * width + i
        values += tl.load(at, mask=inside, other=0.0).to(tl.float32)
        tl.store(at, values.to(residual.dtype.element_ty), mask=inside)
    scale = tl.rsqrt(tl.sum(values * values, 0) / width + eps)
    weights = tl.load(weight + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * out_row + i, (values * scale * weights).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rotate(
    q, q_row, q_head, q_out, q_out_row, q_out_head, q_heads,
    k, k_row, k_head, k_out, k_out_row, k_out_head, k_heads,
    v, v_row, v_head, v_out, v_out_row, v_out_head, v_heads,
    q_norm, k_norm, angles, positions, eps, k_first, v_first,
    HALF: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    i = tl.arange(0, BLOCK)
    at = angles + tl.load(positions + token) * (2 * HALF) + i
    cos = tl.load(at, mask=i < HALF, other=0.0)
    sin = tl.load(at + HALF, mask=i < HALF, other=0.0)
    if block < k_first:
        first = block * HEADS
        _move(
            q + token * q_row, q_head, q_out + token * q_out_row, q_out_head,
            first, q_heads, q_norm, cos, sin, eps, HALF, BLOCK, HEADS,
        )  # fmt: skip
    elif block < v_first:
        first = (block - k_first) * HEADS
        _move(
            k + token * k_row, k_head, k_out + token * k_out_row, k_out_head,
            first, k_heads, k_norm, cos, sin, eps, HALF, BLOCK, HEADS,
        )  # fmt: skip
    else:
        first = (block - v_first) * HEADS
        _move(
            v + token * v_row, v_head, v_out + token * v_out_row, v_out_head,
            first, v_heads, None, cos * 0.0 + 1.0, sin * 0.0, eps, HALF, BLOCK, HEADS,
        )  # fmt: skip


@triton.jit
def _move(
    source, source_head, target, target_head, first, heads, norm, cos, sin, eps,
    HALF: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    head = first + tl.arange(0, HEADS)[:, None]
    i = tl.arange(0, BLOCK)[None, :]
    inside = (head < heads) & (i < HALF)
    a = tl.load(source + head * source_head + i, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(source + head * source_head + HALF + i, mask=inside, other=0.0).to(tl.float32)
    if norm is not None:
        scale = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / (2 * HALF) + eps)[:, None]
        a *= scale * tl.load(norm + i, mask=i < HALF, other=0.0).to(tl.float32)
        b *= scale * tl.load(norm + HALF + i, mask=i < HALF, other=0.0).to(tl.float32)
    kind = target.dtype.element_ty
    tl.store(target + head * target_head + i, (a * cos[None, :] - b * sin[None, :]).to(kind), mask=inside)
    tl.store(target + head * target_head + HALF + i, (b * cos[None, :] + a * sin[None, :]).to(kind), mask=inside)


@triton.jit
def _store(k, v, k_cache, v_cache, rows, width, v_width, BLOCK: tl.constexpr, BOTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + token)
    i = tl.arange(0, BLOCK)
    tl.store(k_cache + row * width + i, tl.load(k + token * width + i, mask=i < width), mask=i < width)
    if BOTH:
        tl.store(v_cache + row * v_width + i, tl.load(v + token * v_width + i, mask=i < v_width), mask=i < v_width)


@triton.jit
def _gate(x, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < width
    a = tl.load(x + row * 2 * width + i, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x + row * 2 * width + width + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + i, (a * tl.sigmoid(a) * b).to(out.dtype.element_ty), mask=inside)
