# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
"""Triton kernels that load one part of a GPU and nothing else; imported lazily."""

import triton
import triton.language as tl


@triton.jit
def read_kernel(source, out, blocks, passes, BLOCK: tl.constexpr):
    """Read all of `source`, `passes` times over, with as many programs as are launched."""
    program = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for turn in tl.range(program, blocks * passes, tl.num_programs(0)):
        start = tl.cast(turn % blocks, tl.int64) * BLOCK
        total += tl.load(source + start + offsets, cache_modifier=".cg")
    tl.store(out + program, tl.sum(total, axis=0))


@triton.jit
def exp_kernel(out, rounds, BLOCK: tl.constexpr):
    """Take `rounds` exponentials of `BLOCK` values in registers; each input lies in (0, 1]."""
    offsets = tl.arange(0, BLOCK)
    x = offsets.to(tl.float32) / BLOCK
    for _ in tl.range(rounds):
        x = tl.exp2(-x)
    tl.store(out + tl.program_id(0) * BLOCK + offsets, x)


@triton.jit
def merge_kernel(partial, lse, out, SPLITS: tl.constexpr, DIM: tl.constexpr):
    """Merge `[rows, SPLITS, DIM]` partial outputs by their `[rows, SPLITS]` log2-sum-exps."""
    row = tl.program_id(0)
    splits = tl.arange(0, SPLITS)
    columns = tl.arange(0, DIM)
    logs = tl.load(lse + row * SPLITS + splits)
    weights = tl.exp2(logs - tl.max(logs, axis=0))
    parts = tl.load(partial + (row * SPLITS + splits[:, None]) * DIM + columns[None, :])
    merged = tl.sum(parts * weights[:, None], axis=0) / tl.sum(weights, axis=0)
    tl.store(out + row * DIM + columns, merged)
