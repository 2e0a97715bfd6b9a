"""Decode batches of equal requests, many at a time: the emulators' decisions as array arithmetic."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.backends import fa3, flashinfer, triton
from costmodel.backends.structural import STRUCTURES, Structure
from costmodel.call import Call
from costmodel.plan import Plan

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uniform:
    """What a kernel launches for each of many batches; arrays of one entry a batch."""

    sample: Plan
    """The plan of one batch of the kind: tile, slots, variant and kernel are the same for all."""
    full_jobs: Ints
    full_tiles: Ints
    rest_jobs: Ints
    """Jobs of the last, shorter part; 0 where parts are equal."""
    rest_tiles: Ints
    merge_splits: Ints
    merge_slots: Ints
    merge_launched: NDArray[np.bool_]
    merged_rows: Floats
    partial_rows: Floats
    empty_ctas: Ints


def uniform_plans(backend: str, call: Call, plan: Plan, sizes: Ints, lens: Ints) -> Uniform | None:
    """Give the plans of decode batches of `sizes` requests with `lens` visible KV tokens; None for other kernels.

    Args:
        backend: Its name.
        call: Any decode call of the attention and knobs in question.
        plan: Its plan.
        sizes: Requests of each batch.
        lens: KV tokens that each request of a batch sees.
    """
    if backend in STRUCTURES:
        return _structural(STRUCTURES[backend], call, plan, sizes, lens)
    loaded_again = plan.unit_count > call.attention.num_kv_heads * call.batch.size
    if call.attention.is_latent or loaded_again:
        return None
    match plan.variant:
        case "decode" if "pack_gqa" in call.knobs and not fa3.schedules_in_call(call):
            return _fa3(call, plan, sizes, lens)
        case "decode" | "decode_grouped" if "max_kv_splits" in call.knobs:
            return _triton(call, plan, sizes, lens)
        case "decode_tensor_cores" | "decode_converting":
            return _flashinfer(call, plan, sizes, lens, tensor_cores=True)
        case "decode_cuda_cores" | "decode_cuda_cores_few_heads":
            return _flashinfer(call, plan, sizes, lens, tensor_cores=False)
    return None


def ceil_div(a: Ints, b: Ints | int) -> Ints:
    """Divide and round up."""
    return -(-a // b)


def _fa3(call: Call, plan: Plan, sizes: Ints, lens: Ints) -> Uniform:
    attention, sms = call.attention, call.machine.sms
    group = fa3.packed_heads(call, (plan.tile.rows, plan.tile.keys))
    heads = attention.num_qo_heads // group
    rows = -(-group // plan.tile.rows)
    tiles = ceil_div(lens, plan.tile.keys)
    dynamic = sizes <= fa3.DYNAMIC_MAX_REQUESTS
    asked = call.number("num_splits")
    static = (
        np.full_like(tiles, asked) if asked else _fa3_static(call, heads * rows, np.where(dynamic, 1, sizes), tiles)
    )
    counted = fa3.counted_heads(call, heads)
    per_sm = np.maximum(np.ceil(1.1 * (rows * tiles * sizes) * counted / sms), 1).astype(np.int64)
    splits = np.where(dynamic & (static > 1), np.minimum(np.maximum(ceil_div(tiles, per_sm), 1), static), 1)
    part = ceil_div(tiles, splits)
    copies = heads * rows * sizes
    out = (sizes * attention.num_qo_heads).astype(np.float64)
    return Uniform(
        sample=plan,
        full_jobs=copies * (tiles // part),
        full_tiles=part,
        rest_jobs=copies * (tiles % part > 0),
        rest_tiles=tiles % part,
        merge_splits=ceil_div(tiles, part),
        merge_slots=fa3.merge_slots_of(static),
        merge_launched=static > 1,
        merged_rows=np.zeros(len(lens)),
        partial_rows=np.where(splits > 1, out * ceil_div(tiles, part), 0.0),
        empty_ctas=np.zeros_like(tiles),
    )


def _fa3_static(call: Call, units_each: int, requests: Ints, tiles: Ints) -> Ints:
    units = units_each * requests
    most = np.minimum(tiles, min(fa3.MAX_SPLITS, call.machine.sms))
    keys, where = np.unique(np.stack([units, most]), axis=1, return_inverse=True)
    values = [
        1
        if u >= 0.8 * call.machine.sms or n <= fa3.WHOLE_TILES
        else fa3.efficient_splits(int(u), call.machine.sms, int(n))
        for u, n in keys.T
    ]
    return np.asarray(values, dtype=np.int64)[where.reshape(-1)]


def _triton(call: Call, plan: Plan, sizes: Ints, lens: Ints) -> Uniform:
    attention, sms = call.attention, call.machine.sms
    cap, blocks = call.number("max_kv_splits"), triton.head_blocks(attention)
    if call.knobs["split_mode"] == "fixed":
        splits = np.full_like(lens, cap)
    else:
        cores = (sms * np.maximum(np.log2(lens / 64), 1.0)).astype(np.int64)
        fill = ceil_div(lens, np.minimum(ceil_div(cores, sizes * blocks), cap))
        splits = np.minimum(np.maximum(ceil_div(lens, fill), 1), cap)
    size = triton.MIN_BLOCK_KV * ceil_div(ceil_div(lens, splits), triton.MIN_BLOCK_KV)
    full, rest = lens // size, lens % size
    parts = full + (rest > 0)
    copies = sizes * blocks
    return Uniform(
        sample=plan,
        full_jobs=full * copies,
        full_tiles=ceil_div(size, plan.tile.keys),
        rest_jobs=copies * (rest > 0),
        rest_tiles=ceil_div(rest, plan.tile.keys),
        merge_splits=parts,
        merge_slots=np.full_like(lens, cap),
        merge_launched=np.ones(len(lens), dtype=bool),
        merged_rows=(sizes * attention.num_qo_heads).astype(np.float64),
        partial_rows=(sizes * parts * attention.num_qo_heads).astype(np.float64),
        empty_ctas=np.maximum(0, cap * copies - parts * copies),
    )


def _flashinfer(call: Call, plan: Plan, sizes: Ints, lens: Ints, *, tensor_cores: bool) -> Uniform:
    attention, sms, page = call.attention, call.machine.sms, call.batch.page_size
    heads = attention.num_kv_heads
    slots = flashinfer.TENSOR_CORE_SLOTS if tensor_cores else flashinfer.CUDA_CORE_SLOTS
    per_request = -(-attention.group_size // plan.tile.rows) if tensor_cores else 1
    rows, limit = sizes * per_request, slots * sms // heads
    pages = ceil_div(lens, page)
    parts = limit // rows
    smallest = max(flashinfer.MIN_CHUNK_TOKENS // page, 1)
    chunk = np.maximum(smallest, np.where(parts > 0, ceil_div(pages, np.maximum(parts, 1)), pages))
    split = np.full(len(lens), True) if tensor_cores else sizes * heads < slots * sms
    chunk = np.where(split, chunk, pages)
    full, rest = lens // (chunk * page), lens % (chunk * page)
    splits = ceil_div(pages, chunk)
    items = rows * splits
    padded = np.where(split, np.maximum(limit, rows), sizes)
    jobs = full * rows * heads, rows * heads * (rest > 0)
    partial = (
        items * min(plan.tile.rows, attention.group_size) * heads if tensor_cores else items * attention.num_qo_heads
    )
    return Uniform(
        sample=plan,
        full_jobs=jobs[0],
        full_tiles=ceil_div(chunk * page, plan.tile.keys),
        rest_jobs=jobs[1],
        rest_tiles=ceil_div(rest, plan.tile.keys),
        merge_splits=splits,
        merge_slots=(splits > 1).astype(np.int64),
        merge_launched=split,
        merged_rows=np.where(splits > 1, sizes * attention.num_qo_heads, 0).astype(np.float64),
        partial_rows=partial.astype(np.float64),
        empty_ctas=np.maximum(0, padded - items) * (heads - tensor_cores),
    )


def _structural(structure: Structure, call: Call, plan: Plan, sizes: Ints, lens: Ints) -> Uniform | None:
    attention, heads = call.attention, call.attention.num_kv_heads
    if attention.group_size > plan.tile.rows or call.knobs.get("num_splits"):
        return None
    tiles, units = ceil_div(lens, plan.tile.keys), heads * sizes
    match structure.splits:
        case "fill":
            asked = np.maximum(call.machine.sms * structure.slots // units, 1)
        case "by_256":
            asked = ceil_div(tiles * plan.tile.keys, 256)
        case "eight":
            asked = np.full_like(tiles, 8)
        case "none":
            asked = np.ones_like(tiles)
    if call.machine.capability < structure.splits_from:
        asked = np.ones_like(tiles)
    splits = np.where(tiles < structure.least_tiles, 1, np.minimum(np.minimum(asked, tiles), structure.most))
    part = ceil_div(tiles, splits)
    none = np.zeros_like(tiles)
    return Uniform(
        sample=plan,
        full_jobs=units * (tiles // part),
        full_tiles=part,
        rest_jobs=units * (tiles % part > 0),
        rest_tiles=tiles % part,
        merge_splits=splits,
        merge_slots=none,
        merge_launched=splits > 1,
        merged_rows=np.zeros(len(lens)),
        partial_rows=np.where(splits > 1, sizes * attention.num_qo_heads * splits, 0).astype(np.float64),
        empty_ctas=none,
    )
