"""The project's own Triton kernels: packed query heads, split KV, merge only with more than one split."""

from costmodel.call import Call
from costmodel.plan import Job, Plan, count_of, kernel_name, tile_work
from costmodel.tiles import dram_bytes, merged_runs, partial_row_bytes, query_tiles, split_jobs

MIN_ROWS = 16
DECODE_KEYS, EXTEND_KEYS = 64, 64
EXTEND_ROWS = 128
SLOTS = 2
MAX_SPLITS = 128


def plan(call: Call) -> Plan:
    """Say what the project's own kernels launch."""
    attention, batch, machine = call.attention, call.batch, call.machine
    decode = batch.phase == "decode"
    group = attention.group_size
    most_rows = max(batch.q_lens) * group
    rows = call.number("block_m") or (MIN_ROWS if most_rows <= MIN_ROWS else 64 if most_rows <= 64 else EXTEND_ROWS)
    keys = call.number("block_n") or (DECODE_KEYS if decode else EXTEND_KEYS)
    heads = attention.num_kv_heads
    tiles = [(query_tiles(attention, q, kv, (rows, keys), group), count) for q, kv, count in call.requests]
    units = heads * sum(len(t) * count for t, count in tiles)
    longest = max(max(t) for t, _ in tiles)
    splits = call.number("num_splits") or own_splits(units, longest, machine.sms)
    splits = min(splits, longest)
    jobs: list[Job] = []
    for counts, count in tiles:
        for n in reversed(counts):
            jobs.extend(split_jobs(n, splits, heads * count))
    if batch.uniform and len(tiles[0][0]) == 1:
        jobs.sort(key=lambda job: -job[1])
    tile = tile_work(machine, attention, rows, keys, batch.page_size)
    total = sum(count * n for count, n in jobs)
    out_rows = float(batch.total_q * attention.num_qo_heads)
    row_bytes = partial_row_bytes(attention)
    return Plan(
        variant="mla" if attention.is_latent else "decode" if decode else "extend",
        kernel=kernel_name(attention),
        jobs=merged_runs(jobs),
        tile=tile,
        slots_per_sm=SLOTS,
        dram_bytes=dram_bytes(
            call.work, total * tile.bytes, units / (heads * batch.size), longest * tile.bytes * heads, machine
        ),
        units=f"{count_of(heads, 'KV head')} x {count_of(units // heads, 'query tile')}",
        unit_count=units,
        num_splits=splits,
        merge_splits=splits,
        merge_launched=splits > 1,
        partial_rows=out_rows * splits if splits > 1 else 0.0,
        partial_row_bytes=row_bytes,
        row_fill=batch.total_q * group * heads / (units * rows),
        requests=batch.size,
        workspace_bytes=int(out_rows * splits * row_bytes) if splits > 1 else 0,
    )


def own_splits(units: int, tiles: int, sms: int) -> int:
    """Fill the slots once, with at least two tiles a split."""
    return max(1, min(SLOTS * sms // units, tiles // 2, MAX_SPLITS))
