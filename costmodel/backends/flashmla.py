"""FlashMLA dense decode: equal payloads of 64-key blocks per part, requests walked in order."""

from costmodel.call import Call
from costmodel.plan import Assigned, Plan, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div

BLOCK = 64
PIECE_BLOCKS = 5
"""Blocks that the schedule charges for starting a piece."""


def plan(call: Call) -> Plan:
    """Say what FlashMLA's schedule gives each part."""
    attention, batch, machine = call.attention, call.batch, call.machine
    rows = max(batch.q_lens) * attention.group_size
    m_tiles = ceil_div(rows, BLOCK)
    parts = max(machine.sms // attention.num_kv_heads // m_tiles, 1)
    lens = [ceil_div(kv, BLOCK) for _, kv, count in call.requests for _ in range(count)]
    payload = ceil_div(sum(lens) + PIECE_BLOCKS * len(lens), parts) + PIECE_BLOCKS
    assigned, splits, cut_pieces = _walk(lens, parts, payload, m_tiles * attention.num_kv_heads)
    tile = tile_work(machine, attention, BLOCK, BLOCK, batch.page_size)
    total = sum(tiles * slots for tiles, _, slots in assigned)
    jobs = sum(jobs * slots for _, jobs, slots in assigned)
    units = batch.size * m_tiles * attention.num_kv_heads
    row_bytes = 4.0 * (attention.value_dim + 1)
    return Plan(
        variant="mla",
        kernel=kernel_name(attention),
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


def _walk(lens: list[int], parts: int, payload: int, copies: int) -> tuple[tuple[Assigned, ...], int, int]:
    """Fill parts one after the other; give loads, the most splits, and the pieces of cut requests."""
    loads: dict[tuple[int, int], int] = {}
    room, tiles, jobs = payload, 0, 0
    most = pieces = 0
    for blocks in lens:
        left, splits = blocks, 0
        while left > 0:
            if room - PIECE_BLOCKS <= 0:
                loads[tiles, jobs] = loads.get((tiles, jobs), 0) + copies
                room, tiles, jobs = payload, 0, 0
            piece = min(left, room - PIECE_BLOCKS)
            tiles += piece
            jobs += 1
            room -= piece + PIECE_BLOCKS
            left -= piece
            splits += 1
        pieces += splits if splits > 1 else 0
        most = max(most, splits)
    if jobs:
        loads[tiles, jobs] = loads.get((tiles, jobs), 0) + copies
    return tuple((float(t), j, n) for (t, j), n in loads.items()), most, pieces
