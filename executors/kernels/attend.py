# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="attr-defined"
"""The attention kernel: one program works on one tile of packed query rows over one range of keys.

Rows are (query token, query head of the group) pairs of one KV head, so a decode step of grouped heads fills a tile.
With few rows the tile is computed transposed (`kv_major`): keys then are the rows of the matrix product, which
Hopper's 64-row instructions fill, and the few queries its columns.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1.0e30)
"""Start of the running maximum: finite, so that rows without a visible key stay free of NaN."""


@triton.jit(do_not_specialize=["page_table_stride", "num_items"])
def attend(
    work,
    q,
    k_cache,
    v_cache,
    k_main_desc,
    k_rest_desc,
    v_desc,
    page_table,
    page_table_stride,
    tree_mask,
    tree_starts,
    sinks,
    scale,
    out,
    part_out,
    part_lse,
    num_items,
    FORM: tl.constexpr,
    TILE: tl.constexpr,
    PDL: tl.constexpr,
):
    """Attend over one range of keys for one tile of rows.

    `work` is int32 `[num_items, 8]`: request, first row, first key, end of keys, partial slot (-1: write the
    output), first query token, query tokens, visible keys. The grid is `num_items * kv_heads`.
    """
    if PDL:
        gdc_launch_dependents()
    pid = tl.program_id(0)
    if TILE.heads_inner:
        item, kv_head = pid // FORM.kv_heads, pid % FORM.kv_heads
    else:
        item, kv_head = pid % num_items, pid // num_items
    request = tl.load(work + item * 8)
    row0 = tl.load(work + item * 8 + 1)
    begin = tl.load(work + item * 8 + 2)
    end = tl.load(work + item * 8 + 3)
    slot = tl.load(work + item * 8 + 4)
    q_start = tl.load(work + item * 8 + 5)
    q_len = tl.load(work + item * 8 + 6)
    kv_len = tl.load(work + item * 8 + 7)

    row = row0 + tl.arange(0, TILE.block_m)
    token = row // FORM.group
    head = kv_head * FORM.group + row % FORM.group
    valid = token < q_len
    q_row = (q_start + token).to(tl.int64) * (FORM.kv_heads * FORM.group) + head
    q_main = _load_queries(q, q_row, valid, 0, FORM.main_dim, FORM.main_dim, FORM, TILE)
    q_rest = q_main
    if FORM.rest_dim > 0:
        q_rest = _load_queries(q, q_row, valid, FORM.main_dim, FORM.rest_dim, FORM.rest_block, FORM, TILE)

    pages = page_table + request.to(tl.int64) * page_table_stride
    tree_rows = work
    if FORM.tree:
        tree_rows = tree_mask + tl.load(tree_starts + request) + token.to(tl.int64) * kv_len
    top = tl.full([TILE.block_m], LOWEST, tl.float32)
    total = tl.full([TILE.block_m], 0.0, tl.float32)
    if TILE.kv_major:
        acc = tl.full([FORM.value_block, TILE.block_m], 0.0, tl.float32)
    else:
        acc = tl.full([TILE.block_m, FORM.value_block], 0.0, tl.float32)

    state = (acc, top, total)
    rows = (q_main, q_rest, token, tree_rows, scale)
    request = (q_start, q_len, kv_len, end, kv_head)
    caches = (k_cache, v_cache, pages, k_main_desc, k_rest_desc, v_desc)
    if TILE.mask_all:
        state = _sweep(state, begin, end, rows, request, caches, FORM, TILE, True)
    else:
        full_begin, full_end = _fully_visible(row0, begin, end, q_len, kv_len, FORM, TILE)
        if FORM.window + FORM.chunk > 0:
            state = _sweep(state, begin, full_begin, rows, request, caches, FORM, TILE, True)
        state = _sweep(state, full_begin, full_end, rows, request, caches, FORM, TILE, False)
        state = _sweep(state, full_end, end, rows, request, caches, FORM, TILE, True)

    acc, top, total = state
    columns = tl.arange(0, FORM.value_block)
    if slot < 0:
        if FORM.sinks:
            total += tl.exp2(tl.load(sinks + head).to(tl.float32) * LOG2E - top)
        _store_rows(out, acc / _across(tl.where(total > 0, total, 1.0), TILE), q_row, valid, columns, FORM, TILE)
    else:
        part_row = (slot.to(tl.int64) * FORM.kv_heads + kv_head) * TILE.block_m + tl.arange(0, TILE.block_m)
        _store_rows(
            part_out, acc / _across(tl.where(total > 0, total, 1.0), TILE), part_row, valid, columns, FORM, TILE
        )
        tl.store(part_lse + part_row, top + tl.log2(total), mask=valid)


@triton.jit
def _fully_visible(row0, begin, end, q_len, kv_len, FORM: tl.constexpr, TILE: tl.constexpr):
    """Find the key tiles that every row sees whole: aligned begin and end."""
    first, last = row0 // FORM.group, tl.minimum((row0 + TILE.block_m - 1) // FORM.group, q_len - 1)
    full_begin, full_end = begin, end // TILE.block_n * TILE.block_n
    if FORM.tree:
        full_end = tl.minimum(end, kv_len - q_len) // TILE.block_n * TILE.block_n
    elif FORM.causal:
        full_end = tl.minimum(end, kv_len - q_len + first + 1) // TILE.block_n * TILE.block_n
    if FORM.window > 0:
        seen = tl.maximum(kv_len - q_len + last - (FORM.window - 1), begin)
        full_begin = (seen + TILE.block_n - 1) // TILE.block_n * TILE.block_n
    if FORM.chunk > 0:
        seen = tl.maximum((kv_len - q_len + last) // FORM.chunk * FORM.chunk, begin)
        full_begin = tl.maximum(full_begin, (seen + TILE.block_n - 1) // TILE.block_n * TILE.block_n)
    full_begin = tl.minimum(full_begin, end)
    full_end = tl.maximum(full_begin, full_end)
    return full_begin, full_end


@triton.jit
def _sweep(state, begin, stop, rows, request, caches, FORM: tl.constexpr, TILE: tl.constexpr, MASKED: tl.constexpr):
    """Walk over the key tiles from `begin` to `stop` with an online softmax; keys from `end` on do not exist."""
    acc, top, total = state
    q_main, q_rest, token, tree_rows, scale = rows
    q_start, q_len, kv_len, end, kv_head = request
    k_cache, v_cache, pages, k_main_desc, k_rest_desc, v_desc = caches
    page = _pages(pages, begin, end, FORM, TILE)
    for start in tl.range(begin, stop, TILE.block_n):
        k_rest = 0
        if TILE.tma:
            row = q_start + start if TILE.source == "fresh" else page * FORM.page_size + start % FORM.page_size
            k_main = k_main_desc.load([row, kv_head * FORM.head_dim])
            if FORM.rest_dim > 0:
                k_rest = k_rest_desc.load([row, kv_head * FORM.head_dim + FORM.main_dim])
        else:
            keys = tl.minimum(start + tl.arange(0, TILE.block_n), end - 1)
            slot = page.to(tl.int64) * FORM.page_size + (keys % FORM.page_size)
            k_row = slot * (FORM.kv_heads * FORM.head_dim) + kv_head * FORM.head_dim
            k_main = _load_columns(k_cache, k_row, 0, FORM.main_dim, FORM.main_dim)
            if FORM.rest_dim > 0:
                k_rest = _load_columns(k_cache, k_row, FORM.main_dim, FORM.rest_dim, FORM.rest_block)
        page = _pages(pages, start + TILE.block_n, end, FORM, TILE)
        if FORM.widen:
            k_main = k_main.to(tl.float16)
        if TILE.kv_major:
            s = tl.dot(k_main, q_main)
            if FORM.rest_dim > 0:
                s = tl.dot(k_rest.to(q_rest.dtype), q_rest, s)
        else:
            s = tl.dot(q_main, tl.trans(k_main))
            if FORM.rest_dim > 0:
                s = tl.dot(q_rest, tl.trans(k_rest.to(q_rest.dtype)), s)

        if FORM.soft_cap > 0:
            s = _soft_cap(s, scale, FORM)
            log2_scale = LOG2E
        else:
            log2_scale = scale * LOG2E
        if MASKED:
            s = tl.where(_visible(start, end, token, q_len, kv_len, tree_rows, FORM, TILE), s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, TILE.key_axis) * log2_scale)
        p = tl.exp2(s * log2_scale - _across(new_top, TILE))
        alpha = tl.exp2(top - new_top)
        total = total * alpha + tl.sum(p, TILE.key_axis)
        top = new_top
        acc = acc * _across(alpha, TILE)

        if FORM.latent and not FORM.widen:
            v = k_main
        elif TILE.tma:
            v = v_desc.load([row, kv_head * FORM.value_dim])
        else:
            v_row = k_row
            if not FORM.latent:
                v_row = slot * (FORM.kv_heads * FORM.value_dim) + kv_head * FORM.value_dim
            v = _load_columns(v_cache, v_row, 0, FORM.value_dim, FORM.value_block)
        if FORM.widen:
            v = v.to(tl.float16)
        p = p.to(v.dtype)
        acc = tl.dot(tl.trans(v), p, acc) if TILE.kv_major else tl.dot(p, v, acc)
    return acc, top, total


@triton.jit
def _pages(pages, start, end, FORM: tl.constexpr, TILE: tl.constexpr):
    """Load the page of the tile at `start`, or the page of each of its keys; past the end, the last one's."""
    if TILE.source == "fresh":
        return 0
    elif TILE.source == "page":
        return tl.load(pages + tl.minimum(start, end - 1) // FORM.page_size)
    else:
        keys = tl.minimum(start + tl.arange(0, TILE.block_n), end - 1)
        return tl.load(pages + keys // FORM.page_size)


@triton.jit
def _visible(start, end, token, q_len, kv_len, tree_rows, FORM: tl.constexpr, TILE: tl.constexpr):
    """Say which keys of the tile each row sees."""
    keys = _along_keys(start + tl.arange(0, TILE.block_n), TILE)
    position = _across(kv_len - q_len + token, TILE)
    seen = keys < end
    if FORM.causal:
        seen = seen & (keys <= position)
    if FORM.window > 0:
        seen = seen & (keys > position - FORM.window)
    if FORM.chunk > 0:
        seen = seen & (keys >= position // FORM.chunk * FORM.chunk)
    if FORM.tree:
        drafted = seen & (keys >= kv_len - q_len) & _across(token < q_len, TILE)
        seen = seen & (tl.load(_across(tree_rows, TILE) + keys, mask=drafted, other=1) != 0)
    return seen


@triton.jit
def _soft_cap(s, scale, FORM: tl.constexpr):
    """Turn products into capped logits: cap * tanh(s * scale / cap)."""
    return FORM.soft_cap - 2 * FORM.soft_cap / (tl.exp2(s * (scale * (2 * LOG2E / FORM.soft_cap))) + 1)


@triton.jit
def _load_queries(
    q, q_row, valid, offset, width: tl.constexpr, block: tl.constexpr, FORM: tl.constexpr, TILE: tl.constexpr
):
    """Load columns of the tile's queries, zero where there is none: `[rows, block]`, transposed in a kv-major tile."""
    columns = tl.arange(0, block)
    pointers = q + q_row[:, None] * FORM.head_dim + (offset + columns)[None, :]
    tile = tl.load(pointers, mask=valid[:, None] & (columns < width)[None, :], other=0.0)
    if FORM.widen:
        tile = tile.to(tl.float16)
    if TILE.kv_major:
        tile = tl.trans(tile)
    return tile


@triton.jit
def _load_columns(cache, row, offset: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    """Load `[keys, block]` columns of the cache; columns from `width` on are zero."""
    columns = tl.arange(0, block)
    pointers = cache + row[:, None] + (offset + columns)[None, :]
    if width == block:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=(columns < width)[None, :], other=0.0)


@triton.jit
def _store_rows(target, acc, row, valid, columns, FORM: tl.constexpr, TILE: tl.constexpr):
    """Store the tile's values, `[rows, value_dim]` each at `row`."""
    if TILE.kv_major:
        pointers = target + row[None, :] * FORM.value_dim + columns[:, None]
        mask = valid[None, :] & (columns < FORM.value_dim)[:, None]
    else:
        pointers = target + row[:, None] * FORM.value_dim + columns[None, :]
        mask = valid[:, None] & (columns < FORM.value_dim)[None, :]
    tl.store(pointers, acc.to(target.dtype.element_ty), mask=mask)


@triton.jit
def _across(rows, TILE: tl.constexpr):
    """Spread a vector over rows across the keys of the tile."""
    if TILE.kv_major:
        return rows[None, :]
    else:
        return rows[:, None]


@triton.jit
def _along_keys(keys, TILE: tl.constexpr):
    """Spread a vector over keys across the rows of the tile."""
    if TILE.kv_major:
        return keys[:, None]
    else:
        return keys[None, :]
