# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, disable-error-code="attr-defined"
"""How queries and latent keys come into shared memory: whole tiles of a page by TMA, or row by row."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import async_copy, fence_async_shared, mbarrier, tma

from executors.kernels.latent_memory import HALF, KEYS, REST, STAGES

HALF_LAYOUT = gl.constexpr(gl.BlockedLayout([1, 8], [1, 32], [4, 1], [1, 0]))
REST_LAYOUT = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))


@gluon.jit
def await_keys(memory, barrier, phase):
    """Wait until copied keys can be read by matrix instructions."""
    mbarrier.wait(barrier, phase)
    if memory.gathered:
        fence_async_shared()


@gluon.jit
def copy(memory, part, q_half_desc, q_rest_desc, k_half_desc, k_rest_desc, k_cache, pages, FORM: gl.constexpr):
    """Copy the queries once and every tile of keys as soon as its stage is free."""
    q_row = part.q_start * FORM.group + part.row0
    mbarrier.expect(memory.q_full, q_half_desc.block_type.nbytes * 2 + q_rest_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_half_desc, [q_row, 0], memory.q_full, memory.q_left)
    tma.async_copy_global_to_shared(q_half_desc, [q_row, HALF], memory.q_full, memory.q_right)
    tma.async_copy_global_to_shared(q_rest_desc, [q_row, 2 * HALF], memory.q_full, memory.q_rest)
    if memory.gathered:
        _gather(memory, part, k_cache, pages, FORM)
    else:
        _copy_tiles(memory, part, k_half_desc, k_rest_desc, pages, FORM)


@gluon.jit
def _copy_tiles(memory, part, k_half_desc, k_rest_desc, pages, FORM: gl.constexpr):
    page = gl.load(pages + part.begin // FORM.page_size)
    for step in range((part.end - part.begin + KEYS - 1) // KEYS):
        start = part.begin + step * KEYS
        row = page * FORM.page_size + start % FORM.page_size
        page = gl.load(pages + gl.minimum(start + KEYS, part.end - 1) // FORM.page_size)
        stage = step % STAGES
        phase = (step // STAGES & 1) ^ 1
        full = memory.left_full.index(stage)
        mbarrier.wait(memory.left_free.index(stage), phase)
        mbarrier.expect(full, k_half_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_half_desc, [row, 0], full, memory.k_left.index(stage))
        full = memory.right_full.index(stage)
        mbarrier.wait(memory.right_free.index(stage), phase)
        mbarrier.expect(full, k_half_desc.block_type.nbytes + k_rest_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_half_desc, [row, HALF], full, memory.k_right.index(stage))
        tma.async_copy_global_to_shared(k_rest_desc, [row, 2 * HALF], full, memory.k_rest.index(stage))


@gluon.jit
def _gather(memory, part, k_cache, pages, FORM: gl.constexpr):
    half_rows = _rows(part, part.begin, pages, HALF_LAYOUT, FORM)
    rest_rows = _rows(part, part.begin, pages, REST_LAYOUT, FORM)
    half = gl.arange(0, HALF, gl.SliceLayout(0, HALF_LAYOUT))[None, :]
    rest = 2 * HALF + gl.arange(0, REST, gl.SliceLayout(0, REST_LAYOUT))[None, :]
    for step in range((part.end - part.begin + KEYS - 1) // KEYS):
        stage = step % STAGES
        phase = (step // STAGES & 1) ^ 1
        keys = k_cache + half_rows.to(gl.int64)[:, None] * FORM.head_dim
        rest_keys = k_cache + rest_rows.to(gl.int64)[:, None] * FORM.head_dim
        next_start = part.begin + (step + 1) * KEYS
        half_rows = _rows(part, next_start, pages, HALF_LAYOUT, FORM)
        rest_rows = _rows(part, next_start, pages, REST_LAYOUT, FORM)
        mbarrier.wait(memory.left_free.index(stage), phase)
        async_copy.async_copy_global_to_shared(memory.k_left.index(stage), keys + half)
        async_copy.mbarrier_arrive(memory.left_full.index(stage), increment_count=False)
        mbarrier.wait(memory.right_free.index(stage), phase)
        async_copy.async_copy_global_to_shared(memory.k_right.index(stage), keys + (half + HALF))
        async_copy.async_copy_global_to_shared(memory.k_rest.index(stage), rest_keys + rest)
        async_copy.mbarrier_arrive(memory.right_full.index(stage), increment_count=False)


@gluon.jit
def _rows(part, start, pages, LAYOUT: gl.constexpr, FORM: gl.constexpr):
    """Find the cache rows of a tile's keys; past the end, the last key's."""
    key = gl.minimum(start + gl.arange(0, KEYS, gl.SliceLayout(1, LAYOUT)), part.end - 1)
    return gl.load(pages + key // FORM.page_size) * FORM.page_size + key % FORM.page_size
