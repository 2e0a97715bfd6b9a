"""The project's own Triton kernels: packed query heads, KV in equal parts, a merge only where something is split."""

from costmodel.backends.attnroof_splits import own_splits, pace_of
from costmodel.backends.attnroof_tile import MATRIX_ROWS, Tile, by_head, choose_tile
from costmodel.call import Call
from costmodel.plan import Job, Plan, count_of, kernel_name, tile_work
from costmodel.tiles import ceil_div, dram_bytes, joined_tiles, merged_runs, partial_row_bytes, query_runs

MOST_ROWS_PER_WARP = 16


def plan(call: Call) -> Plan:
    """Say what the project's own kernels launch."""
    attention, batch, machine = call.attention, call.batch, call.machine
    heads, group = attention.num_kv_heads, attention.group_size
    chosen = choose_tile(call)
    counts: dict[int, int] = {}
    split_rows: dict[int, float] = {}
    joined = joined_tiles(call.requests, chosen.rows, group)
    for q, kv, count in call.requests:
        rows_each = q * group / ceil_div(q * group, chosen.rows)
        for width, n in query_runs(attention, (q, kv), (chosen.rows, chosen.keys), group, joined):
            counts[n] = counts.get(n, 0) + width * count * heads
            split_rows[n] = split_rows.get(n, 0.0) + width * count * heads * rows_each
    lengths = sorted(counts.items(), reverse=True)
    longest, units = lengths[0][0], sum(counts.values())
    splits = call.number("num_splits") or own_splits(pace_of(call, chosen), lengths)
    size = ceil_div(longest, min(splits, longest))
    jobs: list[Job] = []
    for n, count in lengths:
        parts = ceil_div(n, size)
        part, rest = divmod(n, parts)
        jobs.extend([(count * rest, part + 1), (count * (parts - rest), part)] if rest else [(count * parts, part)])
    jobs.sort(key=lambda job: -job[1])
    most_parts = ceil_div(longest, size)
    partial = sum(split_rows[n] * ceil_div(n, size) for n in counts if n > size)
    tile = tile_work(machine, attention, chosen.rows, chosen.keys, batch.page_size if chosen.gathered else chosen.keys)
    requested = sum(n * count for n, count in lengths) * tile.bytes
    together = 1 if by_head(call, chosen) else heads
    row_bytes = partial_row_bytes(attention)
    return Plan(
        variant=_variant(call, chosen),
        kernel=_kernel(call, chosen),
        jobs=merged_runs(jobs),
        tile=tile,
        slots_per_sm=chosen.programs_per_sm,
        dram_bytes=dram_bytes(
            call.work, requested, units / (heads * batch.size), longest * tile.bytes * together, machine
        ),
        units=f"{count_of(heads, 'KV head')} x {count_of(units // heads, 'query tile')}",
        unit_count=units,
        num_splits=most_parts,
        merge_splits=most_parts,
        merge_launched=most_parts > 1,
        merged_rows=sum(split_rows[n] for n in counts if n > size),
        partial_rows=partial,
        partial_row_bytes=row_bytes,
        row_fill=min(1.0, batch.total_q * group * heads / (units * chosen.rows)),
        requests=batch.size,
        workspace_bytes=int(partial * row_bytes),
    )


def _kernel(call: Call, tile: Tile) -> str:
    """Name the kernel by its path too; with many rows a warp its sums no longer fit the registers."""
    gathered, spilled = tile.gathered, tile.rows > MOST_ROWS_PER_WARP * tile.warps
    return kernel_name(call.attention, call.batch) + "_gather" * gathered + "_spilled" * spilled


def _variant(call: Call, tile: Tile) -> str:
    if call.attention.is_latent:
        return "mla" if tile.specialized else "mla_plain"
    return "extend" if tile.rows >= MATRIX_ROWS else "decode"
