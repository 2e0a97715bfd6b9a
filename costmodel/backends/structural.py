"""Backends whose kernels cannot be measured here: their published tiles and split rule, one row each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.call import Call
from costmodel.machine import Machine
from costmodel.plan import Job, Plan, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, dram_bytes, joined_tiles, merged_runs, partial_row_bytes, query_runs, split_jobs
from costmodel.work import INDEX_DTYPE

ONE_QUERY_TILE = 128
"""Rows that one accumulator of the matrix units has."""

SplitRule = Literal["none", "fill", "eight", "by_256"]


@dataclass(frozen=True, slots=True)
class Structure:
    """How a backend cuts its work."""

    decode: tuple[int, int]
    """Packed query rows and keys of a tile in decode and verify."""
    extend: tuple[int, int]
    """The same in extend."""
    splits: SplitRule
    """Decode: not at all; SMs over CTAs; always eight; one for 256 keys."""
    most: int = 128
    slots: int = 1
    least_tiles: int = 1
    """KV tiles below which one split is not made."""
    packs_extend: bool = True
    """Whether an extend tile holds all query heads of a KV head."""
    pairs_ctas: bool = False
    """Whether two CTAs share the KV of a group of more rows than a tile has, each with its half of the rows."""
    quantizes_queries: bool = False
    """Whether queries are cast to the dtype of an fp8 cache, so that the products run in it."""
    splits_from: tuple[int, int] = (0, 0)
    """Compute capability from which the kernels split KV at all."""


STRUCTURES: dict[str, Structure] = {
    "fa4": Structure((128, 128), (256, 128), "fill", least_tiles=5, splits_from=(10, 0)),
    "trtllm_mha": Structure((16, 128), (256, 128), "fill", least_tiles=2, packs_extend=False, quantizes_queries=True),
    "trtllm_mla": Structure((64, 128), (128, 128), "fill", least_tiles=2, quantizes_queries=True, pairs_ctas=True),
    "cutedsl_mla": Structure((128, 128), (128, 128), "fill", most=32),
    "tokenspeed_mla": Structure((128, 128), (128, 128), "fill", most=32),
    "hpc_ops": Structure((64, 64), (128, 128), "fill", least_tiles=8),
    "dsa": Structure((64, 64), (64, 64), "fill"),
    "qsa": Structure((64, 64), (64, 64), "fill"),
    "dsv4": Structure((64, 64), (64, 64), "fill"),
    "minicpm_flashattn": Structure((64, 64), (128, 128), "fill"),
    "minicpm_flashinfer": Structure((16, 128), (128, 64), "fill", slots=2),
    "aiter": Structure((16, 64), (128, 64), "by_256", slots=2),
    "wave": Structure((16, 32), (64, 64), "fill", most=16, slots=4),
    "ascend": Structure((16, 128), (128, 128), "fill"),
    "intel_amx": Structure((16, 64), (128, 64), "eight"),
    "intel_xpu": Structure((16, 64), (128, 64), "fill"),
}
"""Sources: the launchers in FlashAttention, FlashInfer, FlashMLA and SGLang 0.5.23 that docs/model.md names."""


def plan_of(structure: Structure, call: Call) -> Plan:
    """Say what a backend of that structure launches."""
    attention, batch, machine = call.attention, call.batch, call.machine
    few = batch.phase in ("decode", "verify")
    rows, keys = structure.decode if few else _extend_tile(structure, attention, machine)
    group, heads = attention.group_size, attention.num_kv_heads
    if few and structure.pairs_ctas and group > rows:
        rows *= 2
    if not few and not structure.packs_extend:
        group, heads = 1, attention.num_qo_heads
    tiles: list[tuple[int, int]] = []
    joined = joined_tiles(call.requests, rows, group)
    for q, kv, count in call.requests:
        if attention.top_k:
            tiles += [(n, c * count) for n, c in _selected_tiles(attention, (q, kv), (rows, keys), group)]
        else:
            runs = query_runs(attention, (q, kv), (rows, keys), group, joined)
            tiles += [(n, width * count) for width, n in reversed(runs)]
    units = heads * sum(count for _, count in tiles)
    longest = max(n for n, _ in tiles)
    able = machine.capability >= structure.splits_from
    splits = _splits(structure, call, units, longest * keys) if few and able else 1
    splits = 1 if longest < structure.least_tiles else min(splits, longest, structure.most)
    if able and call.knobs.get("num_splits"):
        splits = min(call.number("num_splits"), longest)
    jobs: list[Job] = [job for n, count in tiles for job in split_jobs(n, splits, heads * count)]
    fp8 = structure.quantizes_queries and attention.kv_dtype.startswith("fp8")
    computed = replace(attention, dtype=attention.kv_dtype) if fp8 else attention
    tile = tile_work(machine, computed, rows, keys, batch.page_size)
    total = sum(count * n for count, n in jobs)
    out_rows = float(batch.total_q * attention.num_qo_heads)
    row_bytes = partial_row_bytes(attention)
    visits = units / (attention.num_kv_heads * batch.size)
    scattered = attention.top_k is not None and max(batch.q_lens) > 1
    running = call.work.kv_bytes if scattered else longest * tile.bytes * attention.num_kv_heads
    loads, products = _indexer(call)
    return Plan(
        variant="decode" if few else "extend",
        kernel=kernel_name(attention),
        jobs=merged_runs(jobs),
        tile=tile,
        slots_per_sm=structure.slots,
        dram_bytes=dram_bytes(call.work, total * tile.bytes, visits, running, machine),
        units=f"{count_of(heads, 'KV head')} x {count_of(units // heads, 'query tile')}",
        unit_count=units,
        num_splits=splits,
        merge_splits=splits,
        merge_launched=splits > 1,
        partial_rows=out_rows * splits if splits > 1 else 0.0,
        partial_row_bytes=row_bytes,
        requests=batch.size,
        extra_memory_seconds=loads if loads > products else 0.0,
        extra_compute_seconds=0.0 if loads > products else products,
        workspace_bytes=int(out_rows * splits * row_bytes) if splits > 1 else 0,
        splittable=structure.splits == "fill" and able,
    )


def _selected_tiles(
    attention: Attention, lens: tuple[int, int], tile: tuple[int, int], group: int
) -> Iterator[tuple[int, int]]:
    """Give `(KV tiles, query tiles)`, longest first: each token has its own selection, so that no tile holds two."""
    (q, kv), (rows, keys) = lens, tile
    selected, per_token = (attention.top_k or 0) * attention.block, ceil_div(group, rows)
    if not attention.causal:
        yield ceil_div(min(kv, selected), keys), per_token * q
        return
    whole = min(q, max(0, kv + 1 - selected))
    if whole:
        yield ceil_div(selected, keys), per_token * whole
    first, last = kv - q + 1, kv - whole
    for n in range(ceil_div(last, keys), (first - 1) // keys, -1):
        yield n, per_token * (min(last, n * keys) - max(first - 1, (n - 1) * keys))


def _indexer(call: Call) -> tuple[float, float]:
    """Seconds to load the index keys and to multiply them, at the device's peaks."""
    work, machine = call.work, call.machine
    return work.indexer_bytes / machine.memory_bytes_per_s, work.indexer_flops / machine.matrix_rate(INDEX_DTYPE)


def _extend_tile(structure: Structure, attention: Attention, machine: Machine) -> tuple[int, int]:
    """Query rows and keys; two query tiles of 128 rows only where tensor memory holds both scores and outputs."""
    rows, keys = structure.extend
    accumulators = rows * (keys + attention.value_dim) * DTYPE_BYTES["fp32"]
    if rows > ONE_QUERY_TILE and accumulators > machine.tensor_memory_bytes_per_sm:
        return ONE_QUERY_TILE, keys
    return rows, keys


def _splits(structure: Structure, call: Call, units: int, keys: int) -> int:
    match structure.splits:
        case "none":
            return 1
        case "eight":
            return 8
        case "by_256":
            return ceil_div(keys, 256)
        case "fill":
            return max(1, call.machine.sms * structure.slots // units)
