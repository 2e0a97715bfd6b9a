"""SGLang's Triton kernels: the dynamic split rule of decode, and extend without a KV split."""

from dataclasses import replace
from math import log2

from costmodel.attention import Attention
from costmodel.call import Call
from costmodel.machine import NO_CUDA
from costmodel.plan import Job, Plan, converting_tile, count_of, kernel_name
from costmodel.tiles import ceil_div, dram_bytes, joined_tiles, kv_range, merged_runs, missing, partial_row_bytes
from costmodel.work import sees_all_before

MIN_BLOCK_KV = 32
HEAD_ROWS = 16
MLA_CONTEXT_STEP = 32
PREFIX_WEIGHT = 1.2
"""Cost of a tile of the cached prefix, whose keys are gathered by index, over one of new tokens (seen on an H200)."""
FAR_PREFIX = 0.2
"""How much longer a prefix tile takes whose keys the L2 does not hold: nothing is loaded ahead (seen on an H200)."""
WINDOW_WEIGHT = 2.1
"""Cost of a tile under a window, whose mask is built for every pair, over one without (seen on an H200)."""
EXTEND_SLOTS = 2
EXTEND_KEYS_IN_FLIGHT = 64
"""Keys of an extend tile on the device whose load rates were fitted. The loop has one stage, so that a tile with more
keys has more bytes in flight and its loads take no longer."""
REGISTER_SLOTS = 6
"""CTAs of decode that the registers of one SM hold."""
SMALL_HEAD, SMALL_HEAD_SLOTS = 64, 8
"""Head dims up to which the kernel needs fewer registers (seen on an H200)."""
HEAVY_GROUP, HEAVY_SLOTS = 8, 5
"""The kernel compiled for groups of 8 and pages of one token needs more registers (seen on an H200)."""
RESERVED_SHARED_BYTES = 1024


def plan(call: Call) -> Plan:
    """Say what SGLang's Triton backend launches."""
    return _plan_decode(call) if call.single_query and call.batch.phase == "decode" else _plan_extend(call)


def split_counts(call: Call) -> list[int]:
    """Splits of each group of equal requests, as the rule on the device gives them."""
    attention, sms = call.attention, call.machine.sms
    cap = split_cap(call)
    lens = [kv for _, kv, _ in call.requests]
    if tokens := call.number("split_tile_size"):
        return [ceil_div(n, tokens) for n in lens]
    if call.knobs["split_mode"] == "fixed":
        return [cap] * len(lens)
    longest, shortest = max(lens), min(lens)
    if longest * 8 < shortest * 10:
        shortest = longest
    level = ceil_div(longest, min(ceil_div(longest, shortest), cap))
    cores = int(sms * max(log2(longest / 64), 1.0))
    grid = call.batch.size * head_blocks(attention)
    fill = ceil_div(longest, min(ceil_div(cores, grid), cap))
    return [min(cap, max(ceil_div(n, level), ceil_div(n, fill))) for n in lens]


def split_cap(call: Call) -> int:
    """The largest split count: the knob, raised for MLA as SGLang does; splits of fixed size: what a context needs."""
    if tokens := call.number("split_tile_size"):
        return ceil_div(max(call.number("context_len"), *call.batch.kv_lens), tokens)
    knob = call.number("max_kv_splits")
    if not call.attention.is_latent:
        return knob
    context = max(call.batch.kv_lens)
    return max(knob, min(_pow2(call.machine.sms), _pow2(ceil_div(context, MLA_CONTEXT_STEP))))


def head_blocks(attention: Attention) -> int:
    """Blocks of query heads for one request."""
    if attention.group_size == 1:
        return attention.num_qo_heads
    return ceil_div(attention.num_qo_heads, min(HEAD_ROWS, attention.group_size))


def part_tiles(attention: Attention, lens: tuple[int, int], splits: int, keys: int) -> list[int]:
    """KV tiles of each part of one request, `lens` its new and visible tokens; parts without work are left out."""
    seen = lens[1]
    if not sees_all_before(attention):
        first, end = kv_range(attention, *lens, (0, lens[0]))
        seen = end - first
    size = MIN_BLOCK_KV * ceil_div(ceil_div(seen, splits), MIN_BLOCK_KV)
    full, rest = divmod(seen, size)
    return [ceil_div(size, keys)] * full + [ceil_div(rest, keys)] * bool(rest)


def _plan_decode(call: Call) -> Plan:
    attention, batch, machine = call.attention, call.batch, call.machine
    grouped = attention.group_size > 1
    keys, rows = (32, HEAD_ROWS) if grouped else (64, 1)
    blocks = head_blocks(attention)
    counts = split_counts(call)
    cap = split_cap(call)
    sizes: dict[tuple[int, int], list[int]] = {}
    used = parts = 0
    for (q, kv, count), splits in zip(call.requests, counts, strict=True):
        sizes[q, kv] = part_tiles(attention, (q, kv), splits, keys)
        used += count * blocks * len(sizes[q, kv])
        parts += count * len(sizes[q, kv])
    most_parts = max(len(tiles) for tiles in sizes.values())
    arrivals = [(count * blocks, sizes[q, kv]) for q, kv, count in call.arrivals]
    jobs: list[Job] = [
        (count, tiles[part]) for part in range(most_parts) for count, tiles in arrivals if part < len(tiles)
    ]
    tile = converting_tile(machine, attention, rows, keys, batch.page_size)
    heavy = attention.group_size == HEAVY_GROUP and batch.page_size == 1
    small = attention.head_dim <= SMALL_HEAD
    registers = SMALL_HEAD_SLOTS if small else HEAVY_SLOTS if heavy else REGISTER_SLOTS
    stages = 1 if machine.capability == NO_CUDA else 2
    shared = stages * tile.bytes + RESERVED_SHARED_BYTES
    slots = max(1, min(registers, int(machine.shared_bytes_per_sm // shared)))
    visits = blocks / attention.num_kv_heads
    row_bytes = partial_row_bytes(attention)
    return Plan(
        variant="mla" if attention.is_latent else "decode_grouped" if grouped else "decode",
        kernel=kernel_name(attention, batch),
        jobs=merged_runs(jobs),
        tile=tile,
        slots_per_sm=slots,
        dram_bytes=dram_bytes(call.work, visits * call.work.kv_bytes, visits, call.work.kv_bytes, machine),
        units=f"{count_of(blocks, 'head block')} x {count_of(batch.size, 'request')}",
        unit_count=blocks * batch.size,
        num_splits=max(counts),
        merge_splits=most_parts,
        merge_slots=cap,
        merge_launched=True,
        merged_rows=float(batch.size * attention.num_qo_heads),
        partial_rows=float(parts * attention.num_qo_heads),
        partial_row_bytes=row_bytes,
        requests=batch.size,
        empty_ctas=max(0, cap * blocks * batch.size - used),
        workspace_bytes=int(batch.size * attention.num_qo_heads * cap * row_bytes),
    )


def extend_tile(attention: Attention, capability: tuple[int, int]) -> tuple[int, int]:
    """Query rows and keys of an extend tile."""
    dim = attention.head_dim
    size = 0 if dim <= 128 else 1 if dim <= 256 else 2
    if capability[0] == 12 or capability in ((8, 6), (8, 9)):
        return ((64, 128), (64, 64), (32, 32))[size]
    if capability[0] == 10:
        return ((64, 64), (64, 64), (16, 64))[size]
    if capability[0] == 9:
        return ((128, 64), (64, 64), (32, 64))[size]
    if capability[0] == 8:
        return ((128, 128), (64, 64), (32, 64))[size]
    if capability[0] == 0:
        return (64, 64)
    return ((64, 64), (32, 32), (32, 32))[size]


def _plan_extend(call: Call) -> Plan:
    attention, batch, machine = call.attention, call.batch, call.machine
    rows, keys = extend_tile(attention, machine.capability)
    heads = attention.num_qo_heads
    most = ceil_div(max(batch.q_lens), rows)
    masked = 1.0 if attention.sliding_window is None else WINDOW_WEIGHT
    new_weight = masked * (PREFIX_WEIGHT if call.knobs.get("unified_extend") else 1.0)
    prefix_weight = masked * PREFIX_WEIGHT * (1 + FAR_PREFIX * missing(call.work.kv_bytes, machine))

    def tiles(q: int, kv: int, block: int) -> float:
        first, end = kv_range(attention, q, kv, (block * rows, min(q, (block + 1) * rows)))
        prefix = max(0, kv - q - first)
        new = max(end - max(first, kv - q), 1)
        return prefix_weight * ceil_div(prefix, keys) + new_weight * ceil_div(new, keys)

    joined = joined_tiles(call.requests, rows, 1)
    jobs: list[Job] = []
    for i in range(0, most, joined):
        for q, kv, count in call.requests:
            width = min(joined, ceil_div(q, rows) - i)
            if width == 1:
                jobs.append((count * heads, tiles(q, kv, i)))
            elif width > 1:
                jobs.append((width * count * heads, (tiles(q, kv, i) + tiles(q, kv, i + width - 1)) / 2))
    runs = merged_runs(jobs)
    tile = converting_tile(machine, attention, rows, keys, batch.page_size)
    total = sum(count * n for count, n in runs)
    used = sum(count for count, _ in runs)
    visits = used / (attention.num_kv_heads * batch.size)
    by_group = total * tile.bytes * (1 - 1 / attention.group_size)
    by_rows = total * tile.bytes / attention.group_size
    head_bytes = call.work.kv_bytes / attention.num_kv_heads
    traffic = missing(head_bytes, machine) * by_group + dram_bytes(
        call.work, by_rows, visits / attention.group_size, call.work.kv_bytes, machine
    )
    return Plan(
        variant="extend",
        kernel=kernel_name(attention, batch),
        jobs=runs,
        tile=replace(tile, bytes=tile.bytes * EXTEND_KEYS_IN_FLIGHT / keys),
        slots_per_sm=EXTEND_SLOTS,
        dram_bytes=traffic,
        row_fill=batch.total_q * heads / (used * rows),
        units=f"{count_of(heads, 'head')} x {count_of(used // heads, 'query tile')}",
        unit_count=used,
        requests=batch.size,
        empty_ctas=most * heads * batch.size - used,
        splittable=False,
    )


def _pow2(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
