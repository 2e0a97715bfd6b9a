"""FlashMLA dense decode: equal payloads of 64-key blocks per part, requests walked in order."""

from dataclasses import replace

from costmodel.call import Call
from costmodel.plan import Assigned, Plan, TileWork, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div

BLOCK = 64
PIECE_BLOCKS = 5
"""Blocks that the schedule charges for starting a piece."""

DEQUANT_CLOCKS = 50
"""Cycles of one SM to turn a token's fp8 latent into bf16 (FlashMLA's notes on its fp8 kernel)."""


def plan(call: Call) -> Plan:
    """Say what FlashMLA's schedule gives each part."""
    attention, batch, machine = call.attention, call.batch, call.machine
    rows = (1 if attention.top_k else max(batch.q_lens)) * attention.group_size
    m_tiles = ceil_div(rows, BLOCK)
    parts = max(machine.sms // attention.num_kv_heads // m_tiles, 1)
    lens = blocks_of(call)
    total_blocks = sum((blocks + PIECE_BLOCKS) * count for blocks, count in lens)
    payload = ceil_div(total_blocks, parts) + PIECE_BLOCKS
    assigned, splits, cut_pieces = _walk(lens, payload, m_tiles * attention.num_kv_heads)
    tile = _tile(call)
    total = sum(tiles * slots for tiles, _, slots in assigned)
    jobs = sum(jobs * slots for _, jobs, slots in assigned)
    units = sum(count for _, count in lens) * m_tiles * attention.num_kv_heads
    row_bytes = 4.0 * (attention.value_dim + 1)
    return Plan(
        variant="mla_fp8" if attention.kv_dtype.startswith("fp8") else "mla",
        kernel=kernel_name(attention) + ("_sparse" if attention.top_k else ""),
        jobs=((jobs, total / jobs),),
        tile=tile,
        slots_per_sm=1,
        dram_bytes=call.work.bytes,
        units=f"{count_of(m_tiles, 'head block')} x {count_of(batch.size, 'request')}",
        unit_count=units,
        num_splits=splits,
        merge_splits=splits,
        merge_launched=True,
        partial_rows=float(cut_pieces * rows),
        partial_row_bytes=row_bytes,
        row_fill=batch.total_q * attention.num_qo_heads / (units * BLOCK),
        requests=batch.size,
        workspace_bytes=int((batch.size + parts) * rows * row_bytes),
        assigned=assigned,
        splittable=False,
    )


def blocks_of(call: Call) -> list[tuple[int, int]]:
    """Give `(blocks, requests)` in order; with a selection every query token walks its whole list, padding included."""
    top_k = call.attention.top_k
    if top_k is None:
        return [(ceil_div(kv, BLOCK), count) for _, kv, count in call.requests]
    return [(ceil_div(top_k, BLOCK), call.batch.total_q)]


def _tile(call: Call) -> TileWork:
    """Work of one tile; keys in fp8 are dequantised beside the products, one token after the other."""
    tile = tile_work(call.machine, call.attention, BLOCK, BLOCK, call.batch.page_size)
    if not call.attention.kv_dtype.startswith("fp8"):
        return tile
    return replace(tile, exp_seconds=max(tile.exp_seconds, BLOCK * DEQUANT_CLOCKS / call.machine.clock_hz))


def _walk(lens: list[tuple[int, int]], payload: int, copies: int) -> tuple[tuple[Assigned, ...], int, int]:
    """Fill parts one after the other; give loads, the most splits, and the pieces of cut requests.

    Args:
        lens: `(blocks, requests)` in order.
        payload: Blocks that one part is charged, the start of pieces included.
        copies: Parts with the same work.
    """
    loads: dict[tuple[int, int], int] = {}
    room, tiles, jobs = payload, 0, 0
    most, pieces = 1, 0
    for blocks, count in lens:
        left, splits = count * blocks, 0
        while left > 0:
            if room <= PIECE_BLOCKS:
                loads[tiles, jobs] = loads.get((tiles, jobs), 0) + copies
                room, tiles, jobs = payload, 0, 0
            rest = left % blocks or blocks
            whole = room // (blocks + PIECE_BLOCKS) if rest == blocks else 0
            if whole:
                whole = min(whole, left // blocks)
                piece, started = whole * blocks, whole
            else:
                piece, started = min(rest, room - PIECE_BLOCKS), 1
                splits = splits + 1 if rest < blocks else 1
                if piece == rest:
                    pieces += splits if splits > 1 else 0
                    most = max(most, splits)
            tiles += piece
            jobs += started
            room -= piece + started * PIECE_BLOCKS
            left -= piece
    if jobs:
        loads[tiles, jobs] = loads.get((tiles, jobs), 0) + copies
    return tuple((float(t), j, n) for (t, j), n in loads.items()), most, pieces
