# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, disable-error-code="attr-defined"
"""The attention kernel for absorbed MLA on Hopper, in Gluon: copying warps and two consumer warpgroups.

One tile is 64 rows by 64 keys. The first warpgroup computes scores and softmax and the left half of the values, the
second the right half from the weights that the first leaves in shared memory; so an output of 64 x 512 fits
registers, each key is copied once and serves as value too, and one group's matrix products hide the other's softmax.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from executors.kernels.latent_copy import await_keys, copy
from executors.kernels.latent_memory import HALF, KEYS, ROWS, STAGES, Part, allocate, prepare

LOG2E = gl.constexpr(1.4426950408889634)
LOWEST = gl.constexpr(-1.0e30)
SCORE_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
VALUE_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16]))
SCORE_ROWS = gl.constexpr(gl.SliceLayout(1, SCORE_LAYOUT.value))
VALUE_ROWS = gl.constexpr(gl.SliceLayout(1, VALUE_LAYOUT.value))
WARPS = 4
"""Warps of the first consumer group; the kernel adds the others."""


@gluon.jit
def attend_latent(
    work,
    q_half_desc,
    q_rest_desc,
    k_half_desc,
    k_rest_desc,
    k_cache,
    page_table,
    page_table_stride,
    scale,
    out,
    part_out,
    part_lse,
    FORM: gl.constexpr,
):
    """Attend over one range of keys for 64 rows; `work` as in `attend`, the grid is its items.

    Descriptors are matrices of rows by columns in blocks of 64 x 256 and 64 x 64: queries `[total_q * heads, 576]`
    and the cache `[pages * page_size, 576]`.
    """
    item = work + gl.program_id(0) * 8
    part = Part(
        gl.load(item + 1),
        gl.load(item + 2),
        gl.load(item + 3),
        gl.load(item + 4),
        gl.load(item + 5),
        gl.load(item + 6),
        gl.load(item + 7),
    )
    pages = page_table + gl.load(item).to(gl.int64) * page_table_stride
    memory = allocate(k_cache.dtype.element_ty, FORM.page_size % KEYS > 0)
    prepare(memory)
    gl.warp_specialize(
        [
            (_score_and_left, (memory, part, scale, out, part_out, part_lse, FORM)),
            (_right, (memory, part, out, part_out, FORM)),
            (copy, (memory, part, q_half_desc, q_rest_desc, k_half_desc, k_rest_desc, k_cache, pages, FORM)),
        ],
        [4, 4 if memory.gathered else 1],
        [168, 80 if memory.gathered else 24],
    )


@gluon.jit
def _score_and_left(memory, part, scale, out, part_out, part_lse, FORM: gl.constexpr):
    """Compute scores, softmax and the left half of the values."""
    row = part.row0 + gl.arange(0, ROWS, SCORE_ROWS)
    steps = (part.end - part.begin + KEYS - 1) // KEYS
    seen_by_all = part.end
    last_seen = part.end - 1 + 0 * row
    if FORM.causal:
        last_seen = gl.minimum(last_seen, part.kv_len - part.q_len + row // FORM.group)
        seen_by_all = gl.minimum(part.end, part.kv_len - part.q_len + part.row0 // FORM.group + 1)
    unmasked = gl.minimum(gl.maximum(seen_by_all - part.begin, 0) // KEYS, steps - 1)
    scale = scale * LOG2E
    acc = gl.zeros([ROWS, HALF], gl.float32, VALUE_LAYOUT)
    state = (acc, gl.full([ROWS], LOWEST, gl.float32, SCORE_ROWS), gl.zeros([ROWS], gl.float32, SCORE_ROWS))
    mbarrier.wait(memory.q_full, 0)
    scores = _start_scores(memory, 0)
    for step in range(unmasked):
        state, scores = _advance(memory, state, scores, step, part.begin, last_seen, scale, False)
    for step in range(unmasked, steps - 1):
        state, scores = _advance(memory, state, scores, step, part.begin, last_seen, scale, True)
    weights, acc, top, total = _weigh(memory, state, scores, steps - 1, part.begin, last_seen, scale, True)
    total = gl.where(total > 0, total, 1.0)
    memory.shares.store(1 / total)
    gl.thread_barrier()
    mbarrier.arrive(memory.shares_full, count=1)
    acc = warpgroup_mma(weights, memory.k_left.index((steps - 1) % STAGES), acc)
    acc = acc * gl.convert_layout(1 / total, VALUE_ROWS)[:, None]
    _store_half(acc, 0, part, out, part_out, FORM)
    if part.slot >= 0:
        target = part_lse + part.slot * ROWS + row - part.row0
        gl.store(target, top + gl.log2(total), mask=row < part.q_len * FORM.group)


@gluon.jit
def _advance(memory, state, scores, step, begin, last_seen, scale, MASKED: gl.constexpr):
    """Weigh one tile, add its left values and start the next one's scores."""
    stage = step % STAGES
    weights, acc, top, total = _weigh(memory, state, scores, step, begin, last_seen, scale, MASKED)
    acc = warpgroup_mma(weights, memory.k_left.index(stage), acc, is_async=True)
    scores = _start_scores(memory, step + 1)
    acc = warpgroup_mma_wait(3, deps=[acc])
    gl.thread_barrier()
    mbarrier.arrive(memory.left_free.index(stage), count=1)
    return (acc, top, total), scores


@gluon.jit
def _start_scores(memory, step):
    """Start the products of the queries with one tile of keys: three matrix groups."""
    stage = step % STAGES
    phase = step // STAGES & 1
    scores = warpgroup_mma_init(gl.zeros([ROWS, KEYS], gl.float32, SCORE_LAYOUT))
    await_keys(memory, memory.left_full.index(stage), phase)
    keys = memory.k_left.index(stage).permute((1, 0))
    scores = warpgroup_mma(memory.q_left, keys, scores, use_acc=False, is_async=True)
    await_keys(memory, memory.right_full.index(stage), phase)
    keys = memory.k_right.index(stage).permute((1, 0))
    scores = warpgroup_mma(memory.q_right, keys, scores, is_async=True)
    keys = memory.k_rest.index(stage).permute((1, 0))
    return warpgroup_mma(memory.q_rest, keys, scores, is_async=True)


@gluon.jit
def _weigh(memory, state, scores, step, begin, last_seen, scale, MASKED: gl.constexpr):
    """Turn the scores of one tile into weights; hand them, and the factors of older values, to the other group."""
    acc, top, total = state
    s = warpgroup_mma_wait(0, deps=[scores])
    if MASKED:
        key = begin + step * KEYS + gl.arange(0, KEYS, gl.SliceLayout(0, SCORE_LAYOUT))
        s = gl.where(key[None, :] <= last_seen[:, None], s, float("-inf"))
    new_top = gl.maximum(top, gl.max(s, 1) * scale)
    weights = gl.exp2(s * scale - new_top[:, None])
    factor = gl.exp2(top - new_top)
    total = total * factor + gl.sum(weights, 1)
    weights = weights.to(memory.weights.dtype)
    mbarrier.wait(memory.weights_free, (step & 1) ^ 1)
    memory.weights.store(weights)
    memory.factors.store(factor)
    fence_async_shared()
    gl.thread_barrier()
    mbarrier.arrive(memory.weights_full, count=1)
    acc = acc * gl.convert_layout(factor, VALUE_ROWS)[:, None]
    return gl.convert_layout(weights, gl.DotOperandLayout(0, VALUE_LAYOUT, 2)), acc, new_top, total


@gluon.jit
def _right(memory, part, out, part_out, FORM: gl.constexpr):
    """Compute the right half of the values from the other group's weights."""
    acc = gl.zeros([ROWS, HALF], gl.float32, VALUE_LAYOUT)
    steps = (part.end - part.begin + KEYS - 1) // KEYS
    for step in range(steps):
        stage = step % STAGES
        await_keys(memory, memory.right_full.index(stage), step // STAGES & 1)
        mbarrier.wait(memory.weights_full, step & 1)
        acc = acc * memory.factors.load(VALUE_ROWS)[:, None]
        acc = warpgroup_mma(memory.weights, memory.k_right.index(stage), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        gl.thread_barrier()
        mbarrier.arrive(memory.weights_free, count=1)
        mbarrier.arrive(memory.right_free.index(stage), count=1)
    mbarrier.wait(memory.shares_full, 0)
    acc = acc * memory.shares.load(VALUE_ROWS)[:, None]
    _store_half(acc, HALF, part, out, part_out, FORM)


@gluon.jit
def _store_half(values, column0, part, out, part_out, FORM: gl.constexpr):
    """Store one half of the values of each row that exists."""
    row = gl.arange(0, ROWS, VALUE_ROWS)
    columns = column0 + gl.arange(0, HALF, gl.SliceLayout(0, VALUE_LAYOUT))
    valid = ((part.row0 + row) < part.q_len * FORM.group)[:, None]
    if part.slot < 0:
        target = (part.q_start * FORM.group + part.row0 + row).to(gl.int64) * FORM.value_dim
        gl.store(out + target[:, None] + columns[None, :], values.to(out.dtype.element_ty), mask=valid)
    else:
        target = (part.slot.to(gl.int64) * ROWS + row) * FORM.value_dim
        gl.store(part_out + target[:, None] + columns[None, :], values, mask=valid)
