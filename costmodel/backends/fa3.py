"""FlashAttention-3: one persistent CTA per SM, tiles by head dim, static and per-request split counts."""

from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from costmodel.attention import Attention
from costmodel.backends import fa3_ampere
from costmodel.call import Call
from costmodel.plan import Job, Plan, TileWork, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, dram_bytes, joined_tiles, merged_runs, partial_row_bytes, query_runs, split_jobs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T", int, "NDArray[np.int64]")

MAX_SPLITS = 128
BEFORE_HOPPER = 8
"""Major compute capability of the kernels without TMA and specialised warps."""
SOFT_CAP_TIME = 1.4
"""Softmax with a cap over softmax without: the hyperbolic tangent is one instruction, the others stay as they are."""
COMPILED_DIMS = (64, 96, 128, 192, 256)
"""Head dims that kernels exist for; others run in the next larger one."""
DYNAMIC_MAX_REQUESTS = 992
"""Requests that the device-side scheduler handles in one block; beyond, it does not split."""
HEAD_L2_BYTES = 50 * 2**20
WHOLE_TILES = 4
"""KV tiles up to which a request is not split."""
METADATA_SECONDS, SORT_SECONDS = 2.0e-6, 1.0e-6
"""The scheduler kernel inside the call, when it decides splits and when it only sorts."""


def plan(call: Call) -> Plan:
    """Say what FlashAttention-3 launches for a paged, variable-length call."""
    attention, machine = call.attention, call.machine
    tile_m, tile_n = tile_size(attention, machine.capability)
    group = packed_heads(call, (tile_m, tile_n))
    heads = attention.num_qo_heads // group
    per_request = _tiles_of_requests(call, (tile_m, tile_n), group)
    most_m, most_n = ceil_div(max(call.batch.q_lens) * group, tile_m), _longest(per_request)
    static = call.number("num_splits") or static_splits(call, heads, most_m, loaded_tiles(call, (tile_m, tile_n)))
    if static == 1 and machine.capability[0] == BEFORE_HOPPER:
        tile_m, tile_n = tile_size(attention, machine.capability, split=False)
        per_request = _tiles_of_requests(call, (tile_m, tile_n), group)
        most_n = _longest(per_request)
    query_tiles = [sum([width for width, _ in tiles]) * count for tiles, _, count in per_request]
    total = sum(n * whole for n, (_, whole, _) in zip(query_tiles, per_request, strict=True))
    dynamic = call.batch.size <= DYNAMIC_MAX_REQUESTS and static > 1
    counted = counted_heads(call, heads)
    per_sm = max(1, ceil(1.1 * total * counted / machine.sms)) if dynamic else 1
    requests: list[tuple[int, list[Job]]] = []
    splits, merged, partial_rows = 1, 1, 0.0
    for (q, _, _), (tiles, whole, count) in zip(call.requests, per_request, strict=True):
        chosen = min(max(ceil_div(whole, per_sm), 1), static) if dynamic else 1
        last = tiles[-1][1]
        parts = ceil_div(last, ceil_div(last, chosen))
        splits, merged = max(splits, chosen), max(merged, parts)
        partial_rows += parts * q * count * attention.num_qo_heads if chosen > 1 else 0.0
        jobs = [job for width, n in reversed(tiles) for job in split_jobs(n, chosen, heads * count * width)]
        requests.append((ceil_div(tiles[0][1], chosen), jobs))
    if attention.sliding_window is None:
        requests.sort(key=lambda request: -request[0])
    jobs = [job for _, own in requests for job in own]
    if call.batch.uniform and most_m == 1:
        jobs.sort(key=lambda job: -job[1])
    tile = _tile(call, tile_m, tile_n)
    loaded = sum(sum([width * n for width, n in tiles]) * count for tiles, _, count in per_request)
    rows = float(call.batch.total_q * attention.num_qo_heads)
    units = heads * sum(query_tiles)
    visits = units / (attention.num_kv_heads * call.batch.size)
    running = most_n * tile.bytes * min(max(machine.sms / most_m, 1.0), heads)
    return Plan(
        variant=_variant(call),
        kernel=kernel_name(attention, call.batch) + ("_tma" if loads_by_tma(call, (tile_m, tile_n)) else ""),
        jobs=merged_runs(jobs),
        tile=tile,
        slots_per_sm=_slots(call, split=static > 1),
        dram_bytes=dram_bytes(call.work, heads * loaded * tile.bytes, visits, running, machine),
        units=f"{count_of(heads, 'KV head' if group > 1 else 'head')} x {_request_tiles(call, units // heads)}",
        unit_count=units,
        num_splits=splits,
        merge_splits=merged,
        merge_slots=int(merge_slots_of(static)),
        merge_launched=static > 1,
        partial_rows=partial_rows,
        partial_row_bytes=partial_row_bytes(attention),
        empty_ctas=heads * most_m * call.batch.size - units if static > 1 else 0,
        row_fill=rows / (units * tile_m),
        requests=call.batch.size,
        extra_seconds=(METADATA_SECONDS if static > 1 else SORT_SECONDS) if schedules_in_call(call) else 0.0,
        workspace_bytes=int(static * rows * partial_row_bytes(attention)) if static > 1 else 0,
    )


RequestTiles = list[tuple[list[tuple[int, int]], int, int]]
"""Runs of query tiles, KV tiles of the whole request, and how many requests are like that."""


def _tiles_of_requests(call: Call, tile: tuple[int, int], group: int) -> RequestTiles:
    joined = joined_tiles(call.requests, tile[0], group)
    return [
        (query_runs(call.attention, (q, kv), tile, group, joined), ceil_div(kv, tile[1]), count)
        for q, kv, count in call.requests
    ]


def _longest(requests: RequestTiles) -> int:
    """KV tiles of the query tile that has most."""
    return max(n for tiles, _, _ in requests for _, n in tiles)


def _slots(call: Call, *, split: bool) -> int:
    capability = call.machine.capability
    if capability[0] != BEFORE_HOPPER or call.attention.is_latent:
        return 1
    return fa3_ampere.slots_per_sm(fa3_ampere.tile_and_warps(call.attention, capability, split=split)[2])


def _variant(call: Call) -> str:
    if call.attention.is_latent:
        return "mla"
    phase = "decode" if call.batch.phase == "decode" else "extend"
    return f"{phase}_mma_sync" if call.machine.capability[0] == BEFORE_HOPPER else phase


def _tile(call: Call, rows: int, keys: int) -> TileWork:
    """Work of one tile: products on head dims as compiled, and in fp8 where the cache is; loads as stored."""
    attention, page = call.attention, call.batch.page_size
    tile = tile_work(call.machine, _compiled(attention), rows, keys, page)
    stored = tile_work(call.machine, attention, rows, keys, page).bytes
    exps = tile.exp_seconds * (SOFT_CAP_TIME / 2 if attention.logit_soft_cap else 1)
    return TileWork(rows, keys, stored, tile.matrix_seconds, exps, tile.pages)


@lru_cache(maxsize=1024)
def _compiled(attention: Attention) -> Attention:
    """Give the attention as the kernel is compiled for it."""
    dtype = attention.kv_dtype if attention.kv_dtype.startswith("fp8") else attention.dtype
    if attention.is_latent:
        return replace(attention, dtype=dtype)
    dims = [next((d for d in COMPILED_DIMS if d >= dim), dim) for dim in (attention.head_dim, attention.value_dim)]
    return replace(attention, head_dim=dims[0], v_head_dim=dims[1], dtype=dtype)


def merge_slots_of(static: T) -> T:
    """Splits that the merge kernel is compiled for: the next power of two from 16 to 256."""
    return (static > 1) * (16 * (1 + (static > 16) + 2 * (static > 32) + 4 * (static > 64) + 8 * (static > 128)))


def packed_heads(call: Call, tile: tuple[int, int]) -> int:
    """Query heads in one tile: as asked where TMA loads and KV is not split, else always the whole group."""
    if call.knobs["pack_gqa"] is not False:
        return call.attention.group_size
    return 1 if loads_by_tma(call, tile) or _is_whole_latent(call, tile) else call.attention.group_size


def _is_whole_latent(call: Call, tile: tuple[int, int]) -> bool:
    """Whether an MLA call, recorded on contiguous KV, which TMA loads, is not split."""
    if not call.attention.is_latent or call.machine.capability[0] == BEFORE_HOPPER:
        return False
    rows = ceil_div(max(call.batch.q_lens), tile[0])
    asked = call.number("num_splits")
    return (asked or static_splits(call, call.attention.num_qo_heads, rows, loaded_tiles(call, tile))) == 1


def loads_by_tma(call: Call, tile: tuple[int, int]) -> bool:
    """Whether pages are loaded by TMA: they hold whole tiles, and the packed rows of a request fill more than one."""
    rows, keys = tile
    if call.machine.capability[0] == BEFORE_HOPPER:
        return False
    return call.batch.page_size % keys == 0 and max(call.batch.q_lens) * call.attention.group_size > rows


def counted_heads(call: Call, heads: int) -> int:
    """Heads that the scheduler kernel counts: unpacked when asked, although paged kernels pack them anyway."""
    unpacked = call.knobs["pack_gqa"] is False and not call.attention.is_latent
    return call.attention.num_qo_heads if unpacked else heads


def schedules_in_call(call: Call) -> bool:
    """Whether the scheduler kernel runs inside the call: everywhere but in plain decode with metadata at hand."""
    attention = call.attention
    plain = attention.sliding_window is None and attention.chunk_size is None and not attention.is_latent
    return call.batch.phase != "decode" or not plain or call.knobs["scheduler_metadata"] == "per_call"


def static_splits(call: Call, heads: int, m_tiles: int, n_tiles: int) -> int:
    """Give the split count that the host sets as upper bound, from one request's units of work."""
    attention = call.attention
    requests = 1 if call.batch.size <= DYNAMIC_MAX_REQUESTS else call.batch.size
    masked = attention.causal or attention.sliding_window is not None
    units = requests * heads * m_tiles
    if units >= 0.8 * call.machine.sms:
        head_bytes = max(call.batch.kv_lens) * attention.kv_bytes_per_token / attention.num_kv_heads
        if head_bytes > HEAD_L2_BYTES and m_tiles >= 2 * call.machine.sms and not masked:
            return min(ceil_div(int(head_bytes), HEAD_L2_BYTES), MAX_SPLITS)
        return 1
    if n_tiles <= WHOLE_TILES:
        return 1
    return efficient_splits(units, call.machine.sms, min(MAX_SPLITS, call.machine.sms, n_tiles))


def loaded_tiles(call: Call, tile: tuple[int, int]) -> int:
    """KV tiles that the host takes one query tile to load: under a window its width and one tile of queries."""
    longest, window = max(call.batch.kv_lens), call.attention.sliding_window
    return ceil_div(longest if window is None else min(longest, window + tile[0]), tile[1])


@lru_cache(maxsize=65536)
def efficient_splits(units: int, sms: int, most: int) -> int:
    """Smallest count whose waves are at least 85 % as full as the best count's."""
    efficiency = [units * s / sms / ceil_div(units * s, sms) for s in range(1, most + 1)]
    goal = 0.85 * max(efficiency)
    return next(s for s, e in enumerate(efficiency, 1) if e >= goal)


def tile_size(attention: Attention, capability: tuple[int, int], *, split: bool = True) -> tuple[int, int]:
    """Query rows and keys of a tile for a paged call without TMA (pages below a tile, or few packed rows)."""
    if attention.is_latent:
        return (64, 64)
    dim, windowed = attention.head_dim, attention.sliding_window is not None
    if capability[0] == BEFORE_HOPPER:
        return fa3_ampere.tile_and_warps(attention, capability, split=split)[:2]
    if attention.kv_dtype.startswith("fp8"):
        return _fp8_tile(dim, windowed)
    if dim <= 64:
        return (192, 128)
    if dim <= 96:
        return (192, 128)
    if dim <= 128:
        return (128, 128)
    if dim <= 192:
        return (128, 96)
    return (128, 64 if windowed else 80)


def _fp8_tile(dim: int, windowed: bool) -> tuple[int, int]:
    if dim <= 64:
        return (192, 160)
    if dim <= 96:
        return (192, 128)
    if dim <= 128:
        return (128, 160)
    if dim <= 192:
        return (128, 128 if windowed else 160)
    return (128, 64 if windowed else 128)


def _request_tiles(call: Call, tiles: int) -> str:
    requests = count_of(call.batch.size, "request")
    if tiles == call.batch.size:
        return requests
    return f"{requests} ({count_of(tiles, 'query tile')})"
