# mypy: allow-untyped-defs, allow-incomplete-defs
"""The merge kernel: combines the partial outputs of one row's key ranges."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1.0e30)


@triton.jit
def merge(
    work,
    part_out,
    part_lse,
    sinks,
    out,
    BLOCK_M: tl.constexpr,
    PARTS: tl.constexpr,
    FORM: tl.constexpr,
    PDL: tl.constexpr,
):
    """Weigh the parts of one row by their log-sum-exp and write the row.

    `work` is int32 `[tiles, 8]`: first slot, parts, first row, first query token, query tokens. The grid is
    (tiles * kv_heads, rows in a tile); `part_out` is fp32 `[slots, kv_heads, BLOCK_M, value_dim]`, `part_lse` holds
    base-2 logarithms.
    """
    if PDL:
        gdc_wait()
    tile = tl.program_id(0) // FORM.kv_heads
    kv_head = tl.program_id(0) % FORM.kv_heads
    slot = tl.load(work + tile * 8).to(tl.int64)
    parts = tl.load(work + tile * 8 + 1)
    row = tl.load(work + tile * 8 + 2) + tl.program_id(1)
    q_start = tl.load(work + tile * 8 + 3)
    q_len = tl.load(work + tile * 8 + 4)
    token = row // FORM.group
    if token < q_len:
        head = kv_head * FORM.group + row % FORM.group
        columns = tl.arange(0, FORM.value_block)
        top = tl.max(tl.full([PARTS], LOWEST, tl.float32), 0)
        total = 0.0
        acc = tl.full([FORM.value_block], 0.0, tl.float32)
        for start in tl.range(0, parts, PARTS):
            part = start + tl.arange(0, PARTS)
            known = part < parts
            part_row = ((slot + part) * FORM.kv_heads + kv_head) * BLOCK_M + tl.program_id(1)
            lse = tl.load(part_lse + part_row, mask=known, other=float("-inf"))
            values = tl.load(
                part_out + part_row[:, None] * FORM.value_dim + columns[None, :],
                mask=known[:, None] & (columns < FORM.value_dim)[None, :],
                other=0.0,
            )
            new_top = tl.maximum(top, tl.max(lse, 0))
            weights = tl.exp2(lse - new_top)
            alpha = tl.exp2(top - new_top)
            total = total * alpha + tl.sum(weights, 0)
            acc = acc * alpha + tl.sum(weights[:, None] * values, 0)
            top = new_top
        if FORM.sinks:
            total += tl.exp2(tl.load(sinks + head).to(tl.float32) * LOG2E - top)
        target = out + ((q_start + token).to(tl.int64) * (FORM.kv_heads * FORM.group) + head) * FORM.value_dim
        values = acc / tl.where(total > 0, total, 1.0)
        tl.store(target + columns, values.to(out.dtype.element_ty), mask=columns < FORM.value_dim)
